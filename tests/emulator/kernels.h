/* SPDX-License-Identifier: Apache-2.0 */
/* Emitted kernels made runnable: their texts, byte for byte, through the C compiler and dlopen in
 * the emulator (kernels.c), or on a GPU through NVRTC and the driver (tests/gpu/kernels_gpu.c).
 * There `compiler` is the folder of NVIDIA's libraries, or "-" where the system's loader finds
 * them, without a GPU the process ends with exit code 77 and one line, and orders and accesses are
 * the hardware's: what is written outside the memory of emulator_create is not seen. */
#ifndef EMULATOR_KERNELS_H
#define EMULATOR_KERNELS_H

#include "codegen.h"
#include "cuda_groups.h"
#include "emulator.h"

/* Compiles `text` (one kernel or several, one after the other) with `compiler`, a command. Stops
 * the process with exit code 1 when that fails; what the compiler says goes to stderr. */
void *kernels_compile(const char *compiler, const char *text);
emulator_kernel *kernels_find(void *library, const char *symbol);
void kernels_close(void *library);

/* Where the text has `find`, whatever its blanks, and where that ends; NULL: nowhere. `find` may
 * differ in spaces, but the text has its line ends. */
const char *kernels_has(const char *text, const char *find, const char **out_end);
/* `text` with `replacement` wherever it has `find`; the caller frees it. */
char *kernels_replace(const char *text, const char *find, const char *replacement);

/* The texts of all kernels of `code`, one after the other; the caller frees it. */
char *kernels_text(const struct remat_cuda_code *code);

/* What the kernel of a launch is called with, arena and workspace being at these addresses. */
struct arguments kernels_arguments(const struct remat_cuda_word *words, uint32_t count,
                                   uint64_t seed, uint64_t memory, uint64_t workspace);

struct kernels_place { /* where launches run */
    struct emulator *emulator;
    const struct remat_program *program;
    const struct remat_cuda_code *code;
    emulator_kernel *const *kernels;
    uint64_t seed;            /* of the session */
    char *memory, *workspace; /* memory: the program's arena */
    uint64_t order;           /* of threads and blocks, as emulator.h has it */
    uint64_t *read_bytes;     /* NULL, or of the emulator what threads read, added to */
};

/* Runs a command. Each operand may be accessed as far as its view reaches. NULL, or what went wrong
 * (valid until the next run). */
const char *kernels_run(const struct kernels_place *place, uint32_t command);
/* The one launch of a group, which may access all that its commands may. */
const char *kernels_run_group(const struct kernels_place *place,
                              const struct remat_cuda_groups *groups, uint32_t group);

#endif
