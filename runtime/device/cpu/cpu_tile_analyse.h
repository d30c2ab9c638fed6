/* SPDX-License-Identifier: Apache-2.0 */
/* What each stage needs. */
#ifndef CPU_TILE_ANALYSE_H
#define CPU_TILE_ANALYSE_H

#include "cpu_tile_builder.h"

/* Finds what changes when, joins pairs of operations, and says what each stage needs. */
remat_status cpu_tile_analyse(struct builder *b);
/* Whether a load reads bytes that `access` writes. */
bool cpu_tile_aliases_load(const struct builder *b, const struct access *access);
/* Whether the node has work for each element, or only for rows or columns. */
bool cpu_tile_by_element(const struct builder *b, const struct node *node);

#endif
