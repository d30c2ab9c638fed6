/* SPDX-License-Identifier: Apache-2.0 */
/* Private to the CPU device: its object, and the table of built-in kernels, a file for each family,
 * for commands of a verified program. */
#ifndef CPU_BUILTIN_H
#define CPU_BUILTIN_H

#include "cpu_sgemm.h"
#include "cpu_tile.h"
#include "device.h"

#define CPU_THREAD_STACK_BYTES (256u << 10) /* as cpu_pool.h says */

struct cpu_device {
    struct remat_device base;
    const struct cpu_functions *functions;
    struct cpu_tile **tiles; /* by command; NULL where the kernel's own function does all */
    uint64_t scratch_bytes;  /* of each thread */
    void *owned;             /* what bind allocated */
    char *scratch;
    float **scratch_of; /* by thread */
    struct cpu_pool *pool;
    uint32_t float_state;
    uint64_t marks_ns[REMAT_DEVICE_MARKS];
};

/* Prepares fused kernels with the device's options. */
remat_status cpu_device_prepare_tile(struct cpu_device *device,
                                     const struct cpu_tile_source *source, struct cpu_tile **out);

struct cpu_builtin_kernel {
    /* Checks what the CPU asks for besides, once; prepares *tile when part of the work is a fused
     * kernel. NULL: nothing to do. */
    remat_status (*prepare)(struct cpu_device *device, const struct remat_command *command,
                            struct cpu_tile **tile);
    remat_status (*run)(struct cpu_device *device, const struct remat_command *command,
                        const struct cpu_tile *tile);
    uint64_t scratch_bytes;
};
#define BUILTIN_KERNEL(name, ...) extern const struct cpu_builtin_kernel cpu_builtin_##name;
#include "builtin_kernels.def"
#undef BUILTIN_KERNEL

const struct cpu_builtin_kernel *cpu_builtin_kernel(uint32_t kind); /* of a verified program */

double cpu_parameter(const struct cpu_device *device, const struct remat_command *command,
                     uint32_t index);

/* The number of an operand of a command by its name; REMAT_NONE: it is not there. */
uint32_t cpu_operand(const struct cpu_device *device, const struct remat_command *command,
                     const char *name);

/* An operand of a command, resolved. */
struct cpu_view {
    void *data;
    remat_dtype type;
    const struct remat_operand *operand;
    const int64_t *shape, *strides;
    int rank;
};
struct cpu_view cpu_view_of(const struct cpu_device *device, const struct remat_command *command,
                            uint32_t operand);
int64_t cpu_view_count(const struct cpu_view *view); /* of elements */
int64_t cpu_view_element_bytes(const struct cpu_view *view);
bool cpu_view_is(const struct cpu_view *view, remat_dtype dtype);

remat_status cpu_expect_dtypes(struct cpu_device *device, const struct remat_command *command);
/* REMAT_ERROR_INVALID with `what`, the command and its kernel, unless `condition` holds. */
remat_status cpu_expect(struct cpu_device *device, const struct remat_command *command,
                        bool condition, const char *what);

#endif
