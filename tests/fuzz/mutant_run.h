/* SPDX-License-Identifier: Apache-2.0 */
/* Executing a plan that was mutated: arena and scratch lie in memory between pages that nobody may
 * touch, and in part of the runs each command may change nothing but what it writes. */
#ifndef FUZZ_MUTANT_RUN_H
#define FUZZ_MUTANT_RUN_H

#include "mutant.h"

#include <remat/status.h>

#define WIDE_WORK_MAX 20000000 /* elements that a run of the wide seed touches */

struct tally {
    uint64_t mutations, accepted, run, wide, refused, failed;
};

/* Once, before all runs. */
void mutant_run_prepare(void);
/* Whether it touches at most m->work_max elements; else it is only verified. */
bool mutant_run_is_short(const struct mutant *m);
/* Every entry point, on inputs that no session checked. A failed check is counted (check.h). */
void mutant_run(remat_context *ctx, struct mutant *m, struct tally *tally);
/* The same twice, with transfers in threads of their links, some of them late, and one command
 * after the other: what is persistent has equal bits at the end. */
void mutant_run_streams(remat_context *ctx, struct mutant *m, struct tally *tally);

#endif
