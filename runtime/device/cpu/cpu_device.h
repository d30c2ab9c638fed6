/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU as a device: fused kernels by the tile interpreter, built-in kernels by the functions of
 * this folder, on a pool of threads. */
#ifndef CPU_DEVICE_H
#define CPU_DEVICE_H

#include "cpu_sgemm.h"
#include "cpu_tile.h"
#include "device.h"

extern const struct remat_device_vtable remat_cpu_device;

struct cpu_device;
struct cpu_tile;
struct cpu_tile_source;

/* Prepares fused kernels with the device's options. */
remat_status cpu_device_prepare_tile(struct cpu_device *device,
                                     const struct cpu_tile_source *source, struct cpu_tile **out);

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

#endif
