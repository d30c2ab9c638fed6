/* SPDX-License-Identifier: Apache-2.0 */
/* Groups of stages that are recomputed twice: from a group's input that is saved, all of it is
 * passed through once, of which the inner inputs stay; then each stage is recomputed by itself
 * when the backward pass comes to it. */
#ifndef REMAT_NEST_H
#define REMAT_NEST_H

#include "unwind.h"

/* Which of `stage_count` stages in a row hand on what is not saved, when `dropped` of them (fewer
 * than stage_count) do: groups such that the most inputs at once, saved or inner, are fewest.
 * out[stage]; false for the last one. */
void remat_nest(uint32_t stage_count, uint32_t dropped, bool *out);

#endif
