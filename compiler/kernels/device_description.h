/* A device as the compiler knows it: rates, capacity, reserve. From schemas/devices/NAME.json,
 * which are built in, or from a file of the same form. */
#ifndef REMAT_DEVICE_DESCRIPTION_H
#define REMAT_DEVICE_DESCRIPTION_H

#include "base.h"

struct remat_device_description {
    const char *name;           /* "cpu", "h100-sxm" */
    uint64_t capacity_bytes;    /* usable device memory; 0: unknown */
    uint64_t reserve_bytes;     /* context, modules, library buffers; on a CPU code, stacks, I/O */
    double launch_ns;           /* per command */
    double memory_bytes_per_ns; /* achievable: peak times efficiency */
    double matmul_flops_per_ns; /* f32 on the CPU, the tensor rate of the graph's dtype on GPUs */
    double attention_flops_per_ns;
    double pointwise_flops_per_ns;
};

/* `name`: a built-in name or the path of a .json file. Unknown names list the built-in ones. */
remat_status remat_device_description_read(remat_context *ctx, struct remat_arena *arena,
                                           const char *name, struct remat_device_description *out);
/* Names of the built-in descriptions, NULL-terminated. */
const char *const *remat_device_description_names(void);

#endif
