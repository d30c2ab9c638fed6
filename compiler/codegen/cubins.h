/* SPDX-License-Identifier: Apache-2.0 */
/* The cubins of a plan: every kernel for every architecture, by several threads and a cache. */
#ifndef REMAT_CUBINS_H
#define REMAT_CUBINS_H

#include "nvrtc.h"

struct remat_cubin_settings {
    const char *const *architectures; /* "sm_90", ..., NULL at the end; those given twice are one */
    const char *cache;                /* a folder that there is; NULL: nothing is kept */
    uint32_t threads;                 /* that compile; 0 as 1 */
    /* Asked before each cubin, by one thread at a time; true: no more are begun. NULL: never. */
    bool (*is_over)(void *user, uint32_t begun, uint32_t of);
    void *is_over_user;
};

struct remat_cubin_counts {
    uint32_t compiled, cached;
    bool cut_short;        /* by is_over: there are none */
    const char *unwritten; /* why the cache could not be written, NULL: it could */
};

/* Fills code->cubins, in `arena`, and code->nvrtc_version. The same whatever `threads` and the
 * cache; of several kernels that do not compile the first one's error. The context's allocator is
 * called from all threads. Errors of remat_nvrtc_check and remat_nvrtc_compile. */
remat_status remat_cubins_make(remat_context *ctx, struct remat_arena *arena,
                               const struct remat_nvrtc *nvrtc,
                               const struct remat_cubin_settings *settings,
                               struct remat_cuda_code *code, struct remat_cubin_counts *out);

#endif
