/* SPDX-License-Identifier: Apache-2.0 */
/* The safetensors files that --init means:
 *
 *     FILE.safetensors    itself
 *     FILE.json           an index, as transformers writes it beside a model's shards: each file of
 *                         its "weight_map", which lies in the same folder
 *     FOLDER              its model.safetensors, else its model.safetensors.index.json, else its
 *                         adapter_model.safetensors */
#ifndef REMAT_TOOLS_RUN_WEIGHTS_FILES_H
#define REMAT_TOOLS_RUN_WEIGHTS_FILES_H

#include "run.h"

struct remat_outputs;

struct weights_files {  /* zero-initialise */
    const char **paths; /* each in the arena, or one of those that were named */
    uint32_t count;
};

/* REMAT_ERROR_INVALID: an index is none, names a file elsewhere or one that is missing; a folder
 * has none of the files above. No output may be one of the files. */
remat_status weights_files_find(remat_context *ctx, struct remat_arena *arena,
                                const char *const *named, uint32_t count,
                                struct remat_outputs *outputs, struct weights_files *out);
void weights_files_release(struct weights_files *files); /* harmless when released */

#endif
