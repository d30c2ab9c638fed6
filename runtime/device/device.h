/* SPDX-License-Identifier: Apache-2.0 */
/* Devices, which execute commands: one vtable, filled by cpu/ and cuda/.
 *
 * A device object is made for one program and one session: it prepares every command at creation,
 * and takes its memory in one piece (`bind`): first the program's arena, then scratch. Nothing is
 * allocated afterwards. Thread-compatible. */
#ifndef REMAT_DEVICE_H
#define REMAT_DEVICE_H

#include "program.h"

struct remat_device_params {
    uint32_t threads; /* at least 1; devices without threads of the host ignore it */
    uint64_t seed;    /* key of all random numbers */
    /* The rest is for a GPU; strings are read by create only. */
    const char *libraries; /* folder of NVIDIA's libraries; NULL: where the system's loader looks */
    const char *gemm_table;  /* file of the algorithms of matrix products; NULL: none */
    const char *cubin_cache; /* folder of compiled kernels; NULL: none */
    bool has_stream;         /* of the host; else one of its own */
    void *stream;            /* CUstream; NULL is the legacy one */
    void *memory;            /* what bind will get */
    bool graphs_of_ranks;    /* what an engine moves on the device may be captured */
    uint32_t ordinal;        /* which GPU */
    /* Asked again and again while the host waits for the GPU, with how long it has; what it returns
     * ends the waiting. NULL: the host waits for as long as it takes. Set before bind. */
    remat_status (*go_on)(void *user, uint64_t waited_ns);
    void *go_on_user;
};

#define REMAT_DEVICE_MARKS 3 /* slots for times that every device has */

struct remat_device { /* the first member of each device's own struct */
    const struct remat_device_vtable *vtable;
    remat_context *ctx;
    const struct remat_program *program;
    struct remat_device_params params;
    struct remat_arena arena; /* of what was prepared */
    uint64_t memory_bytes;    /* that bind needs: the program's arena, then scratch; of create */
    char *memory;     /* the program's arena, after bind; NULL where the host cannot address it */
    bool in_graph;    /* what runs since begin was launched as one */
    bool abandoned;   /* what an engine does there may never end: destroy leaves all as it is */
    const char *name; /* its own, as a GPU's driver has it: "NVIDIA H200"; "cpu" */
    const char *arch; /* "sm_90"; "" for a CPU */
};

struct remat_device_vtable {
    const char *name;
    /* OK when there is such a device here, else why not. */
    remat_status (*present)(remat_context *ctx, const struct remat_device_params *params);
    /* Threads that this machine runs at once; at least 1. */
    uint32_t (*default_threads)(void);
    /* Prepares every command. `program` and `ctx` are borrowed until destroy. */
    remat_status (*create)(remat_context *ctx, const struct remat_program *program,
                           const struct remat_device_params *params, struct remat_device **out);
    void (*destroy)(struct remat_device **device); /* *device may be NULL */
    /* Bytes that are needed beside the arena whatever the number of threads, and bytes that each
     * thread adds, its stack included. */
    uint64_t (*base_bytes)(const struct remat_device *device);
    uint64_t (*thread_bytes)(const struct remat_device *device);
    /* Bytes of the device's own memory in use, as its driver reports; NULL where it is the host's.
     */
    uint64_t (*in_use_bytes)(struct remat_device *device);
    /* Takes memory_bytes at `memory` (aligned to REMAT_ALIGNMENT), or allocates them when it is
     * NULL; clears them, and starts threads. Once. */
    remat_status (*bind)(struct remat_device *device, void *memory);
    /* Between begin and end the caller runs in the device's floating-point state. No end after a
     * begin that failed. */
    remat_status (*begin)(struct remat_device *device);
    /* After begin, where nobody wants to see commands one by one: runs the entry point, or *done is
     * false and it is to be executed. NULL: always executed. */
    remat_status (*replay)(struct remat_device *device, uint32_t entry, bool *done);
    remat_status (*execute)(struct remat_device *device, uint32_t command);
    /* Writes a number there in between, which a replay writes too. NULL: as write does. */
    remat_status (*set)(struct remat_device *device, uint64_t offset, uint32_t number);
    /* All executed commands have finished, or will on the host's stream. */
    remat_status (*end)(struct remat_device *device);
    /* Notes in a slot when what was executed before is done. Slots are 0 ... REMAT_DEVICE_MARKS -
     * 1; a device without memory of the host has any. */
    remat_status (*mark)(struct remat_device *device, uint32_t slot);
    /* From one mark to a later one; waits for it. */
    remat_status (*elapsed)(struct remat_device *device, uint32_t from, uint32_t to, uint64_t *ns);
    /* Arena bytes from and to the host, at once. The range is the caller's to check. */
    remat_status (*write)(struct remat_device *device, uint64_t offset, const void *data,
                          uint64_t bytes);
    remat_status (*read)(struct remat_device *device, uint64_t offset, void *data, uint64_t bytes);
    /* Between begin and end, for an engine that moves the device's memory: where the arena begins
     * there, and a stream for the engine, beside the commands: it goes on after all that were
     * executed. At most two transfers are under way: waits for those before. Marks slot `slot` on
     * the stream, 0: none. NULL, as the next three: memory is the host's. */
    remat_status (*lend)(struct remat_device *device, uint32_t slot, char **arena, void **stream);
    /* Zeros, after all that is on that stream. */
    remat_status (*clear)(struct remat_device *device, uint64_t offset, uint64_t bytes);
    /* Ends the loan: commands on the stream since lend are the transfer *number. Marks a slot as
     * lend does. */
    remat_status (*take_back)(struct remat_device *device, uint32_t slot, uint64_t *number);
    /* Orders commands that are executed next after that transfer and those before it. */
    remat_status (*await)(struct remat_device *device, uint64_t number);
};

/* The CPU executes fused kernels by the tile interpreter and built-in ones by functions of cpu/, on
 * a pool of threads; "cuda" is one of NVIDIA's GPUs, through the driver API. */
extern const struct remat_device_vtable remat_cpu_device, remat_cuda_device;

/* The device of that name, or NULL: "cuda", "cpu". */
const struct remat_device_vtable *remat_device_find(const char *name);

#endif
