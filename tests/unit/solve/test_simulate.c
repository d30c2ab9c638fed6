/* SPDX-License-Identifier: Apache-2.0 */
/* The simulator against the plainest one on random sequences, valid and spoiled; cases by hand. */
#include "support.h"

enum { PROBLEMS = 400, RUNS_MAX = 24 };

static void check_by_hand(struct test *t)
{
    double time[] = {1, 2, 4}, unused;
    uint64_t bytes[] = {10, 20, 5}, peak;
    uint32_t begin[] = {0, 0, 1, 2}, inputs[] = {0, 0};
    struct remat_problem p = make_problem(t, 3, time, bytes, begin, inputs);
    struct remat_simulation s;
    struct {
        remat_mode_id sequence[4];
        size_t length;
        double time;
        uint64_t peak;
    } cases[] = {
        {{{0}, {1}, {2}}, 3, 7, 30},      /* 1 has no users: it is gone when 2 runs */
        {{{0}, {2}, {1}}, 3, 7, 30},      /* the same */
        {{{0}, {2}, {0}, {1}}, 4, 8, 30}, /* 0 is dropped between */
        {{{0}, {0}, {1}, {2}}, 4, 8, 30}, /* a copy that nobody reads lives during its run */
        {{{0}, {1}, {2}, {0}}, 4, 8, 30},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        remat_status st = remat_simulate(t->ctx, &p, cases[i].sequence, cases[i].length, &s);
        CHECK(st == REMAT_OK && s.time == cases[i].time && s.peak == cases[i].peak,
              "case %zu: %s, time %g peak %lu", i, remat_context_message(t->ctx), s.time,
              (unsigned long)s.peak);
        CHECK(plain_simulate(&p, cases[i].sequence, cases[i].length, &unused, &peak), "valid");
        CHECK(peak == cases[i].peak, "plain simulator, case %zu", i);
    }
    remat_mode_id wrong[][3] = {{{1}, {0}, {2}}, {{0}, {1}, {1}}, {{0}, {1}, {3}}};
    for (size_t i = 0; i < 3; i++)
        CHECK_STATUS(t->ctx, remat_simulate(t->ctx, &p, wrong[i], 3, &s), REMAT_ERROR_INVALID, "",
                     "wrong sequence %zu is accepted", i);
    CHECK_STATUS(t->ctx, remat_simulate(t->ctx, &p, NULL, 0, &s), REMAT_ERROR_INVALID, "", "empty");
}

static remat_mode_id any_mode(struct test *t, const struct remat_problem *p, uint32_t v)
{
    return p->modes[draw(t, p->mode_begin[v], p->mode_begin[v + 1] - 1)];
}

/* The given order with random repeats put in, and every third time two entries swapped. */
static size_t random_sequence(struct test *t, const struct remat_problem *p,
                              remat_mode_id *sequence)
{
    size_t length = 0;
    for (uint32_t v = 0; v < p->node_count; v++) {
        sequence[length++] = any_mode(t, p, v);
        if (draw(t, 0, 1) && length + p->node_count < RUNS_MAX)
            sequence[length++] = any_mode(t, p, draw(t, 0, v));
    }
    if (draw(t, 0, 2) == 0) {
        uint32_t a = draw(t, 0, (uint32_t)length - 1), b = draw(t, 0, (uint32_t)length - 1);
        remat_mode_id swap = sequence[a];
        sequence[a] = sequence[b];
        sequence[b] = swap;
    }
    return length;
}

int main(void)
{
    struct test t;
    uint32_t valid = 0;
    test_begin(&t);
    check_by_hand(&t);
    for (int i = 0; i < PROBLEMS; i++) {
        struct remat_problem_parts parts = random_parts(&t, draw(&t, 2, 12));
        if (i % 2)
            add_random_extras(&t, &parts);
        struct remat_problem p = make_from_parts(&t, &parts);
        for (int k = 0; k < 10; k++) {
            remat_mode_id sequence[RUNS_MAX + 1];
            size_t length = random_sequence(&t, &p, sequence);
            struct remat_simulation s;
            double time;
            uint64_t peak;
            bool expected = plain_simulate(&p, sequence, length, &time, &peak);
            remat_status st = remat_simulate(t.ctx, &p, sequence, length, &s);
            CHECK((st == REMAT_OK) == expected, "problem %d: valid %d, status %d", i, expected, st);
            CHECK(!expected || (s.time == time && s.peak == peak), "problem %d: peak %lu, %lu", i,
                  (unsigned long)s.peak, (unsigned long)peak);
            valid += expected;
        }
        test_next(&t);
    }
    printf("%u of %d random sequences were valid\n", valid, PROBLEMS * 10);
    CHECK(valid > PROBLEMS && valid < PROBLEMS * 10, "the sequences do not test much");
    return test_end(&t);
}
