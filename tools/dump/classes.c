/* SPDX-License-Identifier: Apache-2.0 */
/* What each buffer is for, and who is live. */
#include "classes.h"

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
