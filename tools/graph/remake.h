/* SPDX-License-Identifier: Apache-2.0 */
/* The settings from which a graph was made, found again. */
#ifndef REMAT_MODEL_REMAKE_H
#define REMAT_MODEL_REMAKE_H

#include "models.h"

/* By the graph's config.json and what it shows itself; its symbols have values. The same graph is
 * made of them, but for names: else *why says what is missing, and *out is not to be used. */
remat_status remat_model_remake(remat_context *ctx, struct remat_arena *arena,
                                const struct remat_graph *graph, struct remat_model_settings *out,
                                const char **why);

#endif
