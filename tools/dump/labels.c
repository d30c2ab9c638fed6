/* SPDX-License-Identifier: Apache-2.0 */
#include "labels.h"

#include "decided.h"

/* The kernel of a command: its ops where it is a fused one, without what tells equal ones apart. */
static const char *kernel_op(struct remat_arena *arena, const struct remat_program *program,
                             const struct remat_command *command)
{
    const struct remat_kernel *kernel = &program->kernels[command->kernel];
    if (kernel->kind != REMAT_KERNEL_fused)
        return remat_kernel_kind_name(kernel->kind);
    return remat_arena_string(arena, kernel->key, strcspn(kernel->key, "#"));
}

/* By value: the command of a step that writes it first; REMAT_NONE. */
static uint32_t *find_writers(struct remat_arena *arena, const struct remat_program *program)
{
    uint32_t *writers = remat_arena_array(arena, program->value_count + 1, sizeof *writers);
    for (uint32_t v = 0; writers && v < program->value_count; v++)
        writers[v] = REMAT_NONE;
    for (uint32_t c = 0; writers && c < program->command_count; c++)
        for (uint32_t o = program->commands[c].operand_begin; o < program->commands[c].operand_end;
             o++) {
            const struct remat_operand *operand = &program->operands[o];
            bool writes = operand->access == REMAT_ACCESS_WRITE &&
                          program->commands[c].phase != REMAT_PHASE_INIT;
            if (writes && writers[operand->value] == REMAT_NONE)
                writers[operand->value] = c;
        }
    return writers;
}

struct dump_label *dump_labels(struct remat_arena *arena, const struct remat_program *program)
{
    struct dump_decided decided;
    struct dump_label *labels = remat_arena_array(arena, program->buffer_count + 1, sizeof *labels);
    const uint32_t *writers = find_writers(arena, program);
    if (!labels || !writers || dump_decided(arena, program, &decided) != REMAT_OK)
        return NULL;
    for (uint32_t b = 0; b < program->buffer_count; b++)
        labels[b] = (struct dump_label){"", -1, ""};
    for (uint32_t v = 0; v < program->value_count; v++) {
        const struct remat_program_value *value = &program->values[v];
        struct dump_label *label = &labels[value->buffer];
        uint32_t decision = decided.decision[v];
        if (*label->name)
            continue;
        label->name = value->name;
        label->layer = value->layer;
        if (decision != REMAT_NONE && program->decisions[decision].op &&
            *program->decisions[decision].op)
            label->op = program->decisions[decision].op;
        else if (writers[v] != REMAT_NONE)
            label->op = kernel_op(arena, program, &program->commands[writers[v]]);
        if (!label->op)
            return NULL;
    }
    return labels;
}
