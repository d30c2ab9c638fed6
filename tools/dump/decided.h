/* SPDX-License-Identifier: Apache-2.0 */
/* What is decided about each value. */
#ifndef REMAT_DUMP_DECIDED_H
#define REMAT_DUMP_DECIDED_H

#include "dump.h"

#define DUMP_PART ".part" /* in the name of what is saved of a value as a shard */

/* Indices are REMAT_NONE where there is none. */
struct dump_decided {
    uint32_t *decision; /* by value: the one about it, of no recomputed one */
    uint32_t *part;     /* by decision: of what is saved as a shard, this rank's part */
    bool *stays;        /* by decision: recomputing its value does not take it from the peak */
};
remat_status dump_decided(struct remat_arena *arena, const struct remat_program *program,
                          struct dump_decided *out);

#endif
