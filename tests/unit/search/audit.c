/* SPDX-License-Identifier: Apache-2.0 */
/* Elements are marked in a map of the buffer, one for what is read of a value and one for what is
 * written of it, so that no rule about views is needed. */
#include "audit.h"

#include <stdlib.h>

struct auditor {
    const struct remat_program *program;
    const struct remat_command *command;
    const struct remat_operand *operands;
    uint32_t operand_count, kind;
};

static const struct remat_kernel *kernel_of(const struct auditor *a)
{
    return &a->program->kernels[a->command->kernel];
}

static uint64_t element_bytes(uint8_t dtype)
{
    return dtype == REMAT_BF16 ? 2 : 4;
}

/* --- bytes --- */

static void mark(uint8_t *map, const struct remat_operand *o)
{
    int64_t at[REMAT_RANK_MAX] = {0};
    uint32_t outer = o->rank; /* axes that are walked; a contiguous last one is marked at once */
    uint64_t run = 1;
    if (outer && o->strides[outer - 1] == 1)
        run = (uint64_t)o->shape[--outer];
    for (bool more = true; more;) {
        uint64_t element = o->offset_elements;
        for (uint32_t axis = 0; axis < outer; axis++)
            element += (uint64_t)(at[axis] * o->strides[axis]);
        memset(map + element, 1, run);
        more = false;
        for (uint32_t axis = outer; axis-- > 0 && !more;) {
            more = ++at[axis] < (o->strides[axis] ? o->shape[axis] : 1);
            at[axis] = more ? at[axis] : 0;
        }
    }
}

/* A fused kernel touches what its loads, its stores and its random state name. A flag counts as
 * read: it is written only where something went wrong. */
static bool program_touches(const struct auditor *a, uint32_t operand, bool writes)
{
    const struct remat_kernel_body *p = &kernel_of(a)->body;
    for (uint32_t i = 0; i < p->instruction_count; i++) {
        uint16_t opcode = p->instructions[i].opcode;
        bool reads = opcode == REMAT_INSTRUCTION_load || opcode == REMAT_INSTRUCTION_load_row ||
                     opcode == REMAT_INSTRUCTION_random || opcode == REMAT_INSTRUCTION_flag;
        if (p->instructions[i].operand == operand &&
            (writes ? opcode == REMAT_INSTRUCTION_store : reads))
            return true;
    }
    return false;
}

/* The value that the operand reads, or that it writes; REMAT_NONE where it does not. */
static uint32_t touched_value(const struct auditor *a, uint32_t operand, bool writes)
{
    const struct remat_operand *o = &a->operands[operand];
    bool update = o->access == REMAT_ACCESS_UPDATE;
    bool touched = o->access == (writes ? REMAT_ACCESS_WRITE : REMAT_ACCESS_READ) || update;
    if (a->kind == REMAT_KERNEL_fused)
        touched = program_touches(a, operand, writes);
    return !touched ? REMAT_NONE : update && !writes ? o->previous : o->value;
}

static uint64_t elements_of(const struct remat_operand *o)
{
    uint64_t elements = 1;
    for (uint32_t axis = 0; axis < o->rank; axis++)
        elements *= (uint64_t)o->shape[axis];
    return elements;
}

/* Rows of a table that ids point at, one part of a batch, the random state: how much of an operand
 * can be touched whatever its view says. */
static uint64_t limit_bytes(const struct auditor *a, uint32_t o)
{
    const struct remat_operand *operand = &a->operands[o], *whole = operand;
    const struct remat_kernel_body *p = &kernel_of(a)->body;
    bool accumulates = operand->access == REMAT_ACCESS_UPDATE;
    if ((a->kind == REMAT_KERNEL_embedding || a->kind == REMAT_KERNEL_batch_slice) && o == 0)
        whole = &a->operands[2];
    else if (a->kind == REMAT_KERNEL_embedding_backward && accumulates)
        whole = &a->operands[0];
    else if (a->kind == REMAT_KERNEL_fused) {
        for (uint32_t i = 0; i < p->instruction_count; i++)
            if (p->instructions[i].opcode == REMAT_INSTRUCTION_random &&
                p->instructions[i].operand == o)
                return 4 * sizeof(int32_t);
        return UINT64_MAX;
    } else
        return UINT64_MAX;
    return elements_of(whole) * element_bytes(operand->dtype);
}

/* Bytes of `value` that operands from the first one on touch; 0 where an earlier one has it. */
static bool count_value(const struct auditor *a, uint32_t first, bool writes, uint64_t *out)
{
    uint32_t value = touched_value(a, first, writes);
    uint64_t touched = 0, limit = limit_bytes(a, first);
    if (value == REMAT_NONE)
        return true;
    for (uint32_t o = 0; o < first; o++)
        if (touched_value(a, o, writes) == value)
            return true;
    uint64_t size = element_bytes(a->operands[first].dtype);
    uint64_t elements = a->program->buffers[a->program->values[value].buffer].bytes / size;
    uint8_t *map = calloc(elements, 1);
    bool counted = map != NULL;
    for (uint32_t o = first; o < a->operand_count && counted; o++) {
        if (touched_value(a, o, writes) != value)
            continue;
        counted = element_bytes(a->operands[o].dtype) == size;
        if (counted)
            mark(map, &a->operands[o]);
    }
    for (uint64_t e = 0; e < elements && counted; e++)
        touched += map[e];
    free(map);
    touched *= size;
    *out += touched < limit ? touched : limit;
    return counted;
}

/* --- flops --- */

static bool is_between(uint16_t opcode, enum remat_opcode first, enum remat_opcode last)
{
    return opcode >= first && opcode <= last;
}

static uint32_t flops_each(uint16_t opcode)
{
    static const uint8_t flops[] = {
#define INSTRUCTION(name, arity, flops, text) flops,
#include "instructions.def"
#undef INSTRUCTION
    };
    return flops[opcode];
}

/* extents[i]: how many values register i has; a reduction counts its argument's. */
static uint64_t program_flops(const struct auditor *a)
{
    const struct remat_kernel_body *p = &kernel_of(a)->body;
    uint64_t rows = 1, columns = (uint64_t)a->command->space[a->command->rank - 1], flops = 0;
    uint64_t *extents = calloc(p->instruction_count, sizeof *extents);
    bool *spans_rows = calloc(2 * p->instruction_count, sizeof *spans_rows);
    bool *spans_columns = spans_rows + p->instruction_count;
    for (uint32_t axis = 0; axis + 1 < a->command->rank; axis++)
        rows *= (uint64_t)a->command->space[axis];
    for (uint32_t i = 0; extents && spans_rows && i < p->instruction_count; i++) {
        const struct remat_instruction *in = &p->instructions[i];
        bool element = in->opcode == REMAT_INSTRUCTION_load ||
                       in->opcode == REMAT_INSTRUCTION_column ||
                       in->opcode == REMAT_INSTRUCTION_random;
        spans_rows[i] = element || in->opcode == REMAT_INSTRUCTION_load_row;
        spans_columns[i] = element;
        for (uint32_t arg = 0; arg < 3; arg++)
            if (in->args[arg] != REMAT_NO_REGISTER) {
                spans_rows[i] |= spans_rows[in->args[arg]];
                spans_columns[i] |= spans_columns[in->args[arg]];
            }
        extents[i] = (spans_rows[i] ? rows : 1) * (spans_columns[i] ? columns : 1);
        flops += flops_each(in->opcode) * extents[i];
        if (is_between(in->opcode, REMAT_INSTRUCTION_row_sum, REMAT_INSTRUCTION_row_max) &&
            columns > 1024) /* through shared memory */
            flops += 6 * extents[i];
        if (in->opcode == REMAT_INSTRUCTION_column_sum)
            flops += 150 * columns;
        spans_columns[i] &=
            !is_between(in->opcode, REMAT_INSTRUCTION_row_sum, REMAT_INSTRUCTION_row_max);
        spans_rows[i] &= in->opcode != REMAT_INSTRUCTION_column_sum;
    }
    free(extents);
    free(spans_rows);
    return flops;
}

/* Of each pair of a query and a key that it sees, in each head: so many flops an element of the
 * head's depth, and so many beside. */
static uint64_t attention_flops(const struct auditor *a, uint32_t q, uint64_t deep, uint64_t beside)
{
    const int64_t *queries = a->operands[q].shape, *keys = a->operands[q + 1].shape;
    bool causal = a->program->parameters[a->command->parameter_begin + 1] != 0;
    uint64_t pairs = 0;
    for (int64_t i = 0; i < queries[1]; i++)
        for (int64_t j = 0; j < keys[1]; j++)
            pairs += !causal || j <= i + keys[1] - queries[1];
    return (uint64_t)(queries[0] * queries[2]) * pairs * (deep * (uint64_t)queries[3] + beside);
}

static bool count_flops(const struct auditor *a, uint64_t *out)
{
    const struct remat_operand *o = a->operands;
    *out = 0;
    switch ((enum remat_kernel_kind)a->kind) { /* without a default: a new kind does not compile */
    case REMAT_KERNEL_fused:
        *out = program_flops(a);
        return true;
    case REMAT_KERNEL_matmul: /* one product and one sum for each k of each element */
        *out = 2 * elements_of(&o[2]) * (uint64_t)o[0].shape[o[0].rank - 1];
        return true;
    case REMAT_KERNEL_attention: /* scores and values; softmax */
        *out = attention_flops(a, 0, 4, 20);
        return true;
    case REMAT_KERNEL_attention_backward: /* scores, dp, dv, dk, dq; softmax and its derivative */
        *out = attention_flops(a, 1, 10, 22);
        return true;
    case REMAT_KERNEL_embedding_backward:
        *out = elements_of(&o[0]);
        return true;
    case REMAT_KERNEL_embedding:
    case REMAT_KERNEL_adamw_coefficients:
    case REMAT_KERNEL_copy:
    case REMAT_KERNEL_concat:
    case REMAT_KERNEL_pad:
    case REMAT_KERNEL_batch_slice:
    case REMAT_KERNEL_advance:
    case REMAT_KERNEL_part_number:
    case REMAT_KERNEL_exchange:
    case REMAT_KERNEL_gather:
    case REMAT_KERNEL_fill:
    case REMAT_KERNEL_rope_table:
    case REMAT_KERNEL_fill_normal:
    case REMAT_KERNEL_fill_normal_part:
    case REMAT_KERNEL_own_ids:
        return true;
    case REMAT_KERNEL_KIND_COUNT:
        break;
    }
    return false;
}

bool audit_command(const struct remat_program *program, const struct remat_command *command,
                   struct audit *out)
{
    struct auditor a = {
        .program = program,
        .command = command,
        .operands = &program->operands[command->operand_begin],
        .operand_count = command->operand_end - command->operand_begin,
        .kind = program->kernels[command->kernel].kind,
    };
    bool known = count_flops(&a, &out->flops);
    out->moved_bytes = 0;
    for (uint32_t o = 0; o < a.operand_count && known; o++)
        known = count_value(&a, o, false, &out->moved_bytes) &&
                count_value(&a, o, true, &out->moved_bytes);
    return known;
}
