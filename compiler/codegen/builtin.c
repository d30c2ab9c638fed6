/* SPDX-License-Identifier: Apache-2.0 */
#include "builtin.h"

#include "fused.h"

#define EMIT_TEXT(name)   cuda_emit_##name
#define EMIT_GEMM(name)   NULL
#define EMIT_ENGINE(name) NULL

cuda_emit *cuda_emit_of(uint32_t kind)
{
    static cuda_emit *const all[REMAT_KERNEL_KIND_COUNT] = {
        [REMAT_KERNEL_fused] = cuda_emit_fused,
#define BUILTIN_KERNEL(name, dispatch, ...) [REMAT_KERNEL_##name] = EMIT_##dispatch(name),
#include "builtin_kernels.def"
#undef BUILTIN_KERNEL
    };
    return all[kind];
}
