/* SPDX-License-Identifier: Apache-2.0 */
/* What saving and recomputing cost; the view: dump.h. */
#ifndef REMAT_DUMP_WHY_H
#define REMAT_DUMP_WHY_H

#include "dump.h"
#include "size.h"

/* What it takes to have a buffer that is live at the peak gone from there. */
struct dump_removal {
    const char *how;  /* "persistent", "in use", "pinned", "needed": not possible; "recompute" */
    int64_t extra_ns; /* of a step, by recomputing */
};
struct dump_removal dump_removal(const struct remat_program *program, uint32_t buffer,
                                 uint32_t value); /* what the buffer holds then, or REMAT_NONE */
/* The decision about a value that is no recomputed one; NULL: there is none. */
const struct remat_decision_record *dump_find_record(const struct remat_program *program,
                                                     uint32_t value);
/* What is said behind such times: ", estimated", or nothing where they are exact. */
const char *dump_estimated(const struct remat_program *program);
struct cli_buffer dump_added_time(int64_t ns); /* "+1.20 us" */

#endif
