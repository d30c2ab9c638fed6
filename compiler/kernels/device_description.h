/* SPDX-License-Identifier: Apache-2.0 */
/* Device descriptions: rates, capacity, reserve. Read from schemas/devices/NAME.json, which are
 * built in, or from a file of the same form (docs/cost_model.md). */
#ifndef REMAT_DEVICE_DESCRIPTION_H
#define REMAT_DEVICE_DESCRIPTION_H

#include "unwind.h"

#define REMAT_DEVICE_THREADS_MAX 1024

/* One direction of attention. */
struct remat_attention_rate {
    double efficiency; /* share of the matmul rate for long sequences and wide heads */
    double half_keys;  /* mean keys of a query at which half of that is reached */
};

/* A link, as one rank uses it. */
struct remat_link {
    double latency_ns, bytes_per_ns;
    uint64_t peer_bytes;        /* that an engine takes on the device for each other rank */
    uint32_t slowdown_permille; /* by which computation takes longer while the link is busy */
};

struct remat_profile; /* profile.h */

struct remat_device_description {
    const char *name;           /* "cpu", "h100-sxm" */
    uint64_t capacity_bytes;    /* usable device memory; 0: unknown */
    uint64_t reserve_bytes;     /* context, modules, library buffers; on a CPU code, stacks, I/O */
    const char *cuda_arch;      /* "sm_90"; NULL: no CUDA device */
    const char *rocm_arch;      /* "gfx942": a GPU for which no code is generated; else NULL */
    uint32_t gpu_count;         /* 0: no CUDA device */
    const char **gpus;          /* names of the described GPUs, as the driver reports them */
    uint64_t workspace_bytes;   /* limit of a kernel's workspace */
    double launch_ns;           /* per command: launch, start and drain */
    double memory_bytes_per_ns; /* achievable: peak times efficiency */
    double pointwise_flops_per_ns;
    /* Peaks without sparsity, of products accumulated in f32, by dtype of the operands (f32 without
     * TF32); 0: the device cannot. */
    double matmul_flops_per_ns[REMAT_DTYPE_COUNT];
    double matmul_tf32_flops_per_ns;  /* no plan uses TF32: products of f32 are exact */
    double matmul_efficiency;         /* of large products */
    uint32_t processors;              /* that share the tiles of a product */
    uint32_t tile_rows, tile_columns; /* the largest tile of a product */
    struct remat_attention_rate attention_forward, attention_backward;
    double attention_half_width;         /* depth of a head at which half of the rate is reached */
    uint32_t machine_ranks;              /* that share a machine; 0: no links are described */
    struct remat_link within, between;   /* a machine, machines */
    const struct remat_profile *profile; /* measured times, which go before rates; NULL: none */
    /* Batch size whose prices bound those of all larger batches; 0: no bounds. Lengths that it
     * divides may be lengths of rows, which some batch aligns, and count as aligned; products may
     * be split into parts of any size. No kernel is priced higher for that, and none with this
     * batch is priced higher than with a larger one. */
    uint32_t monotone;
};

/* `name`: a built-in name, also in other spellings ("RTX 4090", or the driver's), or the path of a
 * .json file. The message for an unknown name lists the built-in ones. `threads` selects the rates;
 * 0: the default. REMAT_ERROR_USAGE: there are none for that number. */
remat_status remat_device_description_read(remat_context *ctx, struct remat_arena *arena,
                                           const char *name, uint32_t threads,
                                           struct remat_device_description *out);

/* The descriptions in schemas/devices, built in by schemas/devices/embed.py. */
struct remat_device_text {
    const char *name, *json;
    const char *profile; /* NAME.profile.json; NULL: there is none */
};
extern const struct remat_device_text remat_device_texts[];
extern const unsigned remat_device_text_count;

static inline bool remat_device_is_gpu(const struct remat_device_description *device)
{
    return device->cuda_arch || device->rocm_arch;
}

#endif
