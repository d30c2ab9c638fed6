/* Kernel programs in float64, read literally from kernel.h; only what is bf16 is rounded. */
#ifndef EMULATOR_REFERENCE64_H
#define EMULATOR_REFERENCE64_H

#include "program.h"

#define REFERENCE64_COARSE                                                                         \
    4096 /* a program that rounds to bf16 may be so much farther: ties differ */

/* The largest difference between what command `c` stored at `after` and what float64 makes of
 * `before`, relative to the largest element of the tensor (of a value a row: that was loaded); both
 * are arenas. Of a program that rounds to bf16 divided by REFERENCE64_COARSE. */
double reference64_difference(const struct remat_program *program, uint32_t c, const char *before,
                              const char *after);

#endif
