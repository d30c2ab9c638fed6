/* SPDX-License-Identifier: Apache-2.0 */
#include "program.h"

#include <inttypes.h>
#include <stdio.h>

const char *remat_role_name(uint32_t role)
{
    static const char *const names[REMAT_ROLE_COUNT] = {
        [REMAT_ROLE_ACTIVATION] = "activation", [REMAT_ROLE_PARAMETER] = "parameter",
        [REMAT_ROLE_GRADIENT] = "gradient",     [REMAT_ROLE_OPTIMIZER_STATE] = "optimizer state",
        [REMAT_ROLE_INPUT] = "input",           [REMAT_ROLE_CONSTANT] = "constant",
        [REMAT_ROLE_OUTPUT] = "output",
    };
    return role < REMAT_ROLE_COUNT ? names[role] : NULL;
}

const char *remat_phase_name(uint32_t phase)
{
    static const char *const names[REMAT_PHASE_COUNT] = {
        [REMAT_PHASE_FORWARD] = "forward",   [REMAT_PHASE_LOSS] = "loss",
        [REMAT_PHASE_BACKWARD] = "backward", [REMAT_PHASE_OPTIMIZER] = "optimizer",
        [REMAT_PHASE_INIT] = "init",
    };
    return phase < REMAT_PHASE_COUNT ? names[phase] : NULL;
}

uint32_t remat_program_recomputed(const struct remat_program *program)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < program->decision_count; i++)
        count += program->decisions[i].action != REMAT_ACTION_SAVE;
    return count;
}

uint32_t remat_program_fused(const struct remat_program *program)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < program->decision_count; i++)
        count += program->decisions[i].action == REMAT_ACTION_FUSED;
    return count;
}

const char *remat_action_name(uint32_t action)
{
    static const char *const names[REMAT_ACTION_COUNT] = {
        [REMAT_ACTION_SAVE] = "save",
        [REMAT_ACTION_RECOMPUTE] = "recompute",
        [REMAT_ACTION_FUSED] = "recompute fused",
        [REMAT_ACTION_NESTED] = "nested",
        [REMAT_ACTION_NESTED_FUSED] = "nested fused",
    };
    return action < REMAT_ACTION_COUNT ? names[action] : NULL;
}

uint32_t remat_program_nested(const struct remat_program *program)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < program->decision_count; i++)
        count += remat_action_times(program->decisions[i].action) > 1;
    return count;
}

uint32_t remat_action_nested(uint32_t action)
{
    return action == REMAT_ACTION_RECOMPUTE ? REMAT_ACTION_NESTED
           : action == REMAT_ACTION_FUSED   ? REMAT_ACTION_NESTED_FUSED
                                            : action;
}

const char *remat_cost_source_name(uint32_t source)
{
    static const char *const names[REMAT_COST_SOURCES] = {
        [REMAT_COST_MODELLED] = "modelled",
        [REMAT_COST_INTERPOLATED] = "interpolated",
        [REMAT_COST_MEASURED] = "measured",
    };
    return source < REMAT_COST_SOURCES ? names[source] : NULL;
}

size_t remat_operand_print(const struct remat_operand *operand, char *out, size_t bytes)
{
    char text[REMAT_OPERAND_TEXT_BYTES];
    uint32_t rank = operand->rank;
    size_t length = (size_t)snprintf(text, sizeof text, "%s[", remat_dtype_name(operand->dtype));
    for (uint32_t axis = 0; axis < rank; axis++)
        length += (size_t)snprintf(
            text + length, sizeof text - length, "%s%s%" PRId64, axis ? "," : "",
            operand->strides[axis] || operand->shape[axis] == 1 ? "" : "*", operand->shape[axis]);
    bool strided = rank && operand->strides[rank - 1] > 1 && operand->shape[rank - 1] > 1;
    length += (size_t)snprintf(text + length, sizeof text - length, "]%s", strided ? "'" : "");
    if (bytes)
        snprintf(out, bytes, "%s", text);
    return length;
}

void remat_program_cost_shares(const struct remat_program *program,
                               double shares[REMAT_COST_SOURCES])
{
    const struct remat_entry *entry = NULL;
    double total = 0;
    for (uint32_t e = 0; e < program->entry_count; e++)
        if (strcmp(program->entries[e].name, "train") == 0 ||
            (!entry && strcmp(program->entries[e].name, "eval") == 0))
            entry = &program->entries[e];
    memset(shares, 0, REMAT_COST_SOURCES * sizeof *shares);
    for (uint32_t i = entry ? entry->call_begin : 0; i < (entry ? entry->call_end : 0); i++) {
        const struct remat_segment *segment = &program->segments[program->calls[i].segment];
        for (uint32_t c = segment->command_begin; c < segment->command_end; c++) {
            const struct remat_command *command = &program->commands[c];
            double ns = (double)command->estimated_ns * program->calls[i].times;
            shares[command->cost_source] += ns;
            total += ns;
        }
    }
    for (uint32_t s = 0; s < REMAT_COST_SOURCES && total > 0; s++)
        shares[s] /= total;
}
