/* SPDX-License-Identifier: Apache-2.0 */
/* The naive reference of what an evaluation lists: the graph of a decision is written out, and
 * kernels, prices, order and places are found from that graph alone. */
#ifndef TESTS_UNIT_SEARCH_REFERENCE_H
#define TESTS_UNIT_SEARCH_REFERENCE_H

#include "subject.h"

/* The evaluator's list under the decision, packed; and the reference, of graph `naive->graph`. */
struct reference {
    remat_context *ctx;
    struct remat_arrangement listed, naive;
    uint64_t listed_bytes, naive_bytes; /* of their arenas */
};
remat_status reference_find(struct subject *subject, struct remat_arena *arena,
                            const struct remat_decision *decision, struct reference *out);

/* Every kernel of the list is that of the reference, with its price, position and buffers. */
void reference_check(const struct reference *reference, const char *name);

#endif
