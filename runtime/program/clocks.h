/* SPDX-License-Identifier: Apache-2.0 */
/* When commands run, as predicted. */
#ifndef REMAT_CLOCKS_H
#define REMAT_CLOCKS_H

#include "program.h"

/* Times in one run of a segment, from its begin. Arrays are by command of the segment. */
struct remat_clocks {
    uint64_t *reached_ns;        /* computation has come to it; a transfer may begin later */
    uint64_t *begin_ns, *end_ns; /* transfers one after the other, beside computation */
    uint64_t *exposed_ns;        /* as of remat_program_exposed */
    uint64_t segment_ns;
};
remat_status remat_clocks_new(struct remat_arena *arena, const struct remat_program *program,
                              struct remat_clocks *out);
remat_status remat_clocks_run(const struct remat_program *program,
                              const struct remat_segment *segment, struct remat_arena *scratch,
                              struct remat_clocks *clocks);

#endif
