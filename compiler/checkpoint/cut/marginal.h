/* SPDX-License-Identifier: Apache-2.0 */
/* The change that one value less, or one more, makes to a choice at the border. */
#ifndef REMAT_MARGINAL_H
#define REMAT_MARGINAL_H

#include "border.h"

/* Which tasks run by how often each item is recomputed at most, `times` (0: it is saved, up to
 * 2): the tasks of what is wanted in the last round that its item has, and in the same round or the
 * last one before that its item has, the tasks of what a running one needs. Of the choice `run` and
 * `again` are set; they lie in the arena. */
struct remat_border_choice remat_border_follow(struct remat_arena *arena,
                                               const struct remat_border *border,
                                               const uint8_t *times);

/* extra_ps[item]: what the choice costs with this item recomputed, `otherwise` (by item) times,
 * beyond what it costs with it saved, all others as in `times`. Below zero where saving takes
 * longer; 0 where the item's task runs in either case or in none. Time: what each of
 * these changes makes run, or not run. */
void remat_border_marginals(struct remat_arena *arena, const struct remat_border *border,
                            const uint8_t *times, const uint8_t *otherwise, int64_t *extra_ps);

#endif
