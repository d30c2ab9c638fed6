/* SPDX-License-Identifier: Apache-2.0 */
/* Private to cpu_device.c and the built-in kernels: the device object. */
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

#endif
