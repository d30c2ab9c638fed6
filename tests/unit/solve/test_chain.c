/* SPDX-License-Identifier: Apache-2.0 */
/* Chains: unit chains against a closed form, others against a straightforward dynamic program.
 *
 * Unit chains: forward nodes f_0 .. f_(l-1) of one byte, backward nodes b_l .. b_1 that take no
 * room, b_i reads f_(i-1) and b_(i+1); f_0 costs so much that it is kept. In m bytes let beta(m, r)
 * be the largest l for which no forward node after f_0 runs more than r times. Reversing the part
 * after a checkpoint leaves m - 1 bytes and r runs, the part before it m bytes and r - 1 runs:
 *     beta(m, r) = beta(m, r - 1) + beta(m - 1, r),   beta(m, 0) = 1,   beta(2, r > 0) = 2
 * (in two bytes a forward run has only f_0 to read), so
 *     beta(m, r) = C(m - 2 + r, r) + C(m - 3 + r, r - 1),
 * and the least number of runs after f_0 is r l - sum of beta(m, i) over i < r, r least with
 * beta(m, r) >= l: Griewank's argument (1992), with the room of the running step counted. */
#include "solve.h"
#include "support.h"

enum { LENGTH_MAX = 64, FAR = 1 << 20, CHAINS = 250, SHORT = 16, ROOM_MAX = 160 };

static uint64_t choose(uint32_t n, uint32_t k)
{
    uint64_t result = 1;
    for (uint32_t i = 1; i <= k && result < FAR; i++) /* beyond that any number will do */
        result = result * (n - k + i) / i;
    return result;
}

static uint64_t beta(uint32_t m, uint32_t r)
{
    return r == 0 ? 1 : m == 2 ? 2 : choose(m - 2 + r, r) + choose(m - 3 + r, r - 1);
}

/* UINT64_MAX: impossible without running f_0 again. */
static uint64_t least_runs(uint32_t length, uint32_t m)
{
    uint64_t runs = 0;
    if (length == 1 || m < 2 || (m == 2 && length > 2))
        return length == 1 ? 0 : UINT64_MAX;
    for (uint32_t r = 0; beta(m, r) < length; r++)
        runs += length - beta(m, r);
    return runs;
}

static struct remat_problem make_unit_chain(struct test *t, uint32_t length)
{
    static double time[2 * LENGTH_MAX];
    static uint64_t bytes[2 * LENGTH_MAX];
    static uint32_t begin[2 * LENGTH_MAX + 1], inputs[4 * LENGTH_MAX];
    uint32_t edges = 0;
    for (uint32_t v = 0; v < 2 * length; v++) {
        time[v] = v == 0 ? FAR : 1;
        bytes[v] = v < length;
        begin[v] = edges;
        if (v >= length)
            inputs[edges++] = 2 * length - 1 - v;
        if (v > 0 && v != length)
            inputs[edges++] = v - 1;
    }
    begin[2 * length] = edges;
    return make_problem(t, 2 * length, time, bytes, begin, inputs);
}

/* Every budget of one length at once; no search, so that nothing else finds the plans. */
static void check_unit_chain(struct test *t, uint32_t length)
{
    struct remat_problem p = make_unit_chain(t, length);
    struct remat_solution s[LENGTH_MAX];
    struct remat_solve_options o = {.effort = 0};
    uint64_t rooms[LENGTH_MAX];
    for (uint32_t i = 0; i < LENGTH_MAX; i++)
        rooms[i] = LENGTH_MAX - i;
    CHECK_OK(t->ctx, remat_solve(&t->arena, &p, rooms, LENGTH_MAX, &o, s));
    for (uint32_t i = 0; i < LENGTH_MAX; i++) {
        uint64_t runs = least_runs(length, (uint32_t)rooms[i]);
        double expected = p.total_time + (double)runs - (length - 1);
        if (runs == UINT64_MAX) {
            CHECK(!s[i].fits || s[i].result.time >= p.total_time + FAR, "length %u, room %lu: %g",
                  length, (unsigned long)rooms[i], s[i].result.time);
            continue;
        }
        CHECK(s[i].fits && s[i].result.time == expected, "length %u, room %lu: %g, expected %g",
              length, (unsigned long)rooms[i], s[i].result.time, expected);
        CHECK(s[i].lower_bound <= expected, "length %u, room %lu: bound", length,
              (unsigned long)rooms[i]);
    }
    test_next(t);
}

/* --- a chain x_0 .. x_n with a gradient for each, anything random --- */

struct chain {
    uint32_t length; /* forward nodes */
    uint32_t time[2 * SHORT], bytes[2 * SHORT];
    uint32_t least[SHORT][SHORT][ROOM_MAX + 1]; /* by a, b, room: see reverse */
};

/* The gradient after b's; none after the last. */
static uint32_t gradient(const struct chain *c, uint32_t i)
{
    return i == c->length ? 0 : c->bytes[2 * c->length - 1 - i];
}

/* Least time to make x_(a+1) .. x_b and the gradients b .. a + 1 in `room` bytes beside x_a: keep
 * x_(a+1) for both uses, or go to some x_j and come back later. Plain recursion with a table. */
static uint32_t reverse(struct chain *c, uint32_t a, uint32_t b, uint32_t room)
{
    uint32_t *known = &c->least[a][b][room], advance = 0, peak = 0;
    if (a == b)
        return 0;
    if (*known)
        return *known - 1;
    uint32_t best = FAR, next = c->bytes[a + 1], after = gradient(c, b + 1);
    for (uint32_t j = a + 1; j < b; j++) {
        uint32_t run = c->bytes[j] + (j > a + 1 ? c->bytes[j - 1] : 0) + after;
        peak = run > peak ? run : peak;
        advance += c->time[j];
        if (peak > room)
            break;
        uint32_t time = advance + reverse(c, j, b, room - c->bytes[j]) + reverse(c, a, j, room);
        best = time < best ? time : best;
    }
    uint32_t work = next + gradient(c, a + 2) + gradient(c, a + 1);
    if (work <= room && next + after <= room) {
        uint32_t time =
            c->time[a + 1] + c->time[2 * c->length - 2 - a] + reverse(c, a + 1, b, room - next);
        best = time < best ? time : best;
    }
    best = best < FAR ? best : FAR;
    *known = best + 1;
    return best;
}

static struct remat_problem make_chain(struct test *t, struct chain *c)
{
    double time[2 * SHORT];
    uint64_t bytes[2 * SHORT];
    uint32_t begin[2 * SHORT + 1], inputs[6 * SHORT], edges = 0, kind = draw(t, 0, 3);
    memset(c, 0, sizeof *c);
    c->length = draw(t, 3, SHORT);
    for (uint32_t v = 0; v < 2 * c->length; v++) {
        uint32_t mirror = 2 * c->length - 1 - v;
        uint32_t what = kind == 3 ? draw(t, 0, 2) : kind; /* both, own, previous */
        time[v] = c->time[v] = draw(t, 1, 9);
        bytes[v] = c->bytes[v] = draw(t, 0, 7);
        begin[v] = edges;
        if (v >= c->length && mirror > 0 && what != 1)
            inputs[edges++] = mirror - 1;
        if (v >= c->length && (what != 2 || mirror == 0) && v != c->length)
            inputs[edges++] = mirror;
        if (v > 0)
            inputs[edges++] = v - 1;
    }
    begin[2 * c->length] = edges;
    return make_problem(t, 2 * c->length, time, bytes, begin, inputs);
}

/* The table prices the class of Beaumont et al. and reads both values always; the planner may do
 * better, never worse. */
static void check_chain(struct test *t, uint32_t *compared, uint32_t *better)
{
    static struct chain c;
    struct remat_problem p = make_chain(t, &c);
    struct remat_solution s[ROOM_MAX];
    struct remat_solve_options o = {.effort = 0};
    uint64_t rooms[ROOM_MAX];
    uint32_t count = 0;
    for (uint32_t room = ROOM_MAX; room > 12; room -= draw(t, 1, 12))
        rooms[count++] = room;
    CHECK_OK(t->ctx, remat_solve(&t->arena, &p, rooms, count, &o, s));
    for (uint32_t i = 0; i < count; i++) {
        uint32_t least = reverse(&c, 0, c.length - 1, (uint32_t)rooms[i] - c.bytes[0]);
        uint32_t last = c.bytes[0] + gradient(&c, 1) + gradient(&c, 0);
        if (least >= FAR || rooms[i] < last)
            continue;
        least += c.time[0] + c.time[2 * c.length - 1];
        CHECK(s[i].fits && s[i].result.time <= least, "length %u, room %lu: %g, table %u", c.length,
              (unsigned long)rooms[i], s[i].result.time, least);
        *better += s[i].result.time < least;
        ++*compared;
    }
    test_next(t);
}

int main(void)
{
    struct test t;
    uint32_t compared = 0, better = 0;
    test_begin(&t);
    for (uint32_t length = 1; length <= LENGTH_MAX; length++)
        check_unit_chain(&t, length);
    for (int i = 0; i < CHAINS; i++)
        check_chain(&t, &compared, &better);
    printf("%u budgets of %d random chains: %u faster than the table, none slower\n", compared,
           CHAINS, better);
    check_figure(better, "solve_chain plans faster than the table");
    return test_end(&t);
}
