/* SPDX-License-Identifier: Apache-2.0 */
#include "activation.h"

#include "ops.h"

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

const char *remat_activation_names(struct remat_arena *arena)
{
    struct remat_text names = {.arena = arena};
    for (size_t k = 0; k < ACTIVATION_COUNT; k++)
        remat_text_append(&names, "%s%s", k ? ", " : "", activations[k].name);
    remat_text_complete(&names);
    return names.items;
}
