/* SPDX-License-Identifier: Apache-2.0 */
/* What the planner's tests share: problems made at random, and a simulator of the plainest kind.
 * A test program returns test_end(). */
#ifndef SUPPORT_H
#define SUPPORT_H

#include "check.h"
#include "problem.h"

#include <stdio.h>

struct test {
    remat_context *ctx;
    struct remat_arena arena; /* released by test_next */
    uint64_t random;
};

void test_begin(struct test *test);
void test_next(struct test *test); /* frees what the arena holds */
int test_end(struct test *test);
/* In [low, high]. */
uint32_t draw(struct test *test, uint32_t low, uint32_t high);

/* NAN-free, valid by construction; stops the program when that fails. */
struct remat_problem make_problem(struct test *test, uint32_t count, const double *time,
                                  const uint64_t *bytes, const uint32_t *begin,
                                  const uint32_t *inputs);
/* `count` nodes, times 1 .. 9, bytes 1 .. 6; half of them forward-and-backward shaped: node i reads
 * i - 1, and in the second half its mirror image; the others read one or two random nodes. In the
 * arena, without names. */
struct remat_problem_parts random_parts(struct test *test, uint32_t count);
/* Adds at random what a compiler may say: static bytes, workspace, bytes that last, nodes that run
 * once, aliases, other modes to run a node, groups of fused nodes that cost less than their sum. */
void add_random_extras(struct test *test, struct remat_problem_parts *parts);
struct remat_problem make_from_parts(struct test *test, const struct remat_problem_parts *parts);
struct remat_problem random_problem(struct test *test, uint32_t count); /* the two, no extras */

/* Time and peak straight from the rules, quadratic. False when the sequence is not valid. */
bool plain_simulate(const struct remat_problem *problem, const remat_mode_id *sequence,
                    size_t length, double *time, uint64_t *peak);

#endif
