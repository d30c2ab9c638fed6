/* SPDX-License-Identifier: Apache-2.0 */
/* The time of a decision as a sum over kernels: the content of each follows from the decision
 * value by value, and of each such content the price is known once a decision with it has been
 * carried through (evaluate.h). */
#ifndef REMAT_TIMES_H
#define REMAT_TIMES_H

#include "live.h"
#include "sensitivity.h"
#include "settle.h"

/* Which candidates a site makes, and which of its kernel's own it stores: bits by place, those of
 * the kernel's own candidates, then those that it inlines. */
struct remat_site_content {
    uint64_t made, stored;
};

struct remat_times_sum {
    struct remat_class_times times;
    uint64_t effect; /* the same for decisions that make the same kernels */
    bool known;      /* of all contents the price is */
};

struct remat_times_entry {
    struct remat_site_content content;
    uint64_t ns;
    uint32_t load_begin, load_end; /* of a forward kernel: candidates that it loads */
    uint32_t next;                 /* of the same kernel; REMAT_NONE: no other */
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
    const struct remat_device_description *device;
    struct remat_times_sum same; /* of kernels of the backward pass that are so in all plans */
    struct remat_times_home {    /* by candidate: where it is made */
        remat_kernel_id kernel;
        uint32_t place;
    } * home;
    uint32_t *read_begin; /* by kernel of the backward pass, and one more: of `reads` */
    remat_value *reads;   /* candidates that these read */
    struct REMAT_LIST(struct remat_times_entry) entries;
    uint32_t *first_entry; /* by kernel, then by the kernel of a rerun */
    struct remat_roots loads;
    struct remat_live live;
    /* Of the decision that was looked up last. */
    uint32_t last_round;
    struct remat_site_content *sites; /* by site */
    bool *sharded;              /* by value: saved as a shard, and gathered before some kernel */
    struct remat_roots gathers; /* all of these */
    struct REMAT_LIST(struct remat_times_demand) demands; /* to be looked at */
};

/* `prices`: by kernel, everything saved. */
struct remat_times remat_times_create(struct remat_arena *arena,
                                      const struct remat_settled *settled,
                                      const struct remat_price *prices,
                                      const struct remat_device_description *device);

/* `rounds`: of clones, 1 or 2. */
struct remat_times_sum remat_times_find(struct remat_times *times,
                                        const struct remat_decision *decision, uint32_t rounds);

/* The live peak under the decision is no less, beside persistent tensors. */
uint64_t remat_times_live(struct remat_times *times, const struct remat_decision *decision);

/* Prices the new kernels of that decision. Nodes of `graph` say which site they run in; forward
 * kernels have the same operands as in the given graph. */
void remat_times_learn(struct remat_times *times, const struct remat_graph *graph,
                       const struct remat_kernel_list *kernels);

#endif
