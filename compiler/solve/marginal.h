/* What one value less, or one more, in a choice at the border would change. */
#ifndef REMAT_MARGINAL_H
#define REMAT_MARGINAL_H

#include "border.h"

/* Which tasks run when nothing but `saved` (by item) is kept: run (by task) is true for those of
 * items that are wanted, or that a running task needs, and not saved. */
remat_status remat_border_follow(struct remat_arena *scratch, const struct remat_border *border,
                                 const bool *saved, bool *run);

/* extra_ps[item]: what the choice costs with this item computed again beyond what it costs with it
 * saved, all others as in `saved`. Below zero where saving takes longer; 0 where the item's task
 * runs in either case or in none. O(items x size of the border). */
remat_status remat_border_marginals(struct remat_arena *arena, const struct remat_border *border,
                                    const bool *saved, int64_t *extra_ps);

#endif
