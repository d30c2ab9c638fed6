/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the devices: the object's life, and how much memory it takes. */
#ifndef REMAT_DEVICE_BASE_H
#define REMAT_DEVICE_BASE_H

#include "device.h"

/* Zeroed, `bytes` of the device's own struct, with what the vtable's create got. `name` and `arch`
 * are left. REMAT_ERROR_MEMORY. */
remat_status remat_device_make(remat_context *ctx, const struct remat_device_vtable *vtable,
                               const struct remat_program *program,
                               const struct remat_device_params *params, size_t bytes,
                               struct remat_device **out);
void remat_device_free(struct remat_device **device); /* and its arena */
/* Sets memory_bytes; scratch begins arena_bytes into it. */
remat_status remat_device_add_scratch(struct remat_device *device, uint64_t threads,
                                      uint64_t bytes_of_each);

#endif
