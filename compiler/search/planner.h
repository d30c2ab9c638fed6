/* SPDX-License-Identifier: Apache-2.0 */
/* The planner: what to keep of each layer, as decisions from the fastest to the smallest, and what
 * no decision can beat. */
#ifndef REMAT_PLANNER_H
#define REMAT_PLANNER_H

#include "closure.h"
#include "evaluate.h"
#include "path.h"
#include "program_point.h"
#include "search_settings.h"

/* Where decisions come from, and bounds. Thread-compatible; lies in the arena it was made in. */
struct remat_planner {
    /* Decisions that get smaller and, from corner to corner, slower; they depend on no budget. The
     * single paths recompute each layer from its own input; those behind, groups of 2 layers, of 3
     * and so on from one input: they begin where the first layer's input is no longer saved. At
     * the end of a path come two-level decisions: one group's input after the other is recomputed
     * too. */
    uint32_t path_count, single_count;
    uint32_t tried_count;        /* paths from here on end with larger decisions */
    remat_path_id smallest_path; /* of the grouped ones, by its end; 0 where there are none */
    struct remat_path *paths;
    /* Further decisions, by free items: the corners of the hulls, and in small graphs what differs
     * from one in few values, up to every decision where there are few. In no order. */
    struct remat_neighbours near;
    uint64_t floor_bytes; /* no decision has a live peak below */
    /* private */
    const struct remat_graph *graph;
    struct remat_evaluator *evaluator;
    struct remat_model model; /* with the pins */
    struct remat_path_steps single, grouped;
    struct remat_path_steps headed; /* with gathered parameters of the head kept; without corners
                                       where there are none */
    uint32_t free_count;
    remat_item *free_items; /* what a decision may keep or not */
    uint64_t static_bytes;
    uint32_t point_count;
    struct bounded_point {
        struct remat_program_point at;
        struct remat_border_network *network;
    } * points;
    uint32_t binding; /* the one that bounded last: others need not be looked at as closely */
};

/* `evaluator` is of the graph that decisions are made on, and `model` of that; both outlive the
 * planner. `bounds_only`: there are no decisions to try. */
struct remat_planner *remat_planner_create(struct remat_arena *arena,
                                           struct remat_evaluator *evaluator,
                                           const struct remat_model *model, bool bounds_only);

/* Decision `index` of a path, of the two-level ones too; path none: of `near`. */
void remat_planner_decide(const struct remat_planner *planner, struct remat_arena *arena,
                          remat_path_id path, uint32_t index, struct remat_decision *out);

/* No decision whose live peak is at most `live_bytes` gives a kernel list of less than *out_ns.
 * UINT64_MAX: there is none at all. Proof: docs/planning.md. */
uint64_t remat_planner_bound(struct remat_planner *planner, uint64_t live_bytes);

/* Where the bound that was asked for last is found, `live_bytes` as then, but for bound_ns. There
 * is a program point wherever there is a loss: else its kernel is NULL. */
struct remat_binding remat_planner_binding(const struct remat_planner *planner,
                                           struct remat_arena *arena, uint64_t live_bytes);

/* The least time of one decision, by the costs of the problem, and live peak (live.h). */
struct remat_least {
    uint64_t step_ns, live_bytes;
};
struct remat_least remat_planner_least(const struct remat_planner *planner,
                                       struct remat_arena *scratch,
                                       const struct remat_decision *decision);

#endif
