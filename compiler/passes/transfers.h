/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes that ranks have in common: transfers along an axis of the graph's mesh, which has it, and
 * sums over its ranks. */
#ifndef REMAT_TRANSFERS_H
#define REMAT_TRANSFERS_H

#include "builder.h"

/* [ranks, ceil(S / ranks)]: this rank's part of each rank's x, of S elements. */
remat_value remat_build_exchange(struct remat_builder *b, const char *axis, remat_value x);

/* All parts, of shape `whole`; `part` is flat. */
remat_value remat_build_gather(struct remat_builder *b, const char *axis, remat_value part,
                               const struct remat_shape *whole);

/* Row number q of x [ranks, ..]. */
remat_value remat_build_row(struct remat_builder *b, remat_value x, int64_t q);

/* Of a tensor whose runs the ranks along an axis have in turn. */
const struct remat_rank_part *remat_make_part(struct remat_builder *b, const char *axis,
                                              const struct remat_shape *whole, int64_t run);

/* Of a tensor, or of a part of one along another axis, in equal blocks; NULL: the ranks along the
 * axis do not divide it. */
const struct remat_rank_part *remat_make_block(struct remat_builder *b, const char *axis,
                                               const struct remat_value_info *of);

/* This rank's coordinate along an axis: i32 [1], a state that the session writes. */
remat_value remat_build_coordinate(struct remat_builder *b, const char *axis);

#endif
