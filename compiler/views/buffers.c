/* SPDX-License-Identifier: Apache-2.0 */
#include "buffers.h"

#include "views.h"

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
    if (!labels || !writers ||
        dump_decided(arena, program, program->peak_command, &decided) != REMAT_OK)
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

/* What each buffer is for, and who is live. */

const char *const dump_class_names[DUMP_CLASS_COUNT] = {
    "parameters", "optimizer state", "gradients",          "activations kept",
    "recomputed", "transients",      "inputs and outputs",
};
const char dump_class_letters[] = "POGKRti";

static bool is_forward(const struct remat_program *program, uint32_t command)
{
    uint8_t phase = program->commands[command].phase;
    return phase == REMAT_PHASE_FORWARD || phase == REMAT_PHASE_LOSS;
}

static enum dump_class classify_activation(const struct remat_program *program,
                                           const struct remat_program_value *value)
{
    const struct remat_buffer *buffer = &program->buffers[value->buffer];
    if (value->instance > 0)
        return DUMP_RECOMPUTED;
    if (buffer->persistent || buffer->begin >= buffer->end || buffer->end > program->command_count)
        return DUMP_TRANSIENT;
    return is_forward(program, buffer->begin) && !is_forward(program, buffer->end - 1)
               ? DUMP_KEPT
               : DUMP_TRANSIENT;
}

static enum dump_class classify_value(const struct remat_program *program,
                                      const struct remat_program_value *value)
{
    switch (value->role) {
    case REMAT_ROLE_PARAMETER:
        return DUMP_PARAMETERS;
    case REMAT_ROLE_OPTIMIZER_STATE:
    case REMAT_ROLE_STEP_STATE:
        return DUMP_OPTIMIZER;
    case REMAT_ROLE_GRADIENT:
        return DUMP_GRADIENTS;
    case REMAT_ROLE_INPUT:
    case REMAT_ROLE_CONSTANT:
    case REMAT_ROLE_OUTPUT:
        return DUMP_HOST;
    default:
        return classify_activation(program, value);
    }
}

/* Of values that share a buffer in place, the one named first in enum dump_class tells, so that a
 * gradient made in the memory of an activation counts as a gradient. */
uint8_t *dump_classify(struct remat_arena *arena, const struct remat_program *program)
{
    uint8_t *classes = remat_arena_array(arena, program->buffer_count, sizeof *classes);
    if (!classes)
        return NULL;
    bool *seen = remat_arena_array(arena, program->buffer_count, sizeof *seen);
    if (!seen)
        return NULL;
    memset(classes, DUMP_TRANSIENT, program->buffer_count);
    for (uint32_t v = 0; v < program->value_count; v++) {
        const struct remat_program_value *value = &program->values[v];
        uint8_t class = (uint8_t)classify_value(program, value);
        if (!seen[value->buffer] || class < classes[value->buffer])
            classes[value->buffer] = class;
        seen[value->buffer] = true;
    }
    return classes;
}
