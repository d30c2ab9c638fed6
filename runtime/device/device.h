/* What executes commands: one vtable, filled by cpu/ (cuda/ comes beside it).
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
};

struct remat_device {
    const struct remat_device_vtable *vtable;
    char *memory; /* the program's arena, after bind; where the host can address it */
};

struct remat_device_vtable {
    const char *name;
    /* What this machine has; at least 1. */
    uint32_t (*default_threads)(void);
    /* Prepares every command. `program` and `ctx` are borrowed until destroy. */
    remat_status (*create)(remat_context *ctx, const struct remat_program *program,
                           const struct remat_device_params *params, struct remat_device **out);
    void (*destroy)(struct remat_device **device); /* *device may be NULL */
    /* Memory that `bind` needs: arena and scratch; and how much of it each thread adds, its stack
     * included. */
    uint64_t (*memory_bytes)(const struct remat_device *device);
    uint64_t (*thread_bytes)(const struct remat_device *device);
    /* Takes memory_bytes at `memory` (aligned to REMAT_ALIGNMENT), or allocates them when it is
     * NULL; clears them, and starts threads. Once. */
    remat_status (*bind)(struct remat_device *device, void *memory);
    /* Between begin and end the caller runs in the device's floating-point state. */
    void (*begin)(struct remat_device *device);
    remat_status (*execute)(struct remat_device *device, uint32_t command);
    void (*end)(struct remat_device *device); /* and all executed commands have finished */
    /* Arena bytes from and to the host. The range is the caller's to check. */
    void (*write)(struct remat_device *device, uint64_t offset, const void *data, uint64_t bytes);
    void (*read)(struct remat_device *device, uint64_t offset, void *data, uint64_t bytes);
    /* For tests: breaks numerics rule 1 to 6 from now on (session_testing.h); 0 breaks none. */
    remat_status (*break_rule)(struct remat_device *device, uint32_t rule);
};

/* The device of that name, or NULL: "cpu". */
const struct remat_device_vtable *remat_device_find(const char *name);

#endif
