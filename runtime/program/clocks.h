/* SPDX-License-Identifier: Apache-2.0 */
/* When commands run, as predicted. */
#ifndef REMAT_CLOCKS_H
#define REMAT_CLOCKS_H

#include "program.h"

/* How long computation takes that would be done after `work_ns`, while a link slows it, rounded up,
 * and how much of it is done after `ns` of that. The second is the first one's inverse. */
static inline uint64_t remat_slowed_ns(uint64_t work_ns, uint32_t slowdown_permille)
{
    return work_ns + (work_ns * slowdown_permille + 999) / 1000;
}
static inline uint64_t remat_work_ns(uint64_t ns, uint32_t slowdown_permille)
{
    return ns * 1000 / (1000 + slowdown_permille);
}

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
