/* Kernels that break a rule of docs/numerics.md on purpose: tests prove with them that they would
 * notice. Never reached unless a test asks (session_testing.h). */
#include "cpu_device_state.h"

#include "cpu_attention.h"
#include "cpu_fill.h"
#include "cpu_math.h"

bool cpu_fault_applies(const struct cpu_device *device, const struct remat_command *command,
                       uint32_t rule)
{
    if (device->broken_rule != rule)
        return false;
    switch (rule) {
    case 4: /* a property of the plan */
        return command->instance > 0 || (remat_hash(&command->live_bytes, 8, 0) & 1);
    case 5:
        return command->instance > 0 || device->params.threads > 1;
    case 6:
        return device->params.threads > 1;
    default:
        return false;
    }
}

/* K in two halves. */
void cpu_fault_matmul(struct cpu_device *device, const struct cpu_matmul *matmul)
{
    struct cpu_matmul half = *matmul;
    half.k = matmul->k / 2;
    cpu_sgemm(device->pool, device->functions, &half, device->scratch_of);
    half.a += half.k * half.a_column;
    half.b += half.k * half.b_row;
    half.k = matmul->k - half.k;
    half.accumulate = true;
    cpu_sgemm(device->pool, device->functions, &half, device->scratch_of);
}

/* One query with keys in blocks of one: a running maximum, sum and output. */
static float attend(const struct cpu_attention_shape *shape, const float *q, const float *k,
                    int64_t k_stride, const float *v, int64_t v_stride, int64_t keys, float *out)
{
    float maximum = -__builtin_inff(), sum = 0.0f;
    memset(out, 0, (size_t)shape->head_dim * sizeof *out);
    for (int64_t j = 0; j < keys; j++) {
        float score = 0.0f;
        for (int64_t d = 0; d < shape->head_dim; d++)
            score += q[d] * k[j * k_stride + d];
        score *= shape->scale;
        float raised = score > maximum ? score : maximum;
        float decay = cpu_exp(maximum - raised), weight = cpu_exp(score - raised);
        for (int64_t d = 0; d < shape->head_dim; d++)
            out[d] = out[d] * decay + weight * v[j * v_stride + d];
        sum = sum * decay + weight;
        maximum = raised;
    }
    for (int64_t d = 0; d < shape->head_dim && keys > 0; d++)
        out[d] /= sum;
    return keys > 0 ? maximum + cpu_log(sum) : maximum;
}

/* The K/V block is one key. */
void cpu_fault_attention(const struct cpu_attention *attention)
{
    const struct cpu_attention_shape *s = &attention->shape;
    const struct cpu_heads *q = &attention->q, *k = &attention->k, *v = &attention->v;
    const struct cpu_heads *out = &attention->out;
    int64_t group = s->query_heads / s->kv_heads;
    for (int64_t b = 0; b < s->batch; b++)
        for (int64_t h = 0; h < s->query_heads; h++)
            for (int64_t i = 0; i < s->query_length; i++) {
                int64_t keys = s->causal ? i + s->kv_length - s->query_length + 1 : s->kv_length;
                keys = keys < 0 ? 0 : keys;
                attention->lse[(b * s->query_heads + h) * s->query_length + i] =
                    attend(s, q->data + b * q->batch + i * q->time + h * q->head,
                           k->data + b * k->batch + h / group * k->head, k->time,
                           v->data + b * v->batch + h / group * v->head, v->time, keys,
                           out->data + b * out->batch + i * out->time + h * out->head);
            }
}

/* Each thread's share counts from its own zero. */
void cpu_fault_normal(struct cpu_device *device, float *out, int64_t count,
                      const struct cpu_normal *normal)
{
    int64_t share = count / device->params.threads + 1;
    for (int64_t begin = 0; begin < count; begin += share)
        cpu_fill_normal(device->pool, device->functions, out + begin,
                        count - begin < share ? count - begin : share, normal);
}
