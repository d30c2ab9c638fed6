/* Unit chains: forward nodes f_0 .. f_(l-1), backward nodes b_l .. b_1 that take no room, b_i reads
 * f_(i-1) and b_(i+1); f_0 costs so much that it is kept. In m values of room the forward runs
 * after f_0 are at most
 *
 *     R(l, m) = min over j of  j + R(l - j, m - 1) + R(j, m),   R(1, m) = 0,
 *     j = 1 or m >= 3 (a forward run needs its input, its output and f_0), R(l, 1) infinite. */
#include "solve.h"
#include "support.h"

enum { LENGTH_MAX = 64, ROOM_MAX = 12, FAR = 1 << 20 };

static uint32_t runs[LENGTH_MAX + 1][ROOM_MAX + 1];

static void fill_table(void)
{
    for (uint32_t l = 1; l <= LENGTH_MAX; l++)
        for (uint32_t m = 1; m <= ROOM_MAX; m++) {
            runs[l][m] = l == 1 ? 0 : FAR;
            for (uint32_t j = 1; m > 1 && j < l; j++) {
                uint32_t n = j + runs[l - j][m - 1] + runs[j][m];
                if ((j == 1 || m >= 3) && n < runs[l][m])
                    runs[l][m] = n;
            }
        }
}

static struct remat_problem make_chain(struct test *t, uint32_t length)
{
    static double time[2 * LENGTH_MAX];
    static uint64_t bytes[2 * LENGTH_MAX];
    static uint32_t begin[2 * LENGTH_MAX + 1], inputs[4 * LENGTH_MAX];
    uint32_t edges = 0;
    for (uint32_t v = 0; v < 2 * length; v++) {
        time[v] = v == 0 ? FAR : 1;
        bytes[v] = v < length;
        begin[v] = edges;
        if (v > length)
            inputs[edges++] = 2 * length - 1 - v;
        if (v > 0 && v != length)
            inputs[edges++] = v - 1;
        else if (v == length)
            inputs[edges++] = length - 1;
    }
    begin[2 * length] = edges;
    return make_problem(t, 2 * length, time, bytes, begin, inputs);
}

int main(void)
{
    struct test t;
    uint32_t equal = 0, better = 0, worse = 0, worst_length = 0, worst_room = 0;
    double worst = 0;
    test_begin(&t, "chain");
    fill_table();
    for (uint32_t l = 2; l <= LENGTH_MAX; l += l < 16 ? 1 : 12)
        for (uint32_t m = 3; m <= ROOM_MAX && m < l; m += 1 + m / 5) {
            struct remat_problem p = make_chain(&t, l);
            struct remat_solution s;
            struct remat_solve_options o = {.effort = 0.2};
            uint64_t room = m;
            remat_status st = remat_solve(&t.arena, &p, &room, 1, &o, &s);
            double expected = (double)runs[l][m] - (l - 1);
            double extra = s.result.time - p.total_time;
            CHECK(&t, st == REMAT_OK && s.fits, "length %u, room %u: no plan", l, m);
            CHECK(&t, s.lower_bound <= p.total_time + expected, "length %u, room %u: bound", l, m);
            equal += extra == expected;
            better += extra < expected;
            worse += extra > expected;
            double ratio = (extra + 2 * l) / (expected + 2 * l) - 1;
            if (s.fits && ratio > worst) {
                worst = ratio;
                worst_length = l;
                worst_room = m;
            }
            test_next(&t);
        }
    printf("%u equal, %u better, %u worse than the table; worst +%.2f %% (length %u, room %u)\n",
           equal, better, worse, 100 * worst, worst_length, worst_room);
    CHECK(&t, worst <= 0.25, "more than 25 %% above the table");
    return test_end(&t);
}
