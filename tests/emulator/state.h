/* SPDX-License-Identifier: Apache-2.0 */
/* Private to the emulator: its state, and what emulator.c and tiles.c need of each other. */
#ifndef EMULATOR_STATE_H
#define EMULATOR_STATE_H

#include "emulator.h"

#include <stdio.h>

#define THREADS_MAX      1024
#define TILE_BYTES_MAX   (99 * 1024) /* that a block can have on sm_86 and sm_89 */
#define STATIC_BYTES_MAX (48 * 1024)

enum state {
    READY,
    AT_BARRIER,
    AT_WARP_BARRIER, /* from here to AT_PRODUCT a warp's threads meet */
    AT_SHUFFLE,
    AT_VOTE,
    AT_MATRICES,
    AT_PRODUCT,
    FINISHED
};

struct copy {
    uint32_t to, bytes, read, group;
    const void *from;
};

struct fibre {
    void *stack_pointer;
    char *stack;
    enum state state;
    int line; /* of what it waits at */
    uint32_t mask,
        source;         /* of a shuffle: what all have to agree on, the lane whose value it gets */
    float value;        /* to and from a shuffle */
    uint32_t vote;      /* AT_VOTE: its bit, then all */
    uint32_t row[4];    /* AT_MATRICES: the 16 bytes at its address */
    uint32_t banks;     /* which of eight groups of banks they lie in; then of its matrix */
    uint32_t *matrices; /* where its part goes */
    bool transposed;
    float *sum; /* AT_PRODUCT */
    const uint32_t *left;
    uint32_t right[2];
    bool half;           /* f16, not bf16 */
    struct copy *copies; /* that it has not waited for */
    uint32_t copy_count, copy_capacity, group;
};

/* When somebody last was at a place: barriers passed by its block and by its warp. */
struct visit {
    uint32_t block, thread : 31, by_several : 1; /* by_several: of that thread's warp */
    uint32_t barriers, warp_barriers;
};
struct cell {
    uint32_t epoch; /* launch (global) or block (shared) that the visits are of */
    bool filling;   /* by a copy that nobody waited for */
    bool has_writer, has_reader, has_flagger;
    struct visit writer, reader, flagger;
};

struct emulator {
    const char *memory;
    uint64_t bytes;
    struct cell *cells; /* of 2 bytes of memory */
    struct cell *shared_cells;
    float *shared;
    uint32_t shared_count; /* floats of the block; 0: not asked for yet */
    struct fibre fibres[THREADS_MAX];
    const struct emulator_launch *launch;
    const struct emulator_range *last; /* that allowed an access of the launch */
    uint32_t epoch, shared_epoch;
    uint32_t block, thread;      /* running */
    uint16_t ready[THREADS_MAX]; /* fibres that are READY, from ready_begin to ready_end */
    uint32_t ready_begin, ready_end;
    uint32_t barriers, warp_barriers[THREADS_MAX / 32];
    uint64_t random;
    void *scheduler;
    bool faulty;
    char message[256];
};

extern struct emulator *emulator_running; /* kernels know nothing of emulators */

/* Ends the fibre that runs, with a message that begins with block and thread. */
void emulator_fault(const char *format, ...) __attribute__((format(printf, 1, 2)));
void emulator_wait(enum state state, int line);
/* Cells of shared memory: faults on races, outside, and where nobody wrote or a copy still will. */
void emulator_visit_shared(uint64_t at, bool writes);
void emulator_access(const void *p, uint32_t bytes, int writes);
void emulator_flag(const void *p);

/* All of a warp are there: each gets its part (tiles.c). */
void emulator_give_matrices(struct fibre *warp);
void emulator_give_product(struct fibre *warp);

#endif
