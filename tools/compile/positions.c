/* SPDX-License-Identifier: Apache-2.0 */
#include "positions.h"

#include "notes.h"

#include <jansson.h>

/* 0: it does not say. */
static int64_t made_for(const struct remat_program *program)
{
    json_t *config = json_loads(program->config ? program->config : "", 0, NULL);
    int64_t out = json_integer_value(json_object_get(config, "max_position_embeddings"));
    json_decref(config);
    return out;
}

/* Of the inputs [batch, length] of remat-graph. */
static int64_t longest_sequence(const struct remat_program *program)
{
    static const char *const inputs[] = {"tokens", "source"};
    int64_t longest = 0;
    for (uint32_t t = 0; t < program->tensor_count; t++) {
        const struct remat_program_value *value = &program->values[program->tensors[t].value];
        for (size_t k = 0; k < sizeof inputs / sizeof *inputs; k++)
            if (strcmp(program->tensors[t].name, inputs[k]) == 0 && value->rank == 2 &&
                value->shape[1] > longest)
                longest = value->shape[1];
    }
    return longest;
}

remat_status positions_note(struct remat_arena *arena, struct remat_program *program)
{
    int64_t longest = longest_sequence(program), positions = made_for(program);
    if (positions <= 0 || longest <= positions)
        return REMAT_OK;
    return notes_add(
        arena, program,
        "sequences of %lld tokens are above the %lld positions that the model was made "
        "for; its positions are computed, so there are more",
        (long long)longest, (long long)positions);
}
