/* SPDX-License-Identifier: Apache-2.0 */
#include "attention.h"

#include "check.h"
#include "half.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum name { Q, K, V, OUT, LSE, RNG, QUERY_SEGMENTS, KEY_SEGMENTS, DOUT, DQ, DK, DV, NAMES };
static const char *const names[] = {
    "q", "k", "v", "out", "lse", "rng", "query_segments", "key_segments", "dout", "dq", "dk", "dv"};
static const enum name forward_operands[] = {Q, K, V, OUT, LSE, RNG, QUERY_SEGMENTS, KEY_SEGMENTS};
static const enum name backward_operands[] = {
    DOUT, Q, K, V, OUT, LSE, DQ, DK, DV, RNG, QUERY_SEGMENTS, KEY_SEGMENTS};

static bool is_there(const struct attention_sizes *s, enum name name)
{
    return name == RNG              ? s->p > 0
           : name == QUERY_SEGMENTS ? s->segments & SEGMENTS_QUERIES
           : name == KEY_SEGMENTS   ? s->segments & SEGMENTS_KEYS
                                    : true;
}

/* --- the program --- */

struct maker {
    struct attention_case *c;
    struct remat_operand views[NAMES];
    uint32_t values;
};

static uint32_t add_buffer(struct maker *m, uint64_t bytes)
{
    struct attention_case *c = m->c;
    uint32_t v = m->values++;
    c->values[v] = (struct remat_program_value){.buffer = v};
    c->buffers[v] = (struct remat_buffer){.offset_bytes = c->program.arena_bytes,
                                          .bytes = remat_align_up(bytes, REMAT_ALIGNMENT)};
    c->program.arena_bytes += c->buffers[v].bytes;
    return v;
}

/* [batch, time, heads, head_size] in value `value` from `offset` on, rows of a position
 * `time_stride` apart. */
static void view_heads(struct maker *m, enum name name, uint32_t value, uint64_t offset,
                       uint32_t time, uint32_t heads, int64_t time_stride, int64_t head_stride)
{
    const struct attention_sizes *s = &m->c->sizes;
    m->views[name] =
        (struct remat_operand){.value = value,
                               .offset_elements = offset,
                               .dtype = (uint8_t)s->dtype,
                               .rank = 4,
                               .shape = {s->batch, time, heads, s->head_size},
                               .strides = {time * time_stride, time_stride, head_stride, 1}};
}

static void add_heads(struct maker *m, enum name name, uint32_t time, uint32_t heads)
{
    const struct attention_sizes *s = &m->c->sizes;
    uint32_t bytes = remat_dtype_bytes(s->dtype),
             gap = s->layout == ATTENTION_LOOSE ? 4 / bytes : 0;
    int64_t head_stride = s->head_size + gap, time_stride = heads * head_stride + 2 * gap;
    uint64_t elements = (uint64_t)(s->batch * time * time_stride) + gap;
    uint32_t value = add_buffer(m, elements * bytes);
    view_heads(m, name, value, gap, time, heads, time_stride, head_stride);
}

/* [batch, time, q k v, head, head_size] */
static void add_packed(struct maker *m, enum name q)
{
    const struct attention_sizes *s = &m->c->sizes;
    uint64_t width = (s->heads + 2 * s->kv_heads) * s->head_size;
    uint32_t value = add_buffer(m, s->batch * s->queries * width * remat_dtype_bytes(s->dtype));
    uint64_t k = s->heads * s->head_size, v = k + s->kv_heads * s->head_size;
    view_heads(m, q, value, 0, s->queries, s->heads, (int64_t)width, s->head_size);
    view_heads(m, q + 1, value, k, s->keys, s->kv_heads, (int64_t)width, s->head_size);
    view_heads(m, q + 2, value, v, s->keys, s->kv_heads, (int64_t)width, s->head_size);
}

static void add_three(struct maker *m, enum name q)
{
    const struct attention_sizes *s = &m->c->sizes;
    if (s->layout == ATTENTION_PACKED) {
        add_packed(m, q);
        return;
    }
    add_heads(m, q, s->queries, s->heads);
    add_heads(m, q + 1, s->keys, s->kv_heads);
    add_heads(m, q + 2, s->keys, s->kv_heads);
}

static void add_command(struct maker *m, uint32_t index, uint32_t kind, const enum name *operands,
                        uint32_t count)
{
    struct attention_case *c = m->c;
    const double parameters[] = {1 / sqrt(c->sizes.head_size), c->sizes.causal, c->sizes.p, 12345};
    uint32_t begin = index ? c->commands[0].operand_end : 0, end = begin, absent = 0;
    c->kernels[index] = (struct remat_kernel){.kind = kind, .key = remat_kernel_kind_name(kind)};
    c->commands[index] = (struct remat_command){.kernel = index,
                                                .name = remat_kernel_kind_name(kind),
                                                .operand_begin = begin,
                                                .parameter_begin = 4 * index,
                                                .parameter_end = 4 * index + 4};
    memcpy(c->parameters + 4 * index, parameters, sizeof parameters);
    for (uint32_t o = 0; o < count; o++) {
        if (!is_there(&c->sizes, operands[o])) {
            absent |= 1u << o;
            continue;
        }
        bool writes =
            operands[o] >= DQ || (index == 0 && (operands[o] == OUT || operands[o] == LSE));
        struct remat_operand *operand = &c->operands[end++];
        c->commands[index].absent = absent;
        *operand = m->views[operands[o]];
        operand->previous = REMAT_NONE;
        operand->access = writes ? REMAT_ACCESS_WRITE : REMAT_ACCESS_READ;
    }
    c->commands[index].operand_end = end;
}

static void add_segments(struct maker *m, enum name name, uint32_t length)
{
    uint32_t batch = m->c->sizes.batch;
    m->views[name] = (struct remat_operand){.value = add_buffer(m, (uint64_t)batch * length * 4),
                                            .dtype = REMAT_I32,
                                            .rank = 2,
                                            .shape = {batch, length},
                                            .strides = {length, 1}};
}

static void make_program(struct attention_case *c)
{
    const struct attention_sizes *s = &c->sizes;
    struct maker m = {.c = c};
    uint64_t rows = (uint64_t)s->batch * s->heads * s->queries;
    add_three(&m, Q);
    add_heads(&m, OUT, s->queries, s->heads);
    add_heads(&m, DOUT, s->queries, s->heads);
    add_three(&m, DQ);
    m.views[LSE] =
        (struct remat_operand){.value = add_buffer(&m, rows * 4),
                               .dtype = REMAT_F32,
                               .rank = 3,
                               .shape = {s->batch, s->heads, s->queries},
                               .strides = {(int64_t)s->heads * s->queries, s->queries, 1}};
    m.views[RNG] = (struct remat_operand){
        .value = add_buffer(&m, 16), .dtype = REMAT_I32, .rank = 1, .shape = {4}, .strides = {1}};
    add_segments(&m, QUERY_SEGMENTS, s->queries);
    add_segments(&m, KEY_SEGMENTS, s->keys);
    add_command(&m, 0, REMAT_KERNEL_attention, forward_operands, 8);
    add_command(&m, 1, REMAT_KERNEL_attention_backward, backward_operands, 12);
    c->program.kernels = c->kernels, c->program.kernel_count = 2;
    c->program.commands = c->commands, c->program.command_count = 2;
    c->program.operands = c->operands, c->program.operand_count = c->commands[1].operand_end;
    c->program.values = c->values, c->program.value_count = m.values;
    c->program.buffers = c->buffers, c->program.buffer_count = m.values;
    c->program.parameters = c->parameters, c->program.parameter_count = 8;
}

/* The view of a tensor in either command; NULL without it. */
static const struct remat_operand *view_of(const struct attention_case *c, enum name name)
{
    const struct remat_command *backward = &c->commands[1];
    for (uint32_t o = 0; o < backward->operand_end - backward->operand_begin; o++)
        if (backward_operands[remat_operand_number(backward->absent, o)] == name)
            return &c->operands[backward->operand_begin + o];
    return NULL;
}

/* --- memory --- */

static uint64_t place_of(const struct attention_case *c, const struct remat_operand *o,
                         const uint32_t index[4])
{
    uint64_t element = o->offset_elements;
    for (uint32_t k = 0; k < o->rank; k++)
        element += index[k] * (uint64_t)o->strides[k];
    return c->buffers[c->values[o->value].buffer].offset_bytes +
           element * remat_dtype_bytes((remat_dtype)o->dtype);
}

static double load(const struct attention_case *c, const char *memory, enum name name, uint32_t i0,
                   uint32_t i1, uint32_t i2, uint32_t i3)
{
    const struct remat_operand *o = view_of(c, name);
    uint32_t bits = 0, bytes = remat_dtype_bytes((remat_dtype)o->dtype);
    float value;
    memcpy((char *)&bits + 4 - bytes, memory + place_of(c, o, (uint32_t[]){i0, i1, i2, i3}), bytes);
    memcpy(&value, &bits, 4);
    return o->dtype == REMAT_F16 ? half_widen((uint16_t)(bits >> 16)) : value;
}

static uint64_t random_bits(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

/* Runs of -1, 0, 1, 2. */
static void fill_segments(struct attention_case *c, enum name name, uint64_t *state)
{
    const struct remat_operand *o = view_of(c, name);
    int32_t segment = 0;
    for (int64_t i = 0; o && i < o->shape[0] * o->shape[1]; i++) {
        if (random_bits(state) % 8 == 0)
            segment = (int32_t)(random_bits(state) % 4) - 1;
        memcpy(c->initial + c->buffers[o->value].offset_bytes + 4 * i, &segment, 4);
    }
}

static int32_t segment_of(const struct attention_case *c, enum name name, uint32_t b, uint32_t i)
{
    const struct remat_operand *o = view_of(c, name);
    int32_t segment = 0;
    if (o)
        memcpy(&segment, c->initial + c->buffers[o->value].offset_bytes + 4 * (b * o->shape[1] + i),
               4);
    return segment;
}

/* Everything is NaN but the operands, in [-1, 1], exact in bf16 and f16. */
static void fill(struct attention_case *c)
{
    static const enum name inputs[] = {Q, K, V, DOUT};
    uint64_t state = 7;
    memset(c->initial, 0xff, c->program.arena_bytes);
    for (uint32_t n = 0; n < 4; n++) {
        const struct remat_operand *o = view_of(c, inputs[n]);
        uint32_t bytes = remat_dtype_bytes((remat_dtype)o->dtype), i[4];
        for (i[0] = 0; i[0] < o->shape[0]; i[0]++)
            for (i[1] = 0; i[1] < o->shape[1]; i[1]++)
                for (i[2] = 0; i[2] < o->shape[2]; i[2]++)
                    for (i[3] = 0; i[3] < o->shape[3]; i[3]++) {
                        float x = (float)(random_bits(&state) % 257) / 128 - 1;
                        uint16_t half = half_narrow(x);
                        memcpy(c->initial + place_of(c, o, i),
                               o->dtype == REMAT_F16 ? (char *)&half : (char *)&x + 4 - bytes,
                               bytes);
                    }
    }
    const struct remat_operand *rng = view_of(c, RNG);
    const uint32_t words[] = {0x12345678, 0x9abcdef0, 3, 1}; /* seed, step, microbatch */
    fill_segments(c, QUERY_SEGMENTS, &state);
    fill_segments(c, KEY_SEGMENTS, &state);
    if (rng)
        memcpy(c->initial + c->buffers[rng->value].offset_bytes, words, sizeof words);
}

void attention_make(remat_context *ctx, struct remat_arena *arena,
                    const struct attention_sizes *sizes, const struct remat_cuda_settings *settings,
                    struct attention_case *out)
{
    *out = (struct attention_case){.sizes = *sizes};
    make_program(out);
    out->initial = malloc(out->program.arena_bytes);
    fill(out);
    MUST_OK(ctx, remat_cuda_emit(ctx, arena, &out->program, settings, &out->code));
}

void attention_append_text(const struct attention_case *c, struct remat_text *text)
{
    if (!text->count)
        remat_text_append(text, "%s", c->code.preludes[1]); /* which all of attention have */
    for (uint32_t k = 0; k < c->code.kernel_count; k++) {
        const struct remat_cuda_kernel *kernel = &c->code.kernels[k];
        if (!strstr(text->items, kernel->symbol))
            remat_text_append(text, "%s", kernel->text);
    }
}

void attention_print(const struct attention_case *c)
{
    static const char *const layouts[] = {"dense", "packed", "loose"};
    const struct attention_sizes *s = &c->sizes;
    static const char *const segments[] = {"", ", query segments", ", key segments", ", segments"};
    printf("%s %u x %u/%u heads of %u, %u queries, %u keys%s, dropout %g, %s%s",
           remat_dtype_name(s->dtype), s->batch, s->heads, s->kv_heads, s->head_size, s->queries,
           s->keys, s->causal ? ", causal" : "", s->p, layouts[s->layout], segments[s->segments]);
}

/* --- float64 --- */

/* Philox4x32-10 as Salmon et al. have it, and the element's uniform number against p. */
static bool is_kept(const struct attention_case *c, uint64_t element)
{
    const struct attention_sizes *s = &c->sizes;
    uint64_t index =
        element + (uint64_t)s->batch * s->heads * s->queries * s->keys; /* microbatch 1 */
    uint32_t x[4] = {(uint32_t)(index / 4), (uint32_t)(index / 4 >> 32), 12345, 3};
    uint32_t key[2] = {0x12345678, 0x9abcdef0};
    for (int round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)x[0] * 0xD2511F53u, b = (uint64_t)x[2] * 0xCD9E8D57u;
        uint32_t y[4] = {(uint32_t)(b >> 32) ^ x[1] ^ key[0], (uint32_t)b,
                         (uint32_t)(a >> 32) ^ x[3] ^ key[1], (uint32_t)a};
        memcpy(x, y, sizeof x);
        key[0] += 0x9E3779B9u;
        key[1] += 0xBB67AE85u;
    }
    return !((float)(x[index % 4] >> 8) * 0x1p-24f < (float)s->p);
}

/* What one tensor should be, and how far rounding may take it from there. */
struct expected {
    double *value, *bound;
};

struct reference {
    const struct attention_case *c;
    const char *memory;
    double unit;  /* relative error of an operand of a product, or of a result, by its dtype */
    double least; /* and its absolute error where it is subnormal */
    double error; /* of f32: of sums of products, relative to their magnitudes; of exponentials */
    double *tensors[NAMES]; /* of four axes, dense; NULL for the others */
    struct expected out, lse, dq, dk, dv;
};

/* What refer_query reads many times. */
static void load_tensors(struct reference *r)
{
    static const enum name read[] = {Q, K, V, OUT, DOUT};
    for (uint32_t n = 0; n < sizeof read / sizeof *read; n++) {
        const int64_t *shape = view_of(r->c, read[n])->shape;
        double *to = r->tensors[read[n]] =
            malloc((size_t)(shape[0] * shape[1] * shape[2] * shape[3]) * sizeof *to);
        for (uint32_t b = 0; b < shape[0]; b++)
            for (uint32_t t = 0; t < shape[1]; t++)
                for (uint32_t h = 0; h < shape[2]; h++)
                    for (uint32_t d = 0; d < shape[3]; d++)
                        *to++ = load(r->c, r->memory, read[n], b, t, h, d);
    }
}

static const double *row_of(const struct reference *r, enum name name, uint32_t b, uint32_t t,
                            uint32_t h)
{
    const int64_t *shape = view_of(r->c, name)->shape;
    return r->tensors[name] + ((b * shape[1] + t) * shape[2] + h) * shape[3];
}

static struct expected make_expected(uint64_t count)
{
    return (struct expected){calloc(count, sizeof(double)), calloc(count, sizeof(double))};
}

static void free_expected(struct expected *x)
{
    free(x->value);
    free(x->bound);
}

static void add(struct expected *x, uint64_t at, double value, double bound)
{
    x->value[at] += value;
    x->bound[at] += bound;
}

static uint32_t keys_of(const struct attention_sizes *s, uint32_t query)
{
    int64_t seen = (int64_t)query + 1 + s->keys - s->queries;
    return !s->causal ? s->keys : seen < 0 ? 0 : (uint32_t)seen;
}

static bool sees(const struct attention_case *c, uint32_t b, uint32_t i, uint32_t j)
{
    int32_t key = segment_of(c, KEY_SEGMENTS, b, j);
    return key >= 0 && key == segment_of(c, QUERY_SEGMENTS, b, i);
}

/* One query: the scores of its keys, then out and lse from them, then the gradients from the lse
 * and the out that are in memory. */
static void refer_query(struct reference *r, uint32_t b, uint32_t h, uint32_t i, double *scores)
{
    const struct attention_case *c = r->c;
    const struct attention_sizes *s = &c->sizes;
    uint32_t kv = h / (s->heads / s->kv_heads), seen = keys_of(s, i), size = s->head_size;
    double scale = 1 / sqrt(size), top = -INFINITY, sum = 0, delta = 0, delta_size = 0;
    double factor = 1 / (1 - s->p);
    uint64_t row = ((uint64_t)b * s->heads + h) * s->queries + i;
    uint64_t q_at = ((uint64_t)(b * s->queries + i) * s->heads + h) * size;
    const double *q = row_of(r, Q, b, i, h), *dout = row_of(r, DOUT, b, i, h);
    const double *out = row_of(r, OUT, b, i, h);
    for (uint32_t j = 0; j < seen; j++) {
        const double *k = row_of(r, K, b, j, kv);
        scores[j] = 0;
        for (uint32_t d = 0; d < size; d++)
            scores[j] += q[d] * k[d] * scale;
        top = sees(c, b, i, j) ? fmax(top, scores[j]) : top;
    }
    for (uint32_t j = 0; j < seen; j++)
        sum += sees(c, b, i, j) ? exp(scores[j] - top) : 0;
    add(&r->lse, row, sum > 0 ? top + log(sum) : -INFINITY, r->error * 8);
    for (uint32_t d = 0; d < size; d++) {
        delta += dout[d] * out[d];
        delta_size += fabs(dout[d] * out[d]);
    }
    double lse = load(c, r->memory, LSE, b, h, i, 0);
    for (uint32_t j = 0; j < seen; j++) {
        if (!sees(c, b, i, j))
            continue;
        bool kept = s->p == 0 || is_kept(c, row * s->keys + j);
        double weight = kept ? exp(scores[j] - top) / sum * factor : 0;
        double p = exp(scores[j] - lse), dp = 0, dp_size = 0;
        const double *k = row_of(r, K, b, j, kv), *v = row_of(r, V, b, j, kv);
        uint64_t k_at = ((uint64_t)(b * s->keys + j) * s->kv_heads + kv) * size;
        for (uint32_t d = 0; d < size; d++) {
            double g = dout[d];
            add(&r->out, q_at + d, weight * v[d],
                ((r->unit + r->error) * weight + r->least * factor) * fabs(v[d]));
            add(&r->dv, k_at + d, kept ? p * factor * g : 0,
                kept ? ((r->unit + r->error) * p + r->least) * factor * fabs(g) : 0);
            dp += kept ? v[d] * g * factor : 0;
            dp_size += kept ? fabs(v[d] * g) * factor : 0;
        }
        double ds = p * (dp - delta);
        double bound = r->unit * fabs(ds) + r->least + r->error * p * (dp_size + delta_size);
        for (uint32_t d = 0; d < size; d++) {
            add(&r->dq, q_at + d, ds * k[d] * scale, bound * fabs(k[d]) * scale);
            add(&r->dk, k_at + d, ds * q[d] * scale, bound * fabs(q[d]) * scale);
        }
    }
}

static const char *compare(const struct reference *r, enum name name, const struct expected *x)
{
    static char message[160];
    const struct remat_operand *o = view_of(r->c, name);
    uint32_t i[4], last = o->rank == 4 ? (uint32_t)o->shape[3] : 1;
    uint64_t at = 0;
    for (i[0] = 0; i[0] < o->shape[0]; i[0]++)
        for (i[1] = 0; i[1] < o->shape[1]; i[1]++)
            for (i[2] = 0; i[2] < o->shape[2]; i[2]++)
                for (i[3] = 0; i[3] < last; i[3]++, at++) {
                    double found = load(r->c, r->memory, name, i[0], i[1], i[2], i[3]);
                    double unit = o->dtype == REMAT_F32 ? 0x1p-24 : r->unit;
                    double bound = x->bound[at] + unit * fabs(x->value[at]) + r->least + 1e-7;
                    bool equal = found == x->value[at]; /* also infinite */
                    if (equal || fabs(found - x->value[at]) <= bound)
                        continue;
                    snprintf(message, sizeof message,
                             "%s[%u, %u, %u, %u] is %.6g, not %.6g, which rounding makes no "
                             "further than %.2g",
                             names[name], i[0], i[1], i[2], i[3], found, x->value[at], bound);
                    return message;
                }
    return NULL;
}

/* The results' bytes become what they were: then everything is. */
static const char *compare_rest(const struct attention_case *c, const char *memory)
{
    static const enum name results[] = {OUT, LSE, DQ, DK, DV};
    char *copy = malloc(c->program.arena_bytes);
    memcpy(copy, memory, c->program.arena_bytes);
    for (uint32_t n = 0; n < 5; n++) {
        const struct remat_operand *o = view_of(c, results[n]);
        uint32_t i[4] = {0}, last = o->rank == 4 ? (uint32_t)o->shape[3] : 1;
        for (i[0] = 0; i[0] < o->shape[0]; i[0]++)
            for (i[1] = 0; i[1] < o->shape[1]; i[1]++)
                for (i[2] = 0; i[2] < o->shape[2]; i[2]++)
                    for (i[3] = 0; i[3] < last; i[3]++)
                        memset(copy + place_of(c, o, i), 0xff,
                               remat_dtype_bytes((remat_dtype)o->dtype));
    }
    bool equal = memcmp(copy, c->initial, c->program.arena_bytes) == 0;
    free(copy);
    return equal ? NULL : "writes beside its results";
}

const char *attention_compare(const struct attention_case *c, const char *memory)
{
    const struct attention_sizes *s = &c->sizes;
    uint64_t queries = (uint64_t)s->batch * s->queries * s->heads,
             keys = (uint64_t)s->batch * s->keys * s->kv_heads;
    struct reference r = {.c = c,
                          .memory = memory,
                          .unit = s->dtype == REMAT_F32   ? 0x1p-24
                                  : s->dtype == REMAT_F16 ? 0x1p-11
                                                          : 0x1p-8,
                          .least = s->dtype == REMAT_F16 ? 0x1p-25 : 0,
                          .error = 0x1p-24 * (4 * s->head_size + s->keys + s->queries + 64),
                          .out = make_expected(queries * s->head_size),
                          .lse = make_expected(queries),
                          .dq = make_expected(queries * s->head_size),
                          .dk = make_expected(keys * s->head_size),
                          .dv = make_expected(keys * s->head_size)};
    double *scores = malloc(s->keys * sizeof *scores);
    load_tensors(&r);
    for (uint32_t b = 0; b < s->batch; b++)
        for (uint32_t h = 0; h < s->heads; h++)
            for (uint32_t i = 0; i < s->queries; i++)
                refer_query(&r, b, h, i, scores);
    const char *fault = compare(&r, LSE, &r.lse);
    fault = fault ? fault : compare(&r, OUT, &r.out);
    fault = fault ? fault : compare(&r, DV, &r.dv);
    fault = fault ? fault : compare(&r, DK, &r.dk);
    fault = fault ? fault : compare(&r, DQ, &r.dq);
    fault = fault ? fault : compare_rest(c, memory);
    free(scores);
    for (uint32_t n = 0; n < NAMES; n++)
        free(r.tensors[n]);
    free_expected(&r.out);
    free_expected(&r.lse);
    free_expected(&r.dq);
    free_expected(&r.dk);
    free_expected(&r.dv);
    return fault;
}

/* --- the emulator --- */

const char *attention_run(const struct attention_case *c, void *library, uint64_t orders,
                          uint64_t *hash)
{
    static char message[256];
    emulator_kernel *kernels[8];
    uint64_t bytes = c->program.arena_bytes, all = bytes + c->code.workspace_bytes;
    char *memory = aligned_alloc(REMAT_ALIGNMENT, remat_align_up(all, REMAT_ALIGNMENT));
    struct emulator *emulator = emulator_create(memory, all);
    const char *fault = NULL;
    for (uint32_t k = 0; k < c->code.kernel_count; k++)
        kernels[k] = kernels_find(library, c->code.kernels[k].symbol);
    for (uint64_t order = 0; order < orders && !fault; order++) {
        memcpy(memory, c->initial, bytes);
        memset(memory + bytes, 0xff, c->code.workspace_bytes);
        for (uint32_t command = 0; command < 2 && !fault; command++)
            fault = kernels_run(&(struct kernels_place){emulator, &c->program, &c->code, kernels, 0,
                                                        memory, memory + bytes, order * 7, NULL},
                                command);
        uint64_t found = remat_hash(memory, bytes, 0);
        if (!fault && order > 0 && found != *hash)
            fault = "other bits in another order of threads";
        if (!fault && order == 0 && found != *hash)
            fault = attention_compare(c, memory);
        *hash = found;
    }
    snprintf(message, sizeof message, "%s", fault ? fault : "");
    emulator_destroy(&emulator);
    free(memory);
    return fault ? message : NULL;
}
