/* Emitted kernels made runnable: their texts, byte for byte, through the C compiler and dlopen. */
#ifndef EMULATOR_KERNELS_H
#define EMULATOR_KERNELS_H

#include "codegen.h"
#include "emulator.h"

/* Compiles `text` (one kernel or several, one after the other) with `compiler`, a command. Stops
 * the process with exit code 1 when that fails; what the compiler says goes to stderr. */
void *kernels_compile(const char *compiler, const char *text);
emulator_kernel *kernels_find(void *library, const char *symbol);
void kernels_close(void *library);

/* The texts of all kernels of `code`, one after the other; the caller frees it. */
char *kernels_text(const struct remat_cuda_code *code);

/* Runs command `c` of the program whose arena is at `memory`, in a session of that seed. Each
 * operand may be accessed as far as its view reaches. NULL, or what went wrong (valid until the
 * next run).
 */
const char *kernels_run(struct emulator *emulator, const struct remat_program *program,
                        const struct remat_cuda_code *code, emulator_kernel *const *kernels,
                        uint32_t c, uint64_t seed, char *memory, char *workspace, uint64_t order);

#endif
