/* SPDX-License-Identifier: Apache-2.0 */
/* The explanation of a budget that nothing fits. */
#ifndef REMAT_TOOLS_COMPILE_REFUSAL_TEXT_H
#define REMAT_TOOLS_COMPILE_REFUSAL_TEXT_H

#include "advice.h"
#include "cli.h"
#include "compile.h"
#include "residents.h"

enum { REFUSAL_RESIDENTS = 5 }; /* named at most */

/* A buffer that lives at the peak. */
struct refusal_resident {
    const char *name; /* of the value in it */
    uint64_t bytes;
    struct dump_removal removal;
};

/* The attempt that needs least of several, as to find a batch. */
struct refusal_kept {
    struct remat_arena *arena;
    const struct cli_arguments *args;
    struct remat_refusal refusal; /* smallest_bytes 0: not known; its plan is gone */
    uint64_t proven_bytes;        /* no budget below fits; 0: that is not known */
    uint64_t live_peak_bytes, static_bytes;
    uint64_t workspace_bytes;    /* of static_bytes; no resident */
    const char *binding, *phase; /* the command at the live peak */
    uint32_t resident_count;
    struct refusal_resident residents[REFUSAL_RESIDENTS]; /* the largest ones, largest first */
    struct remat_advice_facts facts;                      /* step_ns 0 */
    struct remat_advices advices;                         /* that make it fit; by who watches */
    struct remat_text explanation;                        /* for --explain */
    const char *unexplained; /* why there is none; NULL: there is, or nobody asked */
    bool failed;
};

/* Has refusals kept; `out` outlives the compilation. */
void refusal_watch(struct remat_arena *arena, const struct cli_arguments *args,
                   struct remat_compile_settings *settings, struct refusal_kept *out);

/* After REMAT_ERROR_INFEASIBLE, which it returns: the size needed at the end of its message,
 * rounded up, lines after it, and on standard output what --explain asks for, with `json` an
 * object. Where time was too short for that, the message says what is proven. */
remat_status refusal_print(remat_context *ctx, const struct refusal_kept *kept, bool json);

#endif
