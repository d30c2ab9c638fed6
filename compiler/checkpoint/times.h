/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of a decision, and its time as a sum over them: the content of each run follows from
 * the decision value by value, and of each content the variant is known (variants.h). */
#ifndef REMAT_TIMES_H
#define REMAT_TIMES_H

#include "live.h"
#include "sensitivity.h"
#include "variants.h"

struct remat_times_sum {
    struct remat_class_times times;
    uint64_t transfers_ns; /* of these */
    uint64_t effect;       /* equal for decisions with the same kernels */
};

struct remat_times_demand { /* by the kernel, or its rerun in a round from 1 on */
    remat_kernel_id kernel;
    uint32_t round;
    remat_value value;
};

struct remat_times {
    struct remat_arena *arena;
    const struct remat_settled *settled;
    const struct remat_kernel_list *kernels; /* settled->kernels */
    const struct remat_price *prices;        /* by kernel: with everything saved */
    struct remat_times_sum same;  /* of kernels of the backward pass that no decision changes */
    struct remat_times_producer { /* by candidate */
        remat_kernel_id kernel;
        uint64_t hash;
    } * producer;
    uint32_t *read_begin; /* by kernel of the backward pass, and one more: of `reads` */
    remat_value *reads;   /* candidates that these read */
    struct remat_live live;
    /* State of the decision that was looked up last. */
    struct remat_run_content *runs; /* by run */
    bool *got;                      /* by way to keep: something reads what it gets */
    struct REMAT_LIST(const struct remat_keep *) gets;    /* those whose `got` is set */
    struct REMAT_LIST(struct remat_times_demand) demands; /* still to be visited */
};

/* `prices`: by kernel, everything saved. */
struct remat_times remat_times_create(struct remat_arena *arena,
                                      const struct remat_settled *settled,
                                      const struct remat_price *prices);

struct remat_times_sum remat_times_find(struct remat_times *times, struct remat_variants *variants,
                                        const struct remat_decision *decision);

/* The kernels of that decision and their prices. Each is preceded by the reruns and gets that it
 * reads, unless they already were. */
struct remat_kernel_list remat_times_list(const struct remat_times *times,
                                          struct remat_variants *variants,
                                          struct remat_arena *arena,
                                          const struct remat_decision *decision,
                                          struct remat_price **out_prices);

/* Lower bound of the decision's live peak, without persistent tensors. */
uint64_t remat_times_live(struct remat_times *times, const struct remat_decision *decision);

#endif
