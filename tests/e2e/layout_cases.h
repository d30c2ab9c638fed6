/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of ops on operands that ranks along tp divide, and what checks them. */
#ifndef TESTS_E2E_LAYOUT_CASES_H
#define TESTS_E2E_LAYOUT_CASES_H

#include "harness.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))
/* Ends a node of a case. */
#define F " phase forward\n"

struct layout_case {
    const char *name;
    uint32_t elements;
    char layout;      /* of m: whole, split, tokens split, u: an unfinished sum, m: a maximum */
    bool rounds;      /* sums are not exact */
    const char *text; /* that begins with a blank: with the layout that is stated of x */
};
extern const struct layout_case layout_cases[];
extern const size_t layout_case_count;
/* With sequence parallelism, where a sum's rows are tokens. */
extern const struct layout_case layout_token_cases[];
extern const size_t layout_token_case_count;

struct remat_graph *layout_parse(remat_context *ctx, struct remat_arena *arena,
                                 const struct layout_case *c, uint32_t ranks);
/* The layout of m is the one that the case says. A rule that makes everything whole would be right,
 * too. */
void layouts_check_found(remat_context *ctx, const struct layout_case *c, size_t count,
                         bool sequence);
/* That, and 2 and 4 ranks compute what one does; also with sequence parallelism what has a sum that
 * it finishes into parts. */
void layouts_check_all(remat_context *ctx, const struct layout_case *all, size_t count,
                       bool tokens);

#endif
