/* SPDX-License-Identifier: Apache-2.0 */
/* Cubins on disk, one file each, known by the content that they were made of. */
#ifndef REMAT_CUBIN_CACHE_H
#define REMAT_CUBIN_CACHE_H

#include "nvrtc.h"

/* The file of what this NVRTC makes of the text with the options: `folder`/HASH.cubin, the 128
 * bits being of text, options and version. */
const char *remat_cubin_cache_path(struct remat_arena *arena, const struct remat_nvrtc *nvrtc,
                                   const char *folder, const char *text,
                                   const struct remat_nvrtc_options *options);

/* False when it is not there or damaged, which its checksum shows. What `out` points to lies in
 * `arena`; `kernel` and `arch` are the caller's. */
bool remat_cubin_cache_read(struct remat_arena *arena, const char *path, struct remat_cubin *out);

/* By way of a temporary file, so that who reads sees a whole one. */
remat_status remat_cubin_cache_write(struct remat_arena *arena, const char *path,
                                     const struct remat_cubin *cubin);

#endif
