/* SPDX-License-Identifier: Apache-2.0 */
/* The table of devices. */
#include "device.h"

#include <assert.h>

static const struct remat_device_vtable *const devices[] = {&remat_cuda_device, &remat_cpu_device};

const struct remat_device_vtable *remat_device_find(const char *name)
{
    assert(name);
    for (size_t d = 0; d < sizeof devices / sizeof *devices; d++)
        if (strcmp(devices[d]->name, name) == 0)
            return devices[d];
    return NULL;
}
