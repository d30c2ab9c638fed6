/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors whose elements the plan has: the session writes them before init, and nobody else. */
#include "verify.h"

static remat_status verify_data(struct remat_verifier *v, uint32_t i)
{
    const struct remat_program *p = v->program;
    const struct remat_tensor *t = &p->tensors[i];
    const struct remat_program_value *value = &p->values[t->value];
    bool is_typed = value->dtype == REMAT_F32 || value->dtype == REMAT_I32;
    if (value->role != REMAT_ROLE_CONSTANT || !is_typed || value->whole_rank || t->initializer ||
        !p->buffers[value->buffer].persistent)
        return remat_verify_error(v, "tensors", i, t->name,
                                  "data, but no persistent f32 or i32 constant, whole and without "
                                  "an initializer");
    if (t->data_bytes != value->bytes)
        return remat_verify_error(v, "tensors", i, t->name, "%llu bytes of data for %llu",
                                  (ull)t->data_bytes, (ull)value->bytes);
    return REMAT_OK;
}

static remat_status verify_writes(struct remat_verifier *v, const bool *constant)
{
    const struct remat_program *p = v->program;
    for (uint32_t i = 0; i < p->command_count; i++)
        for (uint32_t o = p->commands[i].operand_begin; o < p->commands[i].operand_end; o++) {
            const struct remat_program_value *value = &p->values[p->operands[o].value];
            if ((p->operands[o].access & REMAT_ACCESS_WRITE) && constant[value->buffer])
                return remat_verify_error(v, "commands", i, p->commands[i].name,
                                          "it writes \"%s\" into a buffer of a constant",
                                          value->name);
        }
    return REMAT_OK;
}

remat_status remat_verify_constants(struct remat_verifier *v)
{
    remat_status st = REMAT_OK;
    const struct remat_program *p = v->program;
    uint64_t all_bytes = 0;
    bool *constant; /* by buffer */
    REMAT_TRY_NEW(&v->scratch, constant, p->buffer_count);
    for (uint32_t i = 0; i < p->tensor_count; i++) {
        if (!p->tensors[i].data)
            continue;
        REMAT_TRY(verify_data(v, i));
        constant[p->values[p->tensors[i].value].buffer] = true;
        all_bytes += p->tensors[i].data_bytes;
        if (all_bytes > REMAT_CONSTANTS_BYTES_MAX)
            REMAT_TRY(remat_verify_error(v, "tensors", i, p->tensors[i].name,
                                         "%llu bytes of constants; accepted: %llu", (ull)all_bytes,
                                         (ull)REMAT_CONSTANTS_BYTES_MAX));
    }
    st = all_bytes ? verify_writes(v, constant) : REMAT_OK;
fail:
    return st;
}
