/* SPDX-License-Identifier: Apache-2.0 */
/* Activations by the names that Hugging Face's configurations have for them ("gelu_new"). */
#ifndef REMAT_ACTIVATION_H
#define REMAT_ACTIVATION_H

#include "unwind.h"

struct remat_activation {
    const char *name;
    uint16_t op, gated; /* gated: of (gate, x); REMAT_OP_mul: of op(gate) and x */
    bool tanh_form;     /* of gelu */
};

/* NULL: there is none. */
const struct remat_activation *remat_activation_find(const char *name);
/* All names, separated by commas. */
const char *remat_activation_names(struct remat_arena *arena);

#endif
