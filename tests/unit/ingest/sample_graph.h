/* SPDX-License-Identifier: Apache-2.0 */
/* A small graph by hand, with every kind of attribute, an optimizer, pins, layers and a view. */
#ifndef SAMPLE_GRAPH_H
#define SAMPLE_GRAPH_H

#include <graph.h>

struct remat_graph *sample_graph(struct remat_arena *arena);
/* One with symbols: batch, which has no value, seq = 6 (at most 9) and pairs = 4 (nothing else). */
remat_status sample_symbolic(remat_context *ctx, struct remat_arena *arena,
                             struct remat_graph **out);

#endif
