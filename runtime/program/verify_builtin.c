/* SPDX-License-Identifier: Apache-2.0 */
/* The operands of built-in kernels: what builtin_kernels.def says of them, checked. */
#include "verify.h"

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
    const struct remat_command *c = &call->v->program->commands[call->index];
    uint32_t count = c->operand_end - c->operand_begin;
    for (uint32_t k = 0; k < count; k++) {
        const struct remat_operand *o = &call->o[k];
        uint32_t letter = remat_kernel_row_letter(row, k, count);
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

static bool same_dims(const struct remat_operand *a, const struct remat_operand *b, uint32_t count)
{
    return memcmp(a->shape, b->shape, count * sizeof a->shape[0]) == 0;
}

static bool same_shape(const struct remat_operand *a, const struct remat_operand *b)
{
    return a->rank == b->rank && same_dims(a, b, a->rank);
}

/* A whole number in [0, limit) given as double. */
static bool is_whole(double x, double limit)
{
    return x >= 0 && x < limit && x == (double)(uint64_t)x;
}

static remat_status check_matmul(const struct builtin_call *call)
{
    const struct remat_operand *a = &call->o[0], *b = &call->o[1], *c = &call->o[2];
    uint32_t rank = c->rank;
    if (rank < 2 || a->rank != rank || b->rank != rank || !same_dims(a, c, rank - 2) ||
        !same_dims(b, c, rank - 2))
        return mismatch(call, "leading axes differ");
    if (a->shape[rank - 2] != c->shape[rank - 2] || b->shape[rank - 1] != c->shape[rank - 1] ||
        a->shape[rank - 1] != b->shape[rank - 2])
        return mismatch(call, "[m, k] [k, n] does not give [m, n]");
    return REMAT_OK;
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

/* q, k, v, out, lse as attention has them, with scores that can be counted. */
static bool attention_shapes(const struct remat_operand *q, const struct remat_operand *k,
                             const struct remat_operand *v, const struct remat_operand *out,
                             const struct remat_operand *lse)
{
    return q->rank == 4 && k->rank == 4 && same_shape(k, v) && same_shape(q, out) &&
           q->shape[0] == k->shape[0] && q->shape[3] == k->shape[3] &&
           q->shape[2] % k->shape[2] == 0 && lse->rank == 3 && lse->shape[0] == q->shape[0] &&
           lse->shape[1] == q->shape[2] && lse->shape[2] == q->shape[1] &&
           count_scores(q, k) <= INT64_MAX;
}

/* Parameters, and rng as operand `operands` of the call, if it is there. */
static remat_status check_dropout(const struct builtin_call *call, uint32_t operands)
{
    const struct remat_command *c = &call->v->program->commands[call->index];
    bool rng = c->operand_end - c->operand_begin > operands;
    double p = call->parameters[2];
    if (!is_whole(call->parameters[1], 2) || !(p >= 0 && p < 1) ||
        !is_whole(call->parameters[3], REMAT_SITES))
        return mismatch(call, "parameters causal, p or site");
    if (p > 0 && !rng)
        return mismatch(call, "dropout without a random state");
    return rng ? remat_verify_random_state(call->v, call->index, operands) : REMAT_OK;
}

static remat_status check_attention(const struct builtin_call *call)
{
    const struct remat_operand *o = call->o;
    if (!attention_shapes(&o[0], &o[1], &o[2], &o[3], &o[4]))
        return mismatch(call, "shapes of q, k, v, out, lse");
    return check_dropout(call, 5);
}

static remat_status check_attention_backward(const struct builtin_call *call)
{
    const struct remat_operand *o = call->o;
    if (!attention_shapes(&o[1], &o[2], &o[3], &o[4], &o[5]) || !same_shape(&o[0], &o[4]) ||
        !same_shape(&o[6], &o[1]) || !same_shape(&o[7], &o[2]) || !same_shape(&o[8], &o[3]))
        return mismatch(call, "shapes of dout, q, k, v, out, lse, dq, dk, dv");
    return check_dropout(call, 9);
}

/* table [V, C], ids [..], rows [.., C]. */
static bool embedding_shapes(const struct remat_operand *table, const struct remat_operand *ids,
                             const struct remat_operand *rows)
{
    return table->rank == 2 && rows->rank == ids->rank + 1u && same_dims(rows, ids, ids->rank) &&
           rows->shape[ids->rank] == table->shape[1];
}

static remat_status check_embedding(const struct builtin_call *call)
{
    if (!embedding_shapes(&call->o[0], &call->o[1], &call->o[2]))
        return mismatch(call, "shapes of table, ids, out");
    return REMAT_OK;
}

static remat_status check_embedding_backward(const struct builtin_call *call)
{
    if (!embedding_shapes(&call->o[2], &call->o[1], &call->o[0]))
        return mismatch(call, "shapes of dout, ids, table");
    if (!is_whole(call->parameters[0], 2))
        return mismatch(call, "accumulate is 0 or 1");
    if ((call->parameters[0] != 0) != (call->o[2].access == REMAT_ACCESS_UPDATE))
        return mismatch(call, "table is updated where accumulate is 1, else written");
    return REMAT_OK;
}

static remat_status check_adamw_coefficients(const struct builtin_call *call)
{
    static const uint64_t counts[3] = {1, 1, 4};
    for (uint32_t k = 0; k < 3; k++) {
        uint64_t elements = 0;
        (void)remat_dims_elements(call->o[k].shape, call->o[k].rank, &elements);
        if (elements != counts[k])
            return mismatch(call, "lr [1], step [1] and out [4] are expected");
    }
    return REMAT_OK;
}

static remat_status check_copy(const struct builtin_call *call)
{
    if (!same_shape(&call->o[0], &call->o[1]))
        return mismatch(call, "shapes differ");
    return REMAT_OK;
}

static remat_status check_concat(const struct builtin_call *call)
{
    const struct remat_command *c = &call->v->program->commands[call->index];
    uint32_t last = c->operand_end - c->operand_begin - 1;
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

static bool is_one(const struct remat_operand *o)
{
    uint64_t elements = 0;
    return remat_dims_elements(o->shape, o->rank, &elements) && elements == 1;
}

static remat_status check_batch_slice(const struct builtin_call *call)
{
    const struct remat_operand *in = &call->o[0], *index = &call->o[1], *out = &call->o[2];
    if (in->rank == 0 || in->rank != out->rank || !is_one(index) ||
        memcmp(in->shape + 1, out->shape + 1, (in->rank - 1) * sizeof in->shape[0]) != 0)
        return mismatch(call, "in [N b, ..], index [1] and out [b, ..] are expected");
    if (in->shape[0] % out->shape[0] || in->shape[0] / out->shape[0] > INT32_MAX)
        return mismatch(call, "out is no whole part of in");
    return REMAT_OK;
}

static remat_status check_advance(const struct builtin_call *call)
{
    if (!is_one(&call->o[0]) || call->parameters[0] < 1 ||
        !is_whole(call->parameters[0], 2147483648.0))
        return mismatch(call, "index [1] and a count are expected");
    return REMAT_OK;
}

static remat_status check_part_number(const struct builtin_call *call)
{
    const struct remat_operand *o = call->o;
    if (!is_one(&o[0]) || !is_one(&o[1]) || !is_one(&o[2]) || call->parameters[0] < 1 ||
        !is_whole(call->parameters[0], REMAT_CALL_TIMES_MAX + 1.0))
        return mismatch(call, "rank [1], microbatch [1], out [1] and a count are expected");
    return REMAT_OK;
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
    if (call->o[1].rank != 2)
        return mismatch(call, "out [ranks, part] is expected");
    const struct remat_operand *in = &call->o[0], *out = &call->o[1];
    if (in->shape[0] != out->shape[0] && !remat_layout_has('d', in->rank, in->shape, in->strides))
        return mismatch(call, "in is neither contiguous nor a row for each rank");
    return check_transfer(call, in, out);
}

static remat_status check_gather(const struct builtin_call *call)
{
    if (call->o[0].rank != 1)
        return mismatch(call, "in [part] is expected");
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
    const struct remat_command *c = &call->v->program->commands[call->index];
    uint32_t operands = c->operand_end - c->operand_begin;
    bool has_rank = operands > 1, has_block = operands > 2;
    double run = call->parameters[5], ranks = call->parameters[6];
    uint64_t elements = 0;
    (void)remat_dims_elements(call->o[0].shape, call->o[0].rank, &elements);
    if (!is_whole(call->parameters[4], 0x1p63))
        return mismatch(call, "the end is no number of elements");
    if (has_rank && !is_one(&call->o[1]))
        return mismatch(call, "rank is not [1]");
    if (has_block && !is_one(&call->o[2]))
        return mismatch(call, "block is not [1]");
    if (!is_whole(run, 0x1p53) || run < 1 || (!has_block && elements % (uint64_t)run) ||
        !is_whole(ranks, REMAT_RANKS_MAX + 1.0) || ranks < 1 || (!has_rank && ranks > 1))
        return mismatch(call, "out is no runs that ranks have");
    return check_fill_normal(call);
}

static remat_status check_own_ids(const struct builtin_call *call)
{
    const struct remat_operand *o = call->o;
    uint64_t given = 0, made = 0;
    (void)remat_dims_elements(o[0].shape, o[0].rank, &given);
    (void)remat_dims_elements(o[2].shape, o[2].rank, &made);
    if (!is_one(&o[1]) || given != made || call->parameters[0] < 1 ||
        !is_whole(call->parameters[0], 2147483648.0))
        return mismatch(call, "ids, rank [1], as many ids out and a count are expected");
    return REMAT_OK;
}

static remat_status check_rope_table(const struct builtin_call *call)
{
    const struct remat_operand *out = &call->o[0];
    const double *p = call->parameters;
    if (out->rank != 4 || out->shape[0] > 1 << 20 || out->shape[1] != 2 || out->shape[2] != 2)
        return mismatch(call, "out is not [at most 2^20, 2, 2, pairs]");
    if (!(p[0] > 1 && p[0] < 1e300 && p[1] >= 1 && p[2] > 0 && p[3] > p[2] && p[4] >= 1))
        return mismatch(call, "parameters theta, factor, low, high or context");
    return REMAT_OK;
}

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
    remat_status st = checks[kind](&call);
    return st ? st : check_operands(&call, remat_kernel_row(kind));
}
