/* SPDX-License-Identifier: Apache-2.0 */
/* Activations by the names that Hugging Face's configurations have for them ("gelu_new"). */
#ifndef REMAT_ACTIVATION_H
#define REMAT_ACTIVATION_H

#include "model_builder.h"

/* NULL: there is none. */
const struct remat_activation *remat_activation_find(const char *name);
const char *remat_activation_name(const struct remat_activation *activation);
/* All names, separated by commas. */
const char *remat_activation_names(struct remat_arena *arena);

/* The settings' activation of x; that of `gate` times x. */
remat_value remat_model_activate(struct model_builder *m, const char *name, remat_value x);
remat_value remat_model_gated(struct model_builder *m, const char *name, remat_value gate,
                              remat_value x);

#endif
