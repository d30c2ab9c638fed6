/* SPDX-License-Identifier: Apache-2.0 */
/* Proposals: decisions that a search compares, each with its origin and what is known of its cost.
 */
#ifndef REMAT_PROPOSAL_H
#define REMAT_PROPOSAL_H

#include "search.h"

struct remat_proposal {
    const char *name;                  /* of the policy; "per-op" */
    const struct remat_policy *policy; /* NULL: the planner's */
    remat_path_id path;                /* none: `step` numbers a decision near corners */
    bool blocking;                     /* these as in the decision */
    uint8_t depth;
    bool any_depth;       /* it stands for those of all depths */
    uint32_t step, index; /* lower index first among equals */
    struct remat_least least;
    struct remat_evaluation cost;
};

struct remat_proposals REMAT_LIST(struct remat_proposal);

/* How many proposals there are of a decision: one for each depth of its transfers, and one with
 * blocking ones, the last. */
uint32_t remat_proposal_runs(const struct remat_search *search);
/* Makes it the one of that number. */
void remat_proposal_set_run(const struct remat_search *search, struct remat_proposal *proposal,
                            uint32_t run);

struct remat_proposal remat_propose_policy(const struct remat_policy *policy, uint32_t step);

/* All manual policies, in the search's arena. */
struct remat_proposals remat_propose_policies(struct remat_search *search);

/* The proposal's decision, in `arena`; `notes` may be NULL. */
struct remat_decision remat_proposal_decide(struct remat_search *search, struct remat_arena *arena,
                                            const struct remat_proposal *proposal,
                                            struct remat_notes *notes);

/* Fills proposal->least. */
void remat_proposal_find_least(struct remat_search *search, struct remat_proposal *proposal);
/* Its computation alone. */
struct remat_evaluation remat_proposal_computation(struct remat_search *search,
                                                   const struct remat_proposal *proposal);

/* Prices it at each depth, in `out`. Returns at how many; further ones are the same. Where a time
 * is above limit_ns, it may be too low, but stays above. */
uint32_t remat_proposal_price_depths(struct remat_search *search,
                                     const struct remat_proposal *proposal, uint64_t limit_ns,
                                     struct remat_proposal out[REMAT_DEPTHS_MAX]);

/* Finds the exact time of proposal->cost. */
void remat_proposal_price(struct remat_search *search, struct remat_proposal *proposal);

/* Fills proposal->cost, unless it is known; packed where the live peak is at most limit_bytes. */
void remat_proposal_evaluate(struct remat_search *search, struct remat_proposal *proposal,
                             uint64_t limit_bytes);

/* True if a proposal with the same kernels is among them. All are priced. */
bool remat_proposals_have(const struct remat_proposals *proposals,
                          const struct remat_proposal *proposal);

/* Passes the evaluated ones, of `all` in the queue, to settings->tried. */
void remat_proposals_show(struct remat_search *search, const char *name, uint32_t all,
                          const struct remat_proposal *proposals, size_t count);

#endif
