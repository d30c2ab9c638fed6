/* SPDX-License-Identifier: Apache-2.0 */
/* A folder that Hugging Face's from_pretrained() loads: model.safetensors and config.json. */
#ifndef REMAT_TOOLS_RUN_MODEL_FOLDER_H
#define REMAT_TOOLS_RUN_MODEL_FOLDER_H

#include "files.h"
#include "run.h"

#include <limits.h>
#include <stdbool.h>

struct model_folder { /* zero-initialise */
    const char *path; /* borrowed; NULL: there is none */
    char weights[PATH_MAX], config[PATH_MAX];
    bool made;
};

/* Whether a path means a folder: it is one, or ends in "/". */
bool model_folder_is_meant(const char *path);
/* Makes the folder if it is not there, and claims both files. */
remat_status model_folder_claim(remat_context *ctx, struct remat_outputs *outputs,
                                const char *label, const char *path, struct model_folder *out);
/* REMAT_ERROR_INVALID: the plan does not say what config.json has. */
remat_status model_folder_check(remat_context *ctx, const struct model_folder *folder,
                                const remat_plan *plan);
remat_status model_folder_write_config(remat_context *ctx, struct remat_outputs *outputs,
                                       const struct model_folder *folder, const remat_plan *plan);
/* Removes the folder if it was made here: it will have no files. */
void model_folder_abandon(const struct model_folder *folder);

#endif
