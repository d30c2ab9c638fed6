/* SPDX-License-Identifier: Apache-2.0 */
/* What remat-graph makes graphs of. */
#ifndef REMAT_MODEL_LIST_H
#define REMAT_MODEL_LIST_H

#include "base.h"

/* Prints the presets with their sizes, and the model types of config.json. */
remat_status remat_model_list(remat_context *ctx);

#endif
