/* SPDX-License-Identifier: Apache-2.0 */
#include "verify.h"

#include <assert.h>
#include <stdarg.h>

remat_status remat_verify_error(struct remat_verifier *v, const char *table, uint32_t index,
                                const char *name, const char *format, ...)
{
    char what[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    if (!name)
        return remat_error(v->ctx, REMAT_ERROR_INVALID, "%s[%u]: %s", table, index, what);
    return remat_error(v->ctx, REMAT_ERROR_INVALID, "%s[%u] \"%.200s\": %s", table, index, name,
                       what);
}

bool remat_dims_elements(const int64_t *dims, uint32_t rank, uint64_t *out)
{
    assert(rank <= REMAT_RANK_MAX);
    *out = 1;
    for (uint32_t d = 0; d < rank; d++)
        if (dims[d] <= 0 || !remat_mul_u64(*out, (uint64_t)dims[d], out) ||
            *out > REMAT_ELEMENTS_MAX)
            return false;
    return true;
}

uint64_t remat_command_rows(const struct remat_command *c)
{
    uint64_t rows = 1;
    (void)remat_dims_elements(c->space, c->rank ? c->rank - 1u : 0, &rows);
    return rows;
}

bool remat_view_injective(const struct remat_operand *operand, const int64_t *dims, uint32_t begin,
                          uint32_t end)
{
    assert(begin <= end && end <= REMAT_RANK_MAX);
    bool done[REMAT_RANK_MAX] = {false};
    uint64_t reached = 1;
    for (uint32_t k = begin; k < end; k++) {
        uint32_t least = REMAT_RANK_MAX;
        for (uint32_t d = begin; d < end; d++)
            if (!done[d] &&
                (least == REMAT_RANK_MAX || operand->strides[d] < operand->strides[least]))
                least = d;
        done[least] = true;
        if (dims[least] == 1)
            continue;
        if ((uint64_t)operand->strides[least] < reached)
            return false;
        reached += ((uint64_t)dims[least] - 1) * (uint64_t)operand->strides[least];
    }
    return true;
}

void remat_verify_reach(struct remat_verifier *v, uint32_t k, uint64_t bytes)
{
    assert(k < REMAT_OPERANDS_MAX);
    if (bytes > v->reach_bytes[k])
        v->reach_bytes[k] = bytes;
}

remat_status remat_verify_random_state(struct remat_verifier *v, uint32_t index, uint32_t k)
{
    assert(index < v->program->command_count);
    const struct remat_program *p = v->program;
    const struct remat_command *c = &p->commands[index];
    const struct remat_operand *o = &p->operands[c->operand_begin + k];
    uint64_t end, bytes;
    if (o->dtype != REMAT_I32 || o->access != REMAT_ACCESS_READ)
        return remat_verify_error(v, "commands", index, c->name,
                                  "operand %u: the random state is read and i32", k);
    if (!remat_add_u64(o->offset_elements, 4, &end) ||
        !remat_mul_u64(end, remat_dtype_bytes(REMAT_I32), &bytes) ||
        bytes > p->buffers[p->values[o->value].buffer].bytes)
        return remat_verify_error(v, "commands", index, c->name,
                                  "operand %u: \"%s\" has no four elements of random state", k,
                                  p->values[o->value].name);
    remat_verify_reach(v, k, bytes);
    return REMAT_OK;
}
