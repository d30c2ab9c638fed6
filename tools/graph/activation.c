/* SPDX-License-Identifier: Apache-2.0 */
#include "activation.h"

struct remat_activation {
    const char *name;
    uint16_t op, gated; /* gated: of (gate, x); REMAT_OP_mul: of op(gate) and x */
    bool tanh_form;     /* of gelu */
};

static const struct remat_activation activations[] = {
    {"gelu", REMAT_OP_gelu, REMAT_OP_mul, false},
    {"gelu_python", REMAT_OP_gelu, REMAT_OP_mul, false},
    {"gelu_new", REMAT_OP_gelu, REMAT_OP_mul, true},
    {"gelu_fast", REMAT_OP_gelu, REMAT_OP_mul, true},
    {"gelu_accurate", REMAT_OP_gelu, REMAT_OP_mul, true},
    {"gelu_pytorch_tanh", REMAT_OP_gelu, REMAT_OP_mul, true},
    {"gelu_python_tanh", REMAT_OP_gelu, REMAT_OP_mul, true},
    {"relu", REMAT_OP_relu, REMAT_OP_mul, false},
    {"silu", REMAT_OP_silu, REMAT_OP_swiglu, false},
    {"swish", REMAT_OP_silu, REMAT_OP_swiglu, false},
    {"sigmoid", REMAT_OP_sigmoid, REMAT_OP_mul, false},
    {"tanh", REMAT_OP_tanh, REMAT_OP_mul, false},
};
#define ACTIVATION_COUNT (sizeof activations / sizeof *activations)

const struct remat_activation *remat_activation_find(const char *name)
{
    for (size_t k = 0; k < ACTIVATION_COUNT; k++)
        if (strcmp(activations[k].name, name) == 0)
            return &activations[k];
    return NULL;
}

const char *remat_activation_name(const struct remat_activation *activation)
{
    return activation->name;
}

const char *remat_activation_names(struct remat_arena *arena)
{
    struct remat_text names = {.arena = arena};
    for (size_t k = 0; k < ACTIVATION_COUNT; k++)
        remat_text_append(&names, "%s%s", k ? ", " : "", activations[k].name);
    remat_text_complete(&names);
    return names.items;
}

/* Primitive ops compute in f32. */
static remat_value primitive(struct model_builder *m, const char *name, uint16_t op,
                             const remat_value *inputs, uint32_t count)
{
    remat_value wide[2];
    for (uint32_t k = 0; k < count; k++)
        wide[k] = remat_model_cast(m, REMAT_FORMAT(m->b.arena, "%s.wide_%u", name, k), inputs[k],
                                   REMAT_F32);
    bool narrow = remat_dtype_is_rounded(m->settings->dtype);
    const char *result = narrow ? REMAT_FORMAT(m->b.arena, "%s.wide", name) : name;
    remat_value y = remat_model_op(m, result, op, wide, count, NULL, 0);
    return remat_model_cast(m, name, y, m->settings->dtype);
}

remat_value remat_model_activate(struct model_builder *m, const char *name, remat_value x)
{
    const struct remat_activation *a = m->settings->activation;
    struct remat_attribute approximate = remat_attribute_int("approximate", a->tanh_form);
    if (!remat_op_has(a->op, REMAT_FACT_COMPOSITE))
        return primitive(m, name, a->op, &x, 1);
    return remat_model_op(m, name, a->op, &x, 1, &approximate, a->op == REMAT_OP_gelu);
}

remat_value remat_model_gated(struct model_builder *m, const char *name, remat_value gate,
                              remat_value x)
{
    uint16_t op = m->settings->activation->gated;
    if (op != REMAT_OP_mul)
        return remat_model_op(m, name, op, (remat_value[]){gate, x}, 2, NULL, 0);
    gate = remat_model_activate(m, REMAT_FORMAT(m->b.arena, "%s.gate", name), gate);
    return primitive(m, name, op, (remat_value[]){gate, x}, 2);
}
