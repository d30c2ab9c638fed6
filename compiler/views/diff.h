/* SPDX-License-Identifier: Apache-2.0 */
/* Differences between a plan and another one. Of arrays of two, the first is the plan's. */
#ifndef REMAT_DUMP_DIFF_H
#define REMAT_DUMP_DIFF_H

#include "dump.h"

/* A number or a setting of both plans. */
struct plan_difference {
    const char *name;
    const char *unit; /* of the numbers: "ns", "bytes", "count"; NULL: a setting */
    uint64_t number[2];
    const char *text[2]; /* as people read them; of what one plan lacks, "-" */
};
struct plan_differences REMAT_LIST(struct plan_difference);

struct decision_pair { /* NULL: the plan decides nothing about the value */
    const struct remat_decision_record *of[2];
};
struct decision_pairs REMAT_LIST(struct decision_pair);

struct kernel_pair {
    const char *key;
    uint64_t count[2], ns[2]; /* over all runs of a step */
};
struct kernel_pairs REMAT_LIST(struct kernel_pair);

struct plan_diff {
    struct plan_differences numbers, settings;
    struct decision_pairs decisions; /* in the order of the plan, then those of the other alone */
    struct kernel_pairs kernels;     /* those with the most time between them first */
};
remat_status dump_diff_find(struct remat_arena *arena, const struct remat_program *program,
                            const struct remat_program *other, struct plan_diff *out);

#define DUMP_UNDECIDED REMAT_NONE /* in place of an action: the plan decides nothing about it */
/* Values that differ in their layer only, with the same two actions. */
struct value_pair {
    const char *pattern;                    /* dump_pattern of their names */
    uint32_t action[2];                     /* enum remat_action, or DUMP_UNDECIDED */
    struct REMAT_LIST(uint32_t) layers;     /* ascending; none outside layers */
    uint64_t count, bytes, recompute_ns[2]; /* of all of them */
};
struct value_pairs REMAT_LIST(struct value_pair);
/* Those of the same layers next to each other, the first layers first, outside layers last. */
remat_status dump_diff_values(struct remat_arena *arena, const struct decision_pairs *pairs,
                              struct value_pairs *out);
/* The end of those from `begin` with the same layers and actions. */
size_t dump_diff_run(const struct value_pairs *values, size_t begin);

#endif
