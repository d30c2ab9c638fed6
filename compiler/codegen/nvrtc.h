/* NVIDIA's run-time compiler, opened with dlopen: remat needs no CUDA toolkit to build or to run,
 * and says plainly when a compilation needs one. */
#ifndef REMAT_NVRTC_H
#define REMAT_NVRTC_H

#include "codegen.h"

/* Thread-compatible; borrows its context. */
struct remat_nvrtc;

/* `folder`: where libnvrtc lies, or NULL for what the system's loader finds (libnvrtc.so.13, then
 * .12). REMAT_ERROR_IO with what to do when there is none. */
remat_status remat_nvrtc_open(remat_context *ctx, const char *folder, struct remat_nvrtc **out);
void remat_nvrtc_close(struct remat_nvrtc **nvrtc); /* *nvrtc may be NULL */

/* `arch` as "sm_90". REMAT_ERROR_USAGE when this NVRTC does not know it, with those it knows;
 * REMAT_ERROR_INTERNAL with the line at fault when the text does not compile. `out` lies in
 * `arena`. */
remat_status remat_nvrtc_compile(struct remat_nvrtc *nvrtc, struct remat_arena *arena,
                                 const struct remat_cuda_code *code, uint32_t kernel,
                                 const char *arch, struct remat_cubin *out);

#endif
