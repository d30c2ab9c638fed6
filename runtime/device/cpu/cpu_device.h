/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU as a device: fused kernels by the tile interpreter, built-in kernels by the functions of
 * this folder, on a pool of threads. */
#ifndef CPU_DEVICE_H
#define CPU_DEVICE_H

#include "device.h"

extern const struct remat_device_vtable remat_cpu_device;

#endif
