/* SPDX-License-Identifier: Apache-2.0 */
/* A plan's kernels on a GPU: its cubins for the architecture, else its text through NVRTC. */
#ifndef REMAT_CUDA_CODE_LOAD_H
#define REMAT_CUDA_CODE_LOAD_H

#include "cuda_api.h"
#include "program.h"

struct cuda_functions { /* of a plan's kernels */
    uint32_t count;
    void **modules, **functions; /* [count] */
};

/* With the context current. `capability`: 90 for sm_90. A cubin for an earlier GPU of the same
 * major version will do. `folder`: where libnvrtc lies, or NULL. `cache`: a folder of what it
 * compiles, or NULL; a warning says if nothing can be kept there. Arrays lie in `arena`, the
 * modules are freed by unload. REMAT_ERROR_IO when NVRTC is needed and not there. */
remat_status cuda_functions_load(remat_context *ctx, struct remat_arena *arena,
                                 const struct cuda_driver *driver,
                                 const struct remat_cuda_code *code, int capability,
                                 const char *folder, const char *cache, struct cuda_functions *out);
void cuda_functions_unload(const struct cuda_driver *driver, struct cuda_functions *functions);

#endif
