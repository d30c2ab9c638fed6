/* SPDX-License-Identifier: Apache-2.0 */
/* A CPU model of a GPU's grid that runs emitted kernels (compiled with primitives.h) and finds what
 * tests on a GPU would miss: blocks run one after the other, the threads of a block are fibres that
 * switch at barriers and shuffles.
 *
 * Faults, each with block and thread: an access outside the memory allowed to the launch, against
 * its permission, or not aligned to its size; two threads at one place without a barrier between
 * them (a block's barrier, or their warp's), one of them writing; shared memory read before it was
 * written, or accessed outside; threads at different barriers, shuffles or products of matrices; a
 * barrier that a thread never reaches. A copy to shared memory is made only when its thread waits
 * for it; until then reading there is a fault, and so are rows of a matrix that share banks. One
 * emulator at a time, in one thread; x86-64. */
#ifndef EMULATOR_H
#define EMULATOR_H

#include <stdbool.h>
#include <stdint.h>

/* Of the C compiler, before the file with a kernel's text and after it. What the library calls is
 * in the process, but for what the compiler itself needs. */
#define EMULATOR_FLAGS                                                                             \
    "-x c -std=c11 -w -fPIC -shared -nostartfiles -nodefaultlibs -ffp-contract=off "               \
    "-fno-math-errno -include " EMULATOR_FOLDER "/primitives.h"
#define EMULATOR_FLAGS_AFTER "-lgcc"

struct arguments { /* as in primitives.h */
    unsigned long long word[512];
};
typedef void emulator_kernel(const struct arguments *arguments);

struct emulator_range { /* memory that a launch may access */
    const char *begin, *end;
    bool read, write;
};

struct emulator_touch { /* of a range: addresses [begin, end), end NULL without any */
    const char *read_begin, *read_end, *write_begin, *write_end;
    uint64_t read_bytes, written_bytes;
};

struct emulator_launch {
    emulator_kernel *kernel;
    struct arguments arguments;
    uint32_t blocks, threads; /* threads: a multiple of 32, at most 1024 */
    uint32_t shared_bytes;    /* of dynamic shared memory */
    const struct emulator_range *ranges;
    uint32_t range_count;
    struct emulator_touch *touched; /* [range_count], added to; or NULL */
    const uint32_t *only;           /* NULL, or the one block that runs */
    uint64_t order; /* 0: threads and blocks in ascending order; else the seed of a random one */
};

/* `memory` is all that ranges may lie in; only what launches access takes memory of its own. NULL
 * when out of memory. */
struct emulator;
struct emulator *emulator_create(const void *memory, uint64_t bytes);
void emulator_destroy(struct emulator **emulator);
/* NULL, or what went wrong; the string is valid until the next run. */
const char *emulator_run(struct emulator *emulator, const struct emulator_launch *launch);

#endif
