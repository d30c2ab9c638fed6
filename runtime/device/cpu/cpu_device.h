/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU as a device: fused kernels by the tile interpreter, built-in kernels by the functions of
 * this folder, on a pool of threads. */
#ifndef CPU_DEVICE_H
#define CPU_DEVICE_H

#include "device.h"

extern const struct remat_device_vtable remat_cpu_device;

struct cpu_device;
struct cpu_tile;
struct cpu_tile_source;

/* Prepares fused kernels with the device's options. */
remat_status cpu_device_prepare_tile(struct cpu_device *device,
                                     const struct cpu_tile_source *source, struct cpu_tile **out);

#endif
