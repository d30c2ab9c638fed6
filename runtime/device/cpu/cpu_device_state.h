/* SPDX-License-Identifier: Apache-2.0 */
/* Private to cpu_device*.c: the device object and the table of built-in kernels. */
#ifndef CPU_DEVICE_STATE_H
#define CPU_DEVICE_STATE_H

#include "cpu_device.h"
#include "cpu_sgemm.h"
#include "cpu_tile.h"

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

/* An operand of a command, resolved. */
struct cpu_view {
    void *data;
    enum cpu_element type; /* of float operands */
    const struct remat_operand *operand;
    const int64_t *shape, *strides;
    int rank;
};
struct cpu_view cpu_view_of(const struct cpu_device *device, const struct remat_command *command,
                            uint32_t operand);

struct cpu_builtin_kernel {
    /* Verifies shapes and dtypes of a command of the right arity, once; prepares *tile when part of
     * the work is a fused kernel. */
    remat_status (*prepare)(struct cpu_device *device, const struct remat_command *command,
                            struct cpu_tile **tile);
    remat_status (*run)(struct cpu_device *device, const struct remat_command *command,
                        const struct cpu_tile *tile);
    uint64_t scratch_bytes;
};
const struct cpu_builtin_kernel *cpu_builtin_kernel(uint32_t kind); /* of a verified program */
/* As many operands and parameters as builtin_kernels.def says. */
remat_status cpu_expect_arity(struct cpu_device *device, const struct remat_command *command);

/* Prepares fused kernels with the device's options. */
remat_status cpu_device_prepare_tile(struct cpu_device *device,
                                     const struct cpu_tile_source *source, struct cpu_tile **out);

#endif
