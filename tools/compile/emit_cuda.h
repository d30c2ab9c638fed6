/* --emit-cuda: the kernels of a plan as files. */
#ifndef REMAT_TOOLS_EMIT_CUDA_H
#define REMAT_TOOLS_EMIT_CUDA_H

#include "program.h"

struct emit_cuda_settings {
    const char *folder;        /* made if it is not there */
    const char *architectures; /* "sm_80,sm_90", or NULL: text only */
    const char *nvrtc;         /* folder of libnvrtc, or NULL */
};

/* Writes KERNEL.cu of each distinct kernel; with architectures KERNEL.ARCH.cubin and, a line each,
 * resources.csv. */
remat_status emit_cuda(remat_context *ctx, struct remat_arena *arena,
                       const struct remat_program *program,
                       const struct emit_cuda_settings *settings);

#endif
