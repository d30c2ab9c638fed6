/* SPDX-License-Identifier: Apache-2.0 */
/* The size of a graph that gives the highest throughput within a budget: --bind batch=auto:1..64.
 */
#ifndef REMAT_SIZES_H
#define REMAT_SIZES_H

#include "base.h"

/* A value of the symbol that was looked at. */
struct remat_size_trial {
    uint32_t value;
    bool fits;       /* planned; else there is nothing below but why or, of a bounded one, rates */
    bool bounded;    /* not planned: no plan of it, if any fits, has more than `rate` */
    const char *why; /* the graph cannot have this size; NULL: it can */
    const char *policy;
    uint64_t step_ns, peak_bytes;
    double rate; /* per second: tokens, or what the symbol counts */
    double each; /* no value v that is larger has more than v times that; 0: not known */
};

/* Callbacks that evaluate one size. Both return REMAT_ERROR_INFEASIBLE with a message where a value
 * does not fit, REMAT_ERROR_INVALID with trial->why where the graph cannot have it. */
struct remat_size_attempts {
    remat_status (*bound)(void *user, struct remat_size_trial *trial);
    /* Only bounds it, if no plan of it has `rate_to_beat`; 0: is planned in any case. */
    remat_status (*plan)(void *user, double rate_to_beat, struct remat_size_trial *trial);
    bool (*is_over)(void *user);
    void *user;
};

struct remat_size_range {
    uint32_t low, high; /* values, both included */
};

struct remat_size_ranges REMAT_LIST(struct remat_size_range);

struct remat_sizes {
    const char *symbol;                /* NULL: none is to be chosen */
    const char *before, *after;        /* the other bindings, as text with the commas between */
    uint32_t low, high, multiple;      /* values are multiples in [low, high], both included */
    uint32_t smallest;                 /* of them */
    const char *unit;                  /* of rates, "tokens"; set by who tries, */
    uint32_t ranks;                    /* as are these, whose rates and batch they are together */
    struct remat_size_trial *trials;   /* by ascending value */
    uint32_t trial_count, value_count; /* looked at, and of how many */
    uint32_t best;                     /* of trials; trial_count: none fits */
    bool cut_short;                    /* by is_over */
    /* Values that were not planned, by the reason: */
    struct remat_size_ranges slower;  /* than the best or too large, whatever is recomputed */
    struct remat_size_ranges untried; /* the search was ended before */
    struct remat_size_ranges below;   /* not tried, as `impossible` is not possible */
    struct remat_size_ranges above;   /* not tried, as `end` does not fit or is not possible */
    uint32_t impossible,
        end; /* values that were looked at, where there is something below, above */
    bool end_is_possible;
};

/* Finds the symbol in `bindings`, which have SYMBOL=auto or SYMBOL=auto:LOW..HIGH; without a range
 * it is 1..1024. Batch has so many equal `microbatches`. REMAT_ERROR_USAGE: a second one, a
 * malformed or empty range. */
remat_status remat_sizes_parse(remat_context *ctx, struct remat_arena *arena, const char *bindings,
                               uint32_t microbatches, struct remat_sizes *out);

/* The bindings with this value; NULL: out of memory. */
const char *remat_sizes_bindings(struct remat_arena *arena, const struct remat_sizes *sizes,
                                 uint32_t value);

/* Tries values and picks the one with the highest rate; of equal ones the smallest. Up to 16 values
 * are planned in turn until one does not fit; of more, those that bounds do not rule out, and the
 * possible ones are taken for a range. When is_over is true after an attempt, the search ends, and
 * that attempt counts only if nothing has fitted before. REMAT_ERROR_INFEASIBLE: no value that is
 * possible fits; REMAT_ERROR_INVALID: none is possible; REMAT_ERROR_CUT_SHORT: ended with neither
 * known. */
remat_status remat_sizes_search(remat_context *ctx, struct remat_arena *arena,
                                struct remat_sizes *sizes,
                                const struct remat_size_attempts *attempts);

#endif
