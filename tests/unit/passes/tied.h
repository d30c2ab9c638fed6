/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of passes share: a model, and a pass whose result is verified. */
#ifndef TESTS_TIED_H
#define TESTS_TIED_H

#include "passes.h"
#include "workbench.h"

/* Goes to `done` where the pass fails or its result is none. */
#define RUN(w, name, from, to)                                                                     \
    do {                                                                                           \
        bool ran_ = remat_pass_##name(&(w)->arena, from, &(w)->passes, to) == REMAT_OK &&          \
                    remat_graph_verify((w)->ctx, *(to)) == REMAT_OK;                               \
        CHECK(ran_, "%s: %s", #name, remat_context_message((w)->ctx));                             \
        if (!ran_)                                                                                 \
            goto done;                                                                             \
    } while (0)

/* A language model of one layer's shape: embedding, a linear, the tied head, cross entropy. */
void build_tied(struct workbench *w);

/* The node that makes a value of that name; REMAT_NONE: none does. */
uint32_t node_of(const struct remat_graph *graph, const char *value);

#endif
