/* SPDX-License-Identifier: Apache-2.0 */
/* The device "cuda": one of NVIDIA's GPUs, through the driver API. */
#ifndef REMAT_CUDA_DEVICE_H
#define REMAT_CUDA_DEVICE_H

#include "device.h"

extern const struct remat_device_vtable remat_cuda_device;

#endif
