/* SPDX-License-Identifier: Apache-2.0 */
/* The functions that emit built-in kernels: cuda_emit_NAME for each row of builtin_kernels.def that
 * is dispatched as TEXT. */
#ifndef REMAT_CODEGEN_BUILTIN_H
#define REMAT_CODEGEN_BUILTIN_H

#include "emitter.h"

#define BUILTIN_KERNEL(name, ...) cuda_emit cuda_emit_##name;
#include "builtin_kernels.def"
#undef BUILTIN_KERNEL

#endif
