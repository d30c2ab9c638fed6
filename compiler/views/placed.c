/* SPDX-License-Identifier: Apache-2.0 */
/* The name of a parameter's placement follows from its first reader. */
#include "placed.h"

#include "dump.h"

static const struct placement_name vocabulary = {"vocab-parallel", "RowwiseParallel"},
                                   columns = {"column-parallel", "ColwiseParallel"},
                                   rows = {"row-parallel", "RowwiseParallel"},
                                   tokens = {"sequence-parallel", "SequenceParallel"};

/* The dimension in which runs take turns; if none is, all up to the one in which runs end. */
static void find_dimensions(const struct remat_program *program, struct placement *out)
{
    const struct remat_program_value *value = &program->values[out->value];
    uint64_t ranks = program->mesh[value->part_axis].size, after = 1, run = value->part_run;
    for (out->end = value->whole_rank; out->end-- > 0;) {
        uint64_t all = after * (uint64_t)value->whole[out->end];
        if (run < all)
            break;
        after = all;
    }
    uint64_t all = after * (uint64_t)value->whole[out->end];
    bool alone = run % after == 0 && all % (run * ranks) == 0;
    out->begin = alone ? out->end : 0;
    out->blocks = alone ? all / (run * ranks) : 1;
    out->end++;
}

static bool is_forward(uint8_t phase)
{
    return phase == REMAT_PHASE_FORWARD || phase == REMAT_PHASE_LOSS;
}

static bool is_divided(const struct remat_program *program, uint32_t value, const char *axis)
{
    const struct remat_program_value *v = &program->values[value];
    return v->whole_rank && strcmp(program->mesh[v->part_axis].name, axis) == 0;
}

static uint32_t written_by(const struct remat_program *program, const struct remat_command *command)
{
    for (uint32_t o = command->operand_begin; o < command->operand_end; o++)
        if (program->operands[o].access & REMAT_ACCESS_WRITE)
            return program->operands[o].value;
    return REMAT_NONE;
}

/* A product over a split dimension is a sum that is not finished, and so no part. */
static const struct placement_name *name_by(const struct remat_program *program,
                                            const struct remat_command *reader)
{
    switch (program->kernels[reader->kernel].kind) {
    case REMAT_KERNEL_embedding:
        return &vocabulary;
    case REMAT_KERNEL_matmul:
        return is_divided(program, written_by(program, reader), "tp") ? &columns : &rows;
    case REMAT_KERNEL_fused: /* adds it to a product */
        return &columns;
    default:
        return NULL;
    }
}

static remat_status find_readers(struct remat_arena *arena, const struct remat_program *program,
                                 struct placement *parameters, size_t count)
{
    remat_status st = REMAT_OK;
    struct placement **of; /* by value: the parameter that it is, or was gathered from */
    REMAT_TRY_NEW(arena, of, program->value_count);
    for (size_t p = 0; p < count; p++)
        of[parameters[p].value] = &parameters[p];
    for (uint32_t c = 0; c < program->command_count; c++) {
        const struct remat_command *command = &program->commands[c];
        struct remat_transfer_shape transfer;
        bool moves = remat_command_transfer(program, c, &transfer);
        if (!is_forward(command->phase))
            continue;
        for (uint32_t o = command->operand_begin; o < command->operand_end; o++) {
            struct placement *parameter = of[program->operands[o].value];
            if (!parameter || !(program->operands[o].access & REMAT_ACCESS_READ))
                continue;
            if (parameter->reader == REMAT_NONE && program->operands[o].value == parameter->value)
                parameter->layer = command->layer; /* of a gather, where there is one */
            if (moves)
                of[transfer.to->value] = parameter;
            else if (parameter->reader == REMAT_NONE) {
                parameter->reader = c;
                if (is_divided(program, parameter->value, "tp"))
                    parameter->name = name_by(program, command);
            }
        }
    }
fail:
    return st;
}

static remat_status add(struct remat_arena *arena, const struct remat_program *program,
                        uint32_t value, struct placements *out)
{
    remat_status st = REMAT_OK;
    struct placement placement = {.value = value,
                                  .layer = program->values[value].layer,
                                  .reader = REMAT_NONE,
                                  .name = program->values[value].part_tokens ? &tokens : NULL};
    find_dimensions(program, &placement);
    REMAT_TRY_PUSH(arena, out, placement);
fail:
    return st;
}

static remat_status add_written(struct remat_arena *arena, const struct remat_program *program,
                                const struct remat_segment *segment, struct placements *out)
{
    remat_status st = REMAT_OK;
    for (uint32_t c = segment->command_begin; c < segment->command_end; c++) {
        const struct remat_command *command = &program->commands[c];
        for (uint32_t o = command->operand_begin; o < command->operand_end; o++) {
            const struct remat_operand *operand = &program->operands[o];
            if (is_forward(command->phase) && !command->instance &&
                operand->access == REMAT_ACCESS_WRITE && program->values[operand->value].whole_rank)
                REMAT_TRY(add(arena, program, operand->value, out));
        }
    }
fail:
    return st;
}

remat_status placed_find(struct remat_arena *arena, const struct remat_program *program,
                         struct placements *out)
{
    remat_status st = REMAT_OK;
    const struct remat_entry *step = remat_program_step(program);
    for (uint32_t t = 0; t < program->tensor_count; t++) {
        const struct remat_program_value *value = &program->values[program->tensors[t].value];
        if (value->role == REMAT_ROLE_PARAMETER && value->whole_rank)
            REMAT_TRY(add(arena, program, program->tensors[t].value, out));
    }
    REMAT_TRY(find_readers(arena, program, out->items, out->count));
    for (uint32_t c = step ? step->call_begin : 0; step && c < step->call_end; c++)
        REMAT_TRY(add_written(arena, program, &program->segments[program->calls[c].segment], out));
fail:
    return st;
}
