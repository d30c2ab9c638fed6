/* SPDX-License-Identifier: Apache-2.0 */
/* The learning rate of each step. */
#ifndef REMAT_TOOLS_RUN_LR_SCHEDULE_H
#define REMAT_TOOLS_RUN_LR_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

enum schedule_kind { SCHEDULE_CONSTANT, SCHEDULE_LINEAR, SCHEDULE_COSINE, SCHEDULE_COUNT };

struct schedule {
    enum schedule_kind kind;
    double lr, min_lr;      /* at its highest; where it ends up */
    uint64_t warmup, steps; /* steps of the rise, and of rise and fall together */
};

const char *schedule_name(enum schedule_kind kind); /* "cosine" */
bool schedule_find(const char *name, enum schedule_kind *out);

/* Learning rate of step n, counted from 1: lr * n / warmup up to step `warmup`, then, with
 * t = min(1, (n - 1 - warmup) / (steps - warmup)),
 *     constant  lr
 *     linear    min_lr + (lr - min_lr) * (1 - t)
 *     cosine    min_lr + (lr - min_lr) * (1 + cos(pi * t)) / 2 */
float schedule_lr(const struct schedule *schedule, uint64_t step);

#endif
