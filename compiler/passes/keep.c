/* SPDX-License-Identifier: Apache-2.0 */
#include "keep.h"

const struct remat_keep_nodes remat_keep_SAVE = {NULL, NULL, NULL};

const struct remat_keep_nodes *const remat_keep_rows[REMAT_ACTION_COUNT] = {
#define KEEP(id, ...) [REMAT_ACTION_##id] = &remat_keep_##id,
#include "keeps.def"
};
