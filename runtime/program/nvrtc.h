/* SPDX-License-Identifier: Apache-2.0 */
/* NVIDIA's run-time compiler, opened with dlopen: remat needs no CUDA toolkit to build or to run,
 * and says plainly when a compilation needs one. Both the compiler and the CUDA device use it. */
#ifndef REMAT_NVRTC_H
#define REMAT_NVRTC_H

#include "cuda_code.h"

/* Borrows its context, where errors of opening and of remat_nvrtc_check go; otherwise immutable, so
 * that threads may share it. */
struct remat_nvrtc;

/* Opens libnvrtc.so.13, else .12. `folder`: where it lies with its builtins, or NULL for what the
 * system's loader finds. `driver_version`: of the driver that is to load the cubins, 1000 major +
 * 10 minor, which takes none of a later major version; 0: any. REMAT_ERROR_IO with what to do when
 * there is none: with a driver remat-run's option is named, without one remat-compile's. */
remat_status remat_nvrtc_open(remat_context *ctx, const char *folder, int driver_version,
                              struct remat_nvrtc **out);
void remat_nvrtc_close(struct remat_nvrtc **nvrtc); /* *nvrtc may be NULL */
void remat_nvrtc_version(const struct remat_nvrtc *nvrtc, int *major, int *minor);
uint32_t remat_nvrtc_number(const struct remat_nvrtc *nvrtc); /* 1000 major + 10 minor */

#define REMAT_LEAST_ARCH 80 /* kernels use its instructions */

/* `arch` as "sm_90". REMAT_ERROR_USAGE when it is older than REMAT_LEAST_ARCH or this NVRTC does
 * not know it, with those that will do. */
remat_status remat_nvrtc_check(const struct remat_nvrtc *nvrtc, const char *arch);

#define REMAT_NVRTC_OPTIONS_MAX 16
struct remat_nvrtc_options { /* not to be copied: `items` may point to `arch` */
    const char *items[REMAT_NVRTC_OPTIONS_MAX];
    uint32_t count;
    char arch[40];
};
/* All that decides the cubin beside the text and the version. */
void remat_nvrtc_options(const struct remat_nvrtc *nvrtc, const char *arch,
                         struct remat_nvrtc_options *out);

/* Compiles the complete text of one kernel, whose key names it in messages. What `out` points to,
 * and an error, lie in `arena` and its context; `out->kernel` and `arch` are the caller's. Threads
 * with an arena each may compile at once. REMAT_ERROR_INTERNAL with the numbered lines around the
 * fault when the text does not compile. */
remat_status remat_nvrtc_compile(const struct remat_nvrtc *nvrtc, struct remat_arena *arena,
                                 const char *key, const char *text, const char *arch,
                                 struct remat_cubin *out);

#endif
