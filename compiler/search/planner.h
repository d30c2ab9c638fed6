/* SPDX-License-Identifier: Apache-2.0 */
/* The planner: decisions, from the fastest to the smallest, on which values of each layer to save,
 * and lower bounds of every decision. */
#ifndef REMAT_PLANNER_H
#define REMAT_PLANNER_H

#include "closure.h"
#include "evaluate.h"
#include "path.h"
#include "search_settings.h"

/* Source of decisions and bounds. Thread-compatible; lies in the arena that it was created in. */
struct remat_planner {
    /* Paths of decisions that get smaller and, from corner to corner, slower; they depend on no
     * budget. The single paths, which come first, recompute each layer from its own input. The
     * others recompute units of 2 layers, of 3 and so on from one input each, and begin where the
     * first layer's input is no longer saved. A path ends with two-level decisions, which recompute
     * the inputs of units too, one after the other. */
    uint32_t path_count, single_count;
    uint32_t tried_count;        /* paths from here on end with decisions that need more */
    remat_path_id smallest_path; /* the path of units that ends smallest; 0: there is none */
    struct remat_path *paths;
    /* Further decisions, by free items and in no order: the corners of the hulls; in small graphs
     * also those that differ from a corner in few values, up to every decision there is. */
    struct remat_neighbours near;
    uint64_t floor_bytes; /* no decision has a live peak below */
    /* private */
    const struct remat_graph *graph;
    struct remat_evaluator *evaluator;
    struct remat_model model; /* with the pins */
    struct remat_path_steps single, units;
    struct remat_path_steps head_kept; /* with the gathered parameters of the head saved; without
                                       corners where there are none */
    /* The single steps at weights of the streams; the others are as if one did all work. */
    uint32_t weighed_count;
    struct remat_planner_weighed {
        struct remat_weights weights;
        struct remat_path_steps steps, head_kept;
    } * weighed;
    uint32_t free_count;
    remat_item *free_items;                 /* that a decision may save or not */
    struct REMAT_LIST(remat_value) layered; /* in a layer, and recomputed in some decision */
    uint64_t static_bytes;
    uint32_t point_count;
    struct bounded_point {
        struct remat_program_point at;
        struct remat_border_network *network;
    } * points;
    uint32_t binding; /* the point of the last bound: others need not be solved as closely */
};

/* Creates a planner. `model` is of the evaluator's graph; both outlive the planner. `bounds_only`:
 * without decisions. */
struct remat_planner *remat_planner_create(struct remat_arena *arena,
                                           struct remat_evaluator *evaluator,
                                           const struct remat_model *model, bool bounds_only);

/* Fills `out` with decision `index` of a path, two-level ones included; path none: of `near`. */
void remat_planner_decide(const struct remat_planner *planner, struct remat_arena *arena,
                          remat_path_id path, uint32_t index, struct remat_decision *out);

/* Lower bound of the time of every decision whose live peak is at most `live_bytes`. UINT64_MAX:
 * there is no such decision. Proof: docs/planning.md. */
uint64_t remat_planner_bound(struct remat_planner *planner, uint64_t live_bytes);

/* The stream whose work is the largest part of the last bound, whose `live_bytes` these are; a
 * blocking transfer counts as its link's. REMAT_STREAMS: one stream does all work, or there are no
 * program points. */
uint32_t remat_planner_limits(const struct remat_planner *planner, uint64_t live_bytes);

/* The program point and the cut of the last bound, whose `live_bytes` these are; bound_ns is left
 * to the caller. Without a loss there are no program points, and its kernel is NULL. */
struct remat_binding remat_planner_binding(const struct remat_planner *planner,
                                           struct remat_arena *arena, uint64_t live_bytes);

/* Lower bounds of the time of one decision, by the costs of the problem, and of its live peak
 * (live.h). */
struct remat_least {
    uint64_t step_ns, live_bytes;
};
struct remat_least remat_planner_least(const struct remat_planner *planner,
                                       struct remat_arena *scratch,
                                       const struct remat_decision *decision);

#endif
