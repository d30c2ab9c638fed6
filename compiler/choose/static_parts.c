/* SPDX-License-Identifier: Apache-2.0 */
#include "static_parts.h"

#include <assert.h>
#include <fnmatch.h>

const char *remat_static_part_name(enum remat_static_part part)
{
    assert(part < REMAT_STATIC_PARTS);
    static const char *const names[] = {"weights", "accumulators", "masters",
                                        "moments", "frozen",       "other"};
    return names[part];
}

/* States have the names that the passes give them. */
static enum remat_static_part part_of(const struct remat_program *program,
                                      const struct remat_tensor *t, const uint32_t *versions)
{
    static const struct {
        uint8_t role;
        const char *pattern;
        enum remat_static_part part;
    } states[] = {{REMAT_ROLE_STEP_STATE, "*.grad.local", REMAT_PART_ACCUMULATORS},
                  {REMAT_ROLE_OPTIMIZER_STATE, "*.master", REMAT_PART_MASTERS},
                  {REMAT_ROLE_OPTIMIZER_STATE, "*.m", REMAT_PART_MOMENTS},
                  {REMAT_ROLE_OPTIMIZER_STATE, "*.v", REMAT_PART_MOMENTS}};
    const struct remat_program_value *value = &program->values[t->value];
    if (value->role == REMAT_ROLE_PARAMETER)
        return versions[value->buffer] > 1 ? REMAT_PART_WEIGHTS : REMAT_PART_FROZEN;
    if (value->role == REMAT_ROLE_GRADIENT)
        return REMAT_PART_ACCUMULATORS;
    for (size_t i = 0; i < sizeof states / sizeof *states; i++)
        if (value->role == states[i].role && fnmatch(states[i].pattern, t->name, 0) == 0)
            return states[i].part;
    return REMAT_PART_OTHER;
}

static uint64_t elements_of(const struct remat_program_value *value)
{
    bool part = value->whole_rank > 0;
    uint64_t elements = 1;
    for (uint32_t d = 0; d < (part ? value->whole_rank : value->rank); d++)
        elements *= (uint64_t)(part ? value->whole[d] : value->shape[d]);
    return elements;
}

remat_status remat_static_parts_measure(struct remat_arena *arena,
                                        const struct remat_program *program,
                                        struct remat_static_parts *out)
{
    remat_status st = REMAT_OK;
    uint32_t *versions; /* by buffer: a step that updates a parameter makes another one */
    *out = (struct remat_static_parts){.bytes[REMAT_PART_OTHER] = program->static_bytes};
    REMAT_TRY_NEW(arena, versions, program->buffer_count);
    for (uint32_t v = 0; v < program->value_count; v++)
        versions[program->values[v].buffer]++;
    for (uint32_t i = 0; i < program->tensor_count; i++) {
        const struct remat_program_value *value = &program->values[program->tensors[i].value];
        enum remat_static_part part = part_of(program, &program->tensors[i], versions);
        if (part == REMAT_PART_WEIGHTS)
            out->trained += elements_of(value);
        if (part == REMAT_PART_FROZEN)
            out->frozen += elements_of(value);
        out->bytes[REMAT_PART_OTHER] -= value->bytes;
        out->bytes[part] += value->bytes;
    }
fail:
    return st;
}
