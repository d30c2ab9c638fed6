/* SPDX-License-Identifier: Apache-2.0 */
/* A whole output in JSON. */
#ifndef REMAT_TOOLS_RUN_JSON_FILE_H
#define REMAT_TOOLS_RUN_JSON_FILE_H

#include "files.h"
#include "run.h"
#include <jansson.h>

/* Takes the reference, NULL where there was no memory for it; `indent`: spaces a level. Of reals
 * four digits are written. */
remat_status json_file_write(remat_context *ctx, struct remat_outputs *outputs, const char *path,
                             json_t *root, size_t indent);

#endif
