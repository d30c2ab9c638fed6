/* SPDX-License-Identifier: Apache-2.0 */
/* What is decided about each value. */
#ifndef REMAT_DUMP_DECIDED_H
#define REMAT_DUMP_DECIDED_H

#include "dump.h"

/* Indices are REMAT_NONE where there is none. */
struct dump_decided {
    uint32_t *decision; /* by value: the one about it, of no recomputed one */
    uint32_t *kept;     /* by decision: what is kept, if not in place */
    bool *stays;        /* by decision: recomputing its value does not take it from the peak */
};
/* Whether a value of this name is what is kept of the record's, if not in place. */
bool dump_names_kept(const struct remat_decision_record *record, const char *name);

remat_status dump_decided(struct remat_arena *arena, const struct remat_program *program,
                          struct dump_decided *out);

#endif
