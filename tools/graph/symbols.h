/* SPDX-License-Identifier: Apache-2.0 */
/* Models whose inputs have lengths that are given later. */
#ifndef REMAT_SYMBOLS_H
#define REMAT_SYMBOLS_H

#include "models.h"

/* As remat_model_generate, with batch, seq and, for families that have it, source_seq as symbols,
 * which have the lengths that are set as their values. */
remat_status remat_model_generate_symbolic(remat_context *ctx, struct remat_arena *arena,
                                           const struct remat_model_settings *settings,
                                           struct remat_graph **out);

#endif
