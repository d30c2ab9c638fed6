/* SPDX-License-Identifier: Apache-2.0 */
/* Casts between dtypes. */
#ifndef REMAT_CAST_H
#define REMAT_CAST_H

#include "builder.h"

remat_value remat_build_like(struct remat_builder *b, remat_value x, remat_value like);

/* That x is the f32 of a bf16 value: exact, and what a load does anyway. */
bool remat_is_widening(const struct remat_graph *graph, remat_value x);

/* x in another dtype, f32 or bf16; x itself where it has it, and what was cast where x undoes it.
 */
remat_value remat_build_cast(struct remat_builder *b, remat_value x, remat_dtype dtype);

#endif
