/* SPDX-License-Identifier: Apache-2.0 */
/* Which parameters of a model train, and which of them decay. */
#ifndef REMAT_TRAINING_H
#define REMAT_TRAINING_H

#include "models.h"

/* Marks the parameters of a generated graph. A glob of the settings that matches none is
 * REMAT_ERROR_USAGE, and so is freezing all. */
remat_status remat_model_train(remat_context *ctx, const struct remat_model_settings *settings,
                               struct remat_graph *graph);

#endif
