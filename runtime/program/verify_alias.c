/* SPDX-License-Identifier: Apache-2.0 */
/* Operands over each other. What a command writes lies apart from all else that it uses, in bytes
 * of the arena, so that neither the order of a kernel's loads and stores nor that of its threads
 * decides what it reads. The exceptions: a fused kernel stores where it loads, element for
 * element, and flags are flagged by several. One value for a row of several columns is no element:
 * it is loaded for one column when it may be stored for another already. */
#include "verify.h"

#include <assert.h>

struct remat_byte_range remat_verify_range(const struct remat_verifier *v,
                                           const struct remat_operand *o, uint32_t k)
{
    assert(k < REMAT_OPERANDS_MAX);
    const struct remat_program *p = v->program;
    uint64_t offset = p->buffers[p->values[o->value].buffer].offset_bytes;
    return (struct remat_byte_range){offset + o->offset_elements *
                                                  remat_dtype_bytes((remat_dtype)o->dtype),
                                     offset + v->reach_bytes[k]};
}

/* In one way only, and not once for several columns. */
static bool may_be_in_place(const struct remat_operand_use *use, const struct remat_command *c)
{
    bool one_column = c->rank == 0 || c->space[c->rank - 1] == 1,
         one_row = remat_command_rows(c) == 1;
    bool by_column = use->by_column && !one_row;
    bool by_element = use->by_element || use->by_row || (use->by_column && one_row);
    return by_element != by_column && (one_column || !use->by_row);
}

/* Of axis d as the kernel uses an operand in place: one value a column takes no step along others.
 */
static int64_t stride_of(const struct remat_operand_use *use, const struct remat_operand *o,
                         uint32_t d, uint32_t rank)
{
    return use->by_column && d + 1 < rank ? 0 : o->strides[d];
}

/* Whether both address the same elements in the same order. Strides of axes of one element say
 * nothing: a sum of columns over a single row may lie where the row was. */
static bool is_same_view(const struct remat_verifier *v, const struct remat_command *c, uint32_t j,
                         uint32_t k)
{
    const struct remat_operand *x = &v->program->operands[c->operand_begin + j],
                               *y = &v->program->operands[c->operand_begin + k];
    const struct remat_operand_use *a = &v->uses[c->kernel][j], *b = &v->uses[c->kernel][k];
    bool same = remat_verify_range(v, x, j).begin == remat_verify_range(v, y, k).begin &&
                x->dtype == y->dtype && may_be_in_place(a, c) && may_be_in_place(b, c);
    for (uint8_t d = 0; same && d < c->rank; d++)
        same = c->space[d] == 1 || stride_of(a, x, d, c->rank) == stride_of(b, y, d, c->rank);
    return same;
}

/* Loaded where k is stored, or a flag as k is. */
static bool may_alias(const struct remat_verifier *v, const struct remat_command *c, uint32_t j,
                      uint32_t k)
{
    uint8_t other = v->program->operands[c->operand_begin + j].access,
            written = v->program->operands[c->operand_begin + k].access;
    if (written == REMAT_ACCESS_FLAG)
        return other == REMAT_ACCESS_FLAG;
    return other == REMAT_ACCESS_READ && v->uses[c->kernel] && is_same_view(v, c, j, k);
}

static remat_status verify_written(struct remat_verifier *v, uint32_t index, uint32_t k)
{
    const struct remat_program *p = v->program;
    const struct remat_command *c = &p->commands[index];
    const struct remat_operand *operands = &p->operands[c->operand_begin];
    struct remat_byte_range written = remat_verify_range(v, &operands[k], k);
    const struct remat_operand_use *use = v->uses[c->kernel] ? &v->uses[c->kernel][k] : NULL;
    if (use && use->loaded && !may_be_in_place(use, c))
        return remat_verify_error(v, "commands", index, c->name,
                                  "operand %u: its kernel does not store \"%s\" element by element "
                                  "as it loads it",
                                  k, p->values[operands[k].value].name);
    for (uint32_t j = 0; j < c->operand_end - c->operand_begin; j++) {
        struct remat_byte_range used = remat_verify_range(v, &operands[j], j);
        if (j == k || used.end <= written.begin || written.end <= used.begin)
            continue;
        if (may_alias(v, c, j, k))
            continue;
        return remat_verify_error(
            v, "commands", index, c->name,
            "operand %u writes \"%s\" in buffer %u, over what operand %u uses", k,
            p->values[operands[k].value].name, p->values[operands[k].value].buffer, j);
    }
    return REMAT_OK;
}

remat_status remat_verify_alias(struct remat_verifier *v, uint32_t index)
{
    assert(index < v->program->command_count);
    remat_status st = REMAT_OK;
    const struct remat_command *c = &v->program->commands[index];
    for (uint32_t k = 0; k < c->operand_end - c->operand_begin; k++)
        if (v->program->operands[c->operand_begin + k].access != REMAT_ACCESS_READ)
            REMAT_TRY(verify_written(v, index, k));
fail:
    return st;
}
