/* SPDX-License-Identifier: Apache-2.0 */
/* The methods of the planner (docs/problems.md), a file each. Private.
 *
 * Sequences and results lie in `arena`. A deadline may be NULL. Times beyond the sum over all nodes
 * are counted in ticks (problem.h). */
#ifndef REMAT_SOLVERS_H
#define REMAT_SOLVERS_H

#include "deadline.h"
#include "problem.h"

/* --- construct.c --- */

/* The given order, cut after the run of `node`: of the values made before it only `more` (from
 * number `border` on) and `less` (below it) are kept, the others are recomputed just before their
 * first use. */
struct remat_sequence remat_construct_cut(struct remat_arena *arena,
                                          const struct remat_problem *problem,
                                          remat_problem_node node, const bool *more,
                                          const bool *less, uint32_t border);

/* --- greedy.c --- */

/* The worth of keeping a value: cost^a / bytes^b / distance^c, where cost is the time to restore it
 * and distance the time to its next use in the given order. */
struct remat_eviction {
    double cost, bytes, distance;
    const bool *keep; /* values to keep before all others; may be NULL */
    bool deep_first;  /* of several missing inputs, restore the one with the most missing ancestors
                         first */
};

enum { REMAT_EVICTIONS = 8 };
extern const struct remat_eviction remat_evictions[REMAT_EVICTIONS]; /* what is worth trying */

/* Work left for all greedy plans together, before the deadline and after it: visits of a value or
 * of an input. */
struct remat_looks {
    uint64_t left, late;
};

/* As much as five plans may take, each of which has a limit of its own. */
struct remat_looks remat_construct_looks(const struct remat_problem *problem);

/* The given order in at most `budget` bytes: evicts the least worthy value when memory is needed,
 * and recomputes missing inputs. Empty if it gets stuck or takes too much work. */
struct remat_sequence remat_construct_greedy(struct remat_arena *arena,
                                             const struct remat_problem *problem, uint64_t budget,
                                             const struct remat_eviction *eviction,
                                             struct remat_deadline *deadline,
                                             struct remat_looks *looks);

/* --- chain.c --- */

/* Chains: forward nodes that read only their predecessor, then backward nodes that read the forward
 * values from the last to the first. Finds, at every budget at once, the fastest schedule in a
 * class that contains all checkpointing schedules. */
struct remat_chain;

/* NULL if the problem is no chain, takes too much work, or the deadline came first. The result
 * refers to the problem. Plans above `budget_max` are not looked for. */
struct remat_chain *remat_chain_find(struct remat_arena *arena, const struct remat_problem *problem,
                                     uint64_t budget_max, struct remat_deadline *deadline);

/* A sequence that fits; empty if the class has none. */
struct remat_sequence remat_chain_plan(struct remat_arena *arena, const struct remat_chain *chain,
                                       uint64_t budget);

/* --- local_search.c: order and recomputation together, for one budget --- */

/* `events` for graphs like the published instances, whose moves change up to 40. */
enum { REMAT_SEARCH_EVENTS = 64 };

struct remat_search_options {
    uint64_t budget; /* bytes */
    uint64_t moves;  /* tried in all; nothing else ends the search but the deadline */
    uint32_t events; /* runs and reads that a move may change on average, more count as moves; 0:
                        any number */
    uint64_t seed;
    double hot, cold; /* temperatures at the first and last move, relative to the total time */
    double pressure;  /* penalty of a peak of twice the budget, relative to the total time */
    struct remat_deadline *deadline;
};

/* Improves `start` (valid, any peak). The result is never worse: within the budget and not slower,
 * or, if nothing within the budget was met, not higher in peak. Same input, same result. */
struct remat_sequence remat_search(struct remat_arena *arena, const struct remat_problem *problem,
                                   const struct remat_sequence *start,
                                   const struct remat_search_options *options);

/* --- descend.c --- */

/* Schedules on a fixed ladder of budgets, from the peak of the given order down to the least peak
 * found. They do not depend on the budget asked for, so what is found fits every larger one. */
struct remat_descent_step {
    struct remat_sequence sequence;
    struct remat_simulation result;
};

/* In the order found; the first is the given order. */
struct remat_descent REMAT_LIST(struct remat_descent_step);

/* `moves`: of annealing, in all, about. After the deadline: what was found so far. */
remat_status remat_descend(struct remat_arena *arena, const struct remat_problem *problem,
                           const struct remat_sequence *given, double moves,
                           struct remat_deadline *deadline, struct remat_descent *out);

/* The fastest within the budget; if there is none, the one of the least peak. */
const struct remat_descent_step *remat_descent_within(const struct remat_descent *descent,
                                                      uint64_t budget);

/* --- exact.c: exhaustion in order of cost --- */

#define REMAT_EXACT_NODES_MAX 64u

struct remat_exact {
    bool solved;     /* `sequence` is a fastest one, in ticks */
    bool infeasible; /* proven: no schedule fits */
    uint64_t ticks;  /* every schedule that fits takes at least this many beyond the sum */
    struct remat_sequence sequence;
};

/* `limit`: schedules of this many ticks beyond the sum, or more, are ignored; infeasible then means
 * that none is below. Gives up after `states_max`, at least 2, and at once if there are more than
 * REMAT_EXACT_NODES_MAX nodes, not counting those without inputs, users, time and bytes. */
struct remat_exact remat_exact_solve(struct remat_arena *arena, const struct remat_problem *problem,
                                     uint64_t budget, uint64_t limit, uint32_t states_max,
                                     struct remat_deadline *deadline);

/* --- bound.c: a lower bound of the time of every schedule that fits, whatever its order and
 * however often it recomputes --- */

enum { REMAT_BOUND_NODES = 8 };

struct remat_schedule_bound {
    uint64_t ticks; /* at least this many beyond the sum over all nodes */
    double time;    /* that sum and the ticks: at most the time of any schedule that fits */
    remat_problem_node best[REMAT_BOUND_NODES]; /* nodes whose first runs give the largest bounds,
                                                   largest first; none: the trivial bound */
    uint32_t best_count;
    /* By value: whether it is live at the best first run in the two cheapest cuts next to the
     * budget, one above and one within it. Starting points of a search; NULL for the trivial bound
     * and after the deadline. */
    bool *keep_more, *keep_less;
};

/* The sum of all times and `ticks`, rounded so that it stays a bound. */
double remat_bound_from_ticks(const struct remat_problem *problem, uint64_t ticks);

/* `cuts_max`: how many nodes are tried, at least 1. After the deadline: the best so far. */
struct remat_schedule_bound remat_bound_time(struct remat_arena *arena,
                                             const struct remat_problem *problem, uint64_t budget,
                                             uint32_t cuts_max, struct remat_deadline *deadline);

/* The bound at one node, by branch and bound on what is kept there: at least so many ticks beyond
 * the sum of least times. Ends at `enough` ticks, or after `leaves_max` cases. */
uint64_t remat_bound_branch(struct remat_arena *arena, const struct remat_problem *problem,
                            uint64_t budget, remat_problem_node node, uint64_t enough,
                            uint32_t leaves_max, struct remat_deadline *deadline);

/* --- floor.c: a budget below which no schedule exists --- */

struct remat_floor {
    uint64_t bytes;
    remat_problem_node node; /* whose run needs that much */
    bool exact;              /* a schedule with this peak exists (perhaps a very long one) */
};

/* `effort`: states visited, in all. More effort never lowers the floor. */
struct remat_floor remat_floor_find(struct remat_arena *arena, const struct remat_problem *problem,
                                    uint64_t effort, struct remat_deadline *deadline);

#endif
