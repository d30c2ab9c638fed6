/* SPDX-License-Identifier: Apache-2.0 */
/* --cache: where compiled kernels are kept. */
#ifndef REMAT_TOOLS_CACHE_FOLDER_H
#define REMAT_TOOLS_CACHE_FOLDER_H

#include <remat/status.h>
#include <stddef.h>

/* The folder that is given, by default $XDG_CACHE_HOME/remat or ~/.cache/remat; "" for "none" and
 * where there is no default. REMAT_ERROR_USAGE: it does not fit `bytes`. */
remat_status cli_cache_folder(remat_context *ctx, const char *given, char *out, size_t bytes);

#endif
