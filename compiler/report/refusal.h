/* SPDX-License-Identifier: Apache-2.0 */
/* The explanation of a budget that nothing fits. */
#ifndef REMAT_REFUSAL_H
#define REMAT_REFUSAL_H

#include "advice.h"
#include "compile.h"
#include "explanation.h"
#include "residents.h"

enum { REMAT_REFUSAL_RESIDENTS = 5 }; /* named at most */

/* A buffer that lives at the peak. */
struct remat_refusal_resident {
    const char *name; /* of the value in it */
    uint64_t bytes;
    struct dump_removal removal;
};

/* The attempt that needs least of several, as to find a batch. */
struct remat_refused {
    struct remat_arena *arena;
    const struct remat_globs *globs; /* that are asked about */
    struct remat_refusal refusal;    /* smallest_bytes 0: not known; its plan is gone */
    uint64_t proven_bytes;           /* no budget below fits; 0: that is not known */
    uint64_t live_peak_bytes, static_bytes;
    uint64_t workspace_bytes;    /* of static_bytes; no resident */
    const char *binding, *phase; /* the command at the live peak */
    uint32_t resident_count;
    struct remat_refusal_resident
        residents[REMAT_REFUSAL_RESIDENTS]; /* the largest ones, largest first */
    struct remat_advice_facts facts;        /* step_ns 0 */
    struct remat_advices advices;           /* that make it fit; by who watches */
    struct remat_text explanation, explanation_json;
    const char *unexplained; /* why there is none; NULL: there is, or nobody asked */
    bool failed;
};

/* Has refusals kept; `out` outlives the compilation. */
void remat_refusal_watch(struct remat_arena *arena, const struct remat_globs *globs,
                         struct remat_compile_settings *settings, struct remat_refused *out);

/* After REMAT_ERROR_INFEASIBLE, which it returns: the size needed at the end of its message,
 * rounded up, and lines after it. Where time was too short for that, the message says what is
 * proven. */
remat_status remat_refusal_conclude(remat_context *ctx, const struct remat_refused *kept,
                                    struct remat_text *lines);
/* The line on values that were asked about, where there is no plan. */
void remat_refusal_explain_nothing(struct remat_text *lines);
void remat_refusal_json(const struct remat_refused *kept, struct remat_text *out);

#endif
