/* SPDX-License-Identifier: Apache-2.0 */
/* Private to the built-in kernels of the CPU device: a file for each family, its rows here, and
 * what their preparations check. A verified program keeps operands inside their buffers, no more.
 */
#ifndef CPU_BUILTIN_H
#define CPU_BUILTIN_H

#include "cpu_device_state.h"

#define BUILTIN_KERNEL(name, ...) extern const struct cpu_builtin_kernel cpu_builtin_##name;
#include "builtin_kernels.def"
#undef BUILTIN_KERNEL

double cpu_parameter(const struct cpu_device *device, const struct remat_command *command,
                     uint32_t index);

int64_t cpu_view_count(const struct cpu_view *view); /* of elements */
int64_t cpu_view_element_bytes(const struct cpu_view *view);
bool cpu_view_same_shape(const struct cpu_view *x, const struct cpu_view *y);
bool cpu_view_dense(const struct cpu_view *view); /* contiguous */
bool cpu_view_last_contiguous(const struct cpu_view *view);
bool cpu_view_is(const struct cpu_view *view, remat_dtype dtype);
bool cpu_view_is_float(const struct cpu_view *view); /* f32 or bf16 */
bool cpu_view_same_float(const struct cpu_view *x, const struct cpu_view *y);
bool cpu_view_movable(const struct cpu_view *in, const struct cpu_view *out); /* dtype and rank */

/* REMAT_ERROR_INVALID with `what`, the command and its kernel, unless `condition` holds. */
remat_status cpu_expect(struct cpu_device *device, const struct remat_command *command,
                        bool condition, const char *what);

#endif
