/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels that break a rule of docs/numerics.md on purpose: tests prove with them that they would
 * notice. Never reached unless a test asks (session_testing.h). */
#include "cpu_device_state.h"

#include "cpu_attention.h"
#include "cpu_bf16.h"
#include "cpu_fill.h"

bool cpu_fault_applies(const struct cpu_device *device, const struct remat_command *command,
                       uint32_t rule)
{
    if (device->broken_rule != rule)
        return false;
    switch (rule) {
    case 4: /* a property of the plan */
        return command->instance > 0 || (remat_hash(&command->live_bytes, 8, 0) & 1);
    case 5:
        return command->instance > 0 || device->base.params.threads > 1;
    case 6:
        return device->base.params.threads > 1;
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
    half.a = cpu_element_at(half.a, half.a_type, half.k * half.a_column);
    half.b = cpu_element_at(half.b, half.b_type, half.k * half.b_row);
    half.k = matmul->k - half.k;
    half.accumulate = true;
    cpu_sgemm(device->pool, device->functions, &half, device->scratch_of);
}

/* --- attention in blocks of one key --- */

struct query { /* of head h, in the batch entry b */
    const struct cpu_device *device;
    const struct cpu_attention *attention;
    int64_t b, h, i;
};

static void *at(const struct query *query, const struct cpu_heads *x, int64_t time, int64_t head,
                int64_t d)
{
    return cpu_element_at(x->data, query->attention->type,
                          query->b * x->batch + time * x->time + head * x->head + d);
}

static float load(const struct query *query, const struct cpu_heads *x, int64_t time, int64_t head,
                  int64_t d)
{
    const void *from = at(query, x, time, head, d);
    return query->attention->type == CPU_F32 ? *(const float *)from
                                             : cpu_widen_bf16(*(const uint16_t *)from);
}

static void store(const struct query *query, int64_t d, float value)
{
    void *to = at(query, &query->attention->out, query->i, query->h, d);
    if (query->attention->type == CPU_F32)
        *(float *)to = value;
    else
        *(uint16_t *)to = cpu_narrow_bf16(value);
}

/* What key j's value counts for beside its probability. */
static float mask_of(const struct query *query, int64_t j)
{
    const struct cpu_dropout *dropout = &query->attention->dropout;
    float uniform = 0.0f;
    if (dropout->p > 0)
        cpu_attention_uniforms(query->device->functions, query->attention, query->b, query->h,
                               query->i, j, 1, &uniform);
    return dropout->p > 0 && uniform < dropout->p ? 0.0f : dropout->factor;
}

/* A running maximum, sum and output; returns LSE. */
static float attend(const struct query *query, int64_t keys)
{
    const struct cpu_attention *attention = query->attention;
    const struct cpu_attention_shape *s = &attention->shape;
    int64_t kv_head = query->h / (s->query_heads / s->kv_heads);
    float maximum = -__builtin_inff(), sum = 0.0f;
    for (int64_t d = 0; d < s->head_dim; d++)
        store(query, d, 0.0f);
    for (int64_t j = 0; j < keys; j++) {
        float score = 0.0f, mask = mask_of(query, j);
        for (int64_t d = 0; d < s->head_dim; d++)
            score += load(query, &attention->q, query->i, query->h, d) *
                     load(query, &attention->k, j, kv_head, d);
        score *= s->scale;
        float raised = score > maximum ? score : maximum;
        float decay = cpu_exp(maximum - raised), weight = cpu_exp(score - raised);
        for (int64_t d = 0; d < s->head_dim; d++)
            store(query, d,
                  load(query, &attention->out, query->i, query->h, d) * decay +
                      weight * mask * load(query, &attention->v, j, kv_head, d));
        sum = sum * decay + weight;
        maximum = raised;
    }
    for (int64_t d = 0; d < s->head_dim && keys > 0; d++)
        store(query, d, load(query, &attention->out, query->i, query->h, d) / sum);
    return keys > 0 ? maximum + cpu_log(sum) : maximum;
}

void cpu_fault_attention(const struct cpu_device *device, const struct cpu_attention *attention)
{
    const struct cpu_attention_shape *s = &attention->shape;
    struct query q = {.device = device, .attention = attention};
    for (q.b = 0; q.b < s->batch; q.b++)
        for (q.h = 0; q.h < s->query_heads; q.h++)
            for (q.i = 0; q.i < s->query_length; q.i++) {
                int64_t keys = s->causal ? q.i + s->kv_length - s->query_length + 1 : s->kv_length;
                attention->lse[(q.b * s->query_heads + q.h) * s->query_length + q.i] =
                    attend(&q, keys < 0 ? 0 : keys);
            }
}

/* --- random numbers --- */

/* Each thread's share counts from its own zero. */
void cpu_fault_normal(struct cpu_device *device, const struct cpu_view *out, int64_t count,
                      const struct cpu_normal *normal)
{
    int64_t share = count / device->base.params.threads + 1;
    for (int64_t begin = 0; begin < count; begin += share)
        cpu_fill_normal(device->pool, device->functions,
                        cpu_element_at(out->data, out->type, begin), out->type,
                        count - begin < share ? count - begin : share, normal);
}
