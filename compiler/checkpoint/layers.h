/* SPDX-License-Identifier: Apache-2.0 */
/* Layers: which repeated block an item belongs to. */
#ifndef REMAT_LAYERS_H
#define REMAT_LAYERS_H

#include "closure.h"

/* Layers are the periods of stacks (stacks.h), of all stacks together. Fills region_count,
 * region_of_node, item_region and item_crossing of a model that has everything else. */
void remat_model_layers(struct remat_arena *arena, struct remat_model *model);

#endif
