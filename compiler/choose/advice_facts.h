/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REMAT_ADVICE_FACTS_H
#define REMAT_ADVICE_FACTS_H

#include "static_parts.h"

/* Facts that advice depends on, of a plan or of the smallest one that was refused. */
struct remat_advice_facts {
    struct remat_static_parts parts;
    uint64_t static_bytes, live_peak_bytes;
    uint64_t logits_bytes; /* at the live peak: of values as large as the logits */
    uint64_t needed_bytes; /* arena and reserve */
    uint64_t step_ns;      /* 0: refused */
    uint64_t base_step_ns, command_count;
};
/* REMAT_ERROR_MEMORY. */
remat_status remat_advice_measure(struct remat_arena *arena, const struct remat_program *program,
                                  struct remat_advice_facts *out);

#endif
