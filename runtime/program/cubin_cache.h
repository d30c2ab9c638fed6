/* SPDX-License-Identifier: Apache-2.0 */
/* A folder that keeps cubins, so that the same text is compiled once. A file is named after the
 * hash of all that decides a cubin: the text, NVRTC's options and its version. */
#ifndef REMAT_CUBIN_CACHE_H
#define REMAT_CUBIN_CACHE_H

#include "nvrtc.h"

/* Makes the folder, and those above it, where they are missing. */
remat_status remat_cubin_cache_open(remat_context *ctx, const char *folder);

/* How a cubin was had. */
struct remat_cubin_source {
    bool cached;
    const char *unwritten; /* why the folder could not keep it, in the arena; NULL: it did */
};

/* As remat_nvrtc_compile, but what the folder has is taken from there, unless it is damaged, and
 * what is compiled is kept there, whole or not at all. `folder` NULL: neither. */
remat_status remat_cubin_make(const struct remat_nvrtc *nvrtc, struct remat_arena *arena,
                              const char *folder, const char *key, const char *text,
                              const char *arch, struct remat_cubin *out,
                              struct remat_cubin_source *source);

#endif
