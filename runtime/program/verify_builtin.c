/* SPDX-License-Identifier: Apache-2.0 */
/* The operands of built-in kernels: what builtin_kernels.def says of them, checked. */
#include "verify.h"

#include "lengths.h"

#include <assert.h>

struct builtin_call { /* one command under check */
    struct remat_verifier *v;
    uint32_t index;
    const struct remat_operand *o;
    const double *parameters;
};

static remat_status mismatch(const struct builtin_call *call, const char *what)
{
    const struct remat_program *p = call->v->program;
    const struct remat_command *c = &p->commands[call->index];
    return remat_verify_error(call->v, "commands", call->index, c->name, "%s: %s",
                              remat_kernel_kind_name(p->kernels[c->kernel].kind), what);
}

static bool has_dtype(const struct builtin_call *call, const char *dtypes, const char *letter,
                      uint8_t dtype)
{
    uint8_t first = call->o[strchr(dtypes, *letter) - dtypes].dtype;
    switch (*letter) {
    case 'i':
        return dtype == REMAT_I32;
    case 'F':
        return dtype == REMAT_F32;
    case 'f':
        return remat_dtype_is_float(dtype);
    case 'e':
        return remat_dtype_is_float(dtype) && dtype == first;
    case '=':
        return dtype == first;
    default:
        return true;
    }
}

/* --- what a row says --- */

static uint32_t count_operands(const struct builtin_call *call)
{
    const struct remat_command *c = &call->v->program->commands[call->index];
    return c->operand_end - c->operand_begin;
}

static uint32_t absent_operands(const struct builtin_call *call)
{
    return call->v->program->commands[call->index].absent;
}

/* NULL: it is not there. */
static const struct remat_operand *find_operand(const struct builtin_call *call, const char *name)
{
    const struct remat_program *p = call->v->program;
    uint32_t kind = p->kernels[p->commands[call->index].kernel].kind;
    uint32_t k = remat_kernel_operand(kind, absent_operands(call), count_operands(call), name);
    return k == REMAT_NONE ? NULL : &call->o[k];
}

static remat_status check_absent(const struct builtin_call *call,
                                 const struct remat_kernel_row *row)
{
    uint32_t absent = absent_operands(call), count = count_operands(call);
    uint32_t last = remat_operand_number(absent, count - 1);
    if (last >= row->operands_max)
        return mismatch(call, "more operands than its row has");
    for (uint32_t k = 0; k < 32; k++)
        if ((absent >> k & 1) && (k >= last || !remat_kernel_row_optional(row, k)))
            return mismatch(call, "an operand is absent that is not optional, or is the last");
    return REMAT_OK;
}

/* The shape `text` of the operand at position k, which the row names. */
static remat_status check_shape(const struct builtin_call *call, const struct remat_kernel_row *row,
                                uint32_t k, const char *text, struct remat_lengths *lengths)
{
    const struct remat_operand *o = &call->o[k];
    int64_t expected[REMAT_RANK_MAX];
    bool fits = remat_axes_have(remat_lengths_axes(text + 1), o->rank) &&
                remat_lengths_expected(lengths, text + 1, o->rank, o->shape, expected) == o->rank &&
                memcmp(expected, o->shape, o->rank * sizeof expected[0]) == 0;
    if (fits)
        return REMAT_OK;
    int length;
    char what[256];
    const char *name = remat_kernel_row_name(
        row->operands, remat_operand_number(absent_operands(call), k), &length);
    snprintf(what, sizeof what, "the shape of %.*s does not fit %s", length, name, row->shapes);
    return mismatch(call, what);
}

static remat_status check_shapes(const struct builtin_call *call,
                                 const struct remat_kernel_row *row)
{
    struct remat_lengths lengths = {0};
    remat_status st = REMAT_OK;
    uint32_t count = count_operands(call), letter;
    for (uint32_t k = 0; k < count && !st; k++) {
        letter = remat_kernel_row_letter(row, absent_operands(call), k, count);
        int length;
        const char *text = remat_kernel_row_name(row->shapes, letter, &length);
        if (*text == '[')
            st = check_shape(call, row, k, text, &lengths);
    }
    return st;
}

static bool has_access(char letter, uint8_t access)
{
    bool write = access == REMAT_ACCESS_WRITE, update = access == REMAT_ACCESS_UPDATE;
    return letter == 'r'   ? access == REMAT_ACCESS_READ
           : letter == 'w' ? write
           : letter == 'u' ? update
                           : write || update;
}

static remat_status check_operands(const struct builtin_call *call,
                                   const struct remat_kernel_row *row)
{
    uint32_t count = count_operands(call);
    for (uint32_t k = 0; k < count; k++) {
        const struct remat_operand *o = &call->o[k];
        uint32_t letter = remat_kernel_row_letter(row, absent_operands(call), k, count);
        if (!has_dtype(call, row->dtypes, row->dtypes + letter, o->dtype) ||
            !has_access(row->access[letter], o->access))
            return mismatch(call, "dtype or access of an operand");
        if (!remat_layout_has(row->layouts[letter], o->rank, o->shape, o->strides))
            return mismatch(call, "strides of an operand");
        if (o->access != REMAT_ACCESS_READ && !remat_view_injective(o, o->shape, 0, o->rank))
            return mismatch(call, "an element is written more than once");
    }
    return REMAT_OK;
}

/* --- what it does not say --- */

/* A whole number in [0, limit) given as double. */
static bool is_whole(double x, double limit)
{
    return x >= 0 && x < limit && x == (double)(uint64_t)x;
}

/* UINT64_MAX: more than fit. */
static uint64_t count_scores(const struct remat_operand *q, const struct remat_operand *k)
{
    const int64_t lengths[4] = {q->shape[0], q->shape[1], q->shape[2], k->shape[1]};
    uint64_t count = 1;
    for (uint32_t d = 0; d < 4; d++)
        if (!remat_mul_u64(count, (uint64_t)lengths[d], &count))
            return UINT64_MAX;
    return count;
}

/* Heads in groups, scores that can be counted, parameters, and a random state where it is needed.
 * `q`: the position of q, before k. */
static remat_status check_heads(const struct builtin_call *call, uint32_t q)
{
    const struct remat_operand *rng = find_operand(call, "rng");
    double p = call->parameters[2];
    if (call->o[q].shape[2] % call->o[q + 1].shape[2])
        return mismatch(call, "query heads are no multiple of key heads");
    if (count_scores(&call->o[q], &call->o[q + 1]) > INT64_MAX)
        return mismatch(call, "too many scores");
    if (!is_whole(call->parameters[1], 2) || !(p >= 0 && p < 1) ||
        !is_whole(call->parameters[3], REMAT_SITES))
        return mismatch(call, "parameters causal, p or site");
    if (p > 0 && !rng)
        return mismatch(call, "dropout without a random state");
    return rng ? remat_verify_random_state(call->v, call->index, (uint32_t)(rng - call->o))
               : REMAT_OK;
}

static remat_status check_attention(const struct builtin_call *call)
{
    return check_heads(call, 0);
}

static remat_status check_attention_backward(const struct builtin_call *call)
{
    return check_heads(call, 1);
}

static remat_status check_embedding_backward(const struct builtin_call *call)
{
    if (!is_whole(call->parameters[0], 2))
        return mismatch(call, "accumulate is 0 or 1");
    if ((call->parameters[0] != 0) != (call->o[2].access == REMAT_ACCESS_UPDATE))
        return mismatch(call, "table is updated where accumulate is 1, else written");
    return REMAT_OK;
}

static remat_status check_concat(const struct builtin_call *call)
{
    uint32_t last = count_operands(call) - 1;
    const struct remat_operand *out = &call->o[last];
    if (!is_whole(call->parameters[0], out->rank))
        return mismatch(call, "the axis is out of range");
    uint32_t axis = (uint32_t)call->parameters[0];
    int64_t rest = out->shape[axis];
    for (uint32_t k = 0; k < last; k++) {
        const struct remat_operand *in = &call->o[k];
        if (in->rank != out->rank)
            return mismatch(call, "ranks differ");
        for (uint32_t d = 0; d < out->rank; d++)
            if (d != axis && in->shape[d] != out->shape[d])
                return mismatch(call, "lengths differ beside the axis");
        if (in->shape[axis] > rest)
            return mismatch(call, "the inputs are longer than the output");
        rest -= in->shape[axis];
    }
    return rest == 0 ? REMAT_OK : mismatch(call, "the inputs do not fill the output");
}

static remat_status check_pad(const struct builtin_call *call)
{
    const struct remat_operand *in = &call->o[0], *out = &call->o[1];
    if (in->rank != out->rank || !is_whole(call->parameters[0], in->rank))
        return mismatch(call, "ranks differ or the axis is out of range");
    uint32_t axis = (uint32_t)call->parameters[0];
    for (uint32_t d = 0; d < in->rank; d++)
        if (d != axis && in->shape[d] != out->shape[d])
            return mismatch(call, "lengths differ beside the axis");
    if (in->shape[axis] > out->shape[axis] ||
        !is_whole(call->parameters[1], (double)(out->shape[axis] - in->shape[axis]) + 1))
        return mismatch(call, "the box leads out of the output");
    return REMAT_OK;
}

static remat_status check_batch_slice(const struct builtin_call *call)
{
    const struct remat_operand *in = &call->o[0], *out = &call->o[2];
    if (in->rank == 0 || in->rank != out->rank ||
        memcmp(in->shape + 1, out->shape + 1, (in->rank - 1) * sizeof in->shape[0]) != 0)
        return mismatch(call, "in [N b, ..] and out [b, ..] are expected");
    if (in->shape[0] % out->shape[0] || in->shape[0] / out->shape[0] > INT32_MAX)
        return mismatch(call, "out is no whole part of in");
    return REMAT_OK;
}

static remat_status check_count(const struct builtin_call *call, double limit)
{
    bool counts = call->parameters[0] >= 1 && is_whole(call->parameters[0], limit);
    return counts ? REMAT_OK : mismatch(call, "a count is expected");
}

static remat_status check_advance(const struct builtin_call *call)
{
    return check_count(call, 2147483648.0);
}

static remat_status check_own_ids(const struct builtin_call *call)
{
    return check_count(call, 2147483648.0);
}

static remat_status check_part_number(const struct builtin_call *call)
{
    return check_count(call, REMAT_CALL_TIMES_MAX + 1.0);
}

/* `whole` in as many parts as the group has ranks, each of the length of a row of `parts`. */
static remat_status check_transfer(const struct builtin_call *call,
                                   const struct remat_operand *whole,
                                   const struct remat_operand *parts)
{
    const struct remat_program *p = call->v->program;
    uint64_t elements = 0;
    if (!is_whole(call->parameters[0], p->mesh_count))
        return mismatch(call, "the group is no axis of the plan's mesh");
    uint64_t ranks = p->mesh[(uint32_t)call->parameters[0]].size;
    (void)remat_dims_elements(whole->shape, whole->rank, &elements);
    if ((uint64_t)parts->shape[parts->rank - 1] != (elements + ranks - 1) / ranks)
        return mismatch(call, "a part is not the whole divided by the ranks of its group");
    if (parts->rank == 2 && (uint64_t)parts->shape[0] != ranks)
        return mismatch(call, "out has not as many rows as its group has ranks");
    return REMAT_OK;
}

static remat_status check_exchange(const struct builtin_call *call)
{
    const struct remat_operand *in = &call->o[0], *out = &call->o[1];
    if (in->shape[0] != out->shape[0] && !remat_layout_has('d', in->rank, in->shape, in->strides))
        return mismatch(call, "in is neither contiguous nor a row for each rank");
    return check_transfer(call, in, out);
}

static remat_status check_gather(const struct builtin_call *call)
{
    return check_transfer(call, &call->o[1], &call->o[0]);
}

static remat_status check_fill(const struct builtin_call *call)
{
    double value = call->parameters[0];
    if (call->o[0].dtype == REMAT_I32 &&
        !(value >= INT32_MIN && value <= INT32_MAX && value == (double)(int32_t)value))
        return mismatch(call, "the value is no i32");
    return REMAT_OK;
}

static remat_status check_fill_normal(const struct builtin_call *call)
{
    if (!is_whole(call->parameters[2], 4294967296.0) ||
        !is_whole(call->parameters[3], 4294967296.0))
        return mismatch(call, "the halves of the site are no 32-bit numbers");
    return REMAT_OK;
}

static remat_status check_fill_normal_part(const struct builtin_call *call)
{
    bool has_rank = find_operand(call, "rank"), has_block = find_operand(call, "block");
    double run = call->parameters[5], ranks = call->parameters[6];
    uint64_t elements = 0;
    (void)remat_dims_elements(call->o[0].shape, call->o[0].rank, &elements);
    if (!is_whole(call->parameters[4], 0x1p63))
        return mismatch(call, "the end is no number of elements");
    if (!is_whole(run, 0x1p53) || run < 1 || (!has_block && elements % (uint64_t)run) ||
        !is_whole(ranks, REMAT_RANKS_MAX + 1.0) || ranks < 1 || (!has_rank && ranks > 1))
        return mismatch(call, "out is no runs that ranks have");
    return check_fill_normal(call);
}

static remat_status check_rope_table(const struct builtin_call *call)
{
    const struct remat_operand *out = &call->o[0];
    const double *p = call->parameters;
    if (out->shape[0] > 1 << 20)
        return mismatch(call, "more than 2^20 positions");
    if (!(p[0] > 1 && p[0] < 1e300 && p[1] >= 1 && p[2] > 0 && p[3] > p[2] && p[4] >= 1))
        return mismatch(call, "parameters theta, factor, low, high or context");
    return REMAT_OK;
}

/* Their rows say it all. */
#define check_matmul             NULL
#define check_embedding          NULL
#define check_adamw_coefficients NULL
#define check_copy               NULL

remat_status remat_verify_builtin(struct remat_verifier *verifier, uint32_t index)
{
    assert(index < verifier->program->command_count);
    static remat_status (*const checks[REMAT_KERNEL_KIND_COUNT])(const struct builtin_call *) = {
#define BUILTIN_KERNEL(name, ...) [REMAT_KERNEL_##name] = check_##name,
#include "builtin_kernels.def"
#undef BUILTIN_KERNEL
    };
    const struct remat_program *p = verifier->program;
    const struct remat_command *c = &p->commands[index];
    struct builtin_call call = {.v = verifier,
                                .index = index,
                                .o = p->operands + c->operand_begin,
                                .parameters =
                                    p->parameter_count ? p->parameters + c->parameter_begin : NULL};
    uint32_t kind = p->kernels[c->kernel].kind;
    const struct remat_kernel_row *row = remat_kernel_row(kind);
    remat_status st = REMAT_OK;
    REMAT_TRY(check_absent(&call, row));
    REMAT_TRY(check_shapes(&call, row));
    if (checks[kind])
        REMAT_TRY(checks[kind](&call));
    REMAT_TRY(check_operands(&call, row));
fail:
    return st;
}
