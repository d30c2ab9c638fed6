/* SPDX-License-Identifier: Apache-2.0 */
/* A step as data: segments, and entry points whose scripts call them. */
#ifndef REMAT_STEP_H
#define REMAT_STEP_H

#include "arrange.h"

struct remat_step_segment {
    const char *name; /* step; microbatch, update; forward, mean */
    const struct remat_graph *graph;
    bool decided;                      /* the one that a decision is about */
    bool overlaps;                     /* for any other: its transfers may be overlapped */
    struct remat_arrangement arranged; /* once it is scheduled */
};

/* Exactly one segment is decided, and exactly one call in all scripts calls it: step times are
 * those of its entry point. Scripts follow each other, each with its calls in the order in which
 * they run; "init" is not among them. */
struct remat_step {
    struct REMAT_LIST(struct remat_step_segment) segments;
    struct REMAT_LIST(struct remat_call) calls;
    struct REMAT_LIST(struct remat_entry) entries;
};

/* Adds a segment, and a call of it at the end of the script of `entry`, which is the last entry
 * point or a new one. */
void remat_step_add(struct remat_arena *arena, struct remat_step *step, const char *entry,
                    uint32_t times, struct remat_step_segment segment);

struct remat_step_segment *remat_step_decided(const struct remat_step *step);

/* Places the buffers of all calls, whose segments are arranged, on one line: remat_place. */
remat_status remat_step_place(remat_context *ctx, const struct remat_persistent *persistent,
                              const struct remat_step *step, uint64_t *out_arena_bytes);

/* Number of times that the decided segment is called. */
uint32_t remat_step_microbatches(const struct remat_step *step);

/* Time of a segment, or of the script that calls the decided one. */
struct remat_step_time {
    uint64_t ns, least_ns;          /* as step_ns and least_ns of struct remat_arrangement */
    struct remat_class_times times; /* ns by class */
};
struct remat_step_time remat_step_sum(const struct remat_step *step,
                                      const struct remat_step_time *decided);

#endif
