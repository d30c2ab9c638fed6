#include "support.h"

#include <stdlib.h>

void test_begin(struct test *test, const char *name)
{
    *test = (struct test){.ctx = remat_context_create(NULL, NULL), .name = name, .random = 1};
    remat_arena_init(&test->arena, test->ctx);
}

void test_next(struct test *test)
{
    remat_arena_release(&test->arena);
}

int test_end(struct test *test)
{
    remat_arena_release(&test->arena);
    remat_context_destroy(&test->ctx);
    if (test->failures)
        printf("%s: %d checks failed\n", test->name, test->failures);
    return test->failures != 0;
}

uint32_t draw(struct test *test, uint32_t low, uint32_t high)
{
    test->random = test->random * 6364136223846793005u + 1442695040888963407u;
    return low + (uint32_t)((test->random >> 33) % (high - low + 1));
}

struct remat_problem make_problem(struct test *test, uint32_t count, const double *time,
                                  const uint64_t *bytes, const uint32_t *begin,
                                  const uint32_t *inputs)
{
    struct remat_problem problem;
    if (remat_problem_create(test->ctx, &test->arena, count, NULL, time, bytes, begin, inputs,
                             &problem) != REMAT_OK) {
        printf("%s: %s\n", test->name, remat_context_message(test->ctx));
        exit(2);
    }
    return problem;
}

struct remat_problem random_problem(struct test *test, uint32_t count)
{
    double time[32];
    uint64_t bytes[32];
    uint32_t begin[33] = {0}, inputs[64];
    bool mirrored = draw(test, 0, 1), far = draw(test, 0, 1);
    for (uint32_t v = 0; v < count; v++) {
        uint32_t a = v, b = v;
        time[v] = draw(test, 1, 9);
        bytes[v] = draw(test, 1, 6);
        if (mirrored && v > 0) {
            a = v - 1;
            b = v >= count / 2 ? count - 1 - v : v;
            if (v == count / 2 && far)
                b = 0;
        } else if (v > 0) {
            a = draw(test, 0, v - 1);
            b = draw(test, 0, 2) ? draw(test, 0, v - 1) : v;
        }
        begin[v + 1] = begin[v];
        if (a < v)
            inputs[begin[v + 1]++] = a;
        if (b < v && b != a)
            inputs[begin[v + 1]++] = b;
    }
    return make_problem(test, count, time, bytes, begin, inputs);
}

static bool reads(const struct remat_problem *p, uint32_t v, uint32_t u)
{
    for (uint32_t e = p->input_begin[v]; e < p->input_begin[v + 1]; e++)
        if (p->inputs[e] == u)
            return true;
    return false;
}

/* The last position that reads the copy made at `position`, or that position itself. */
static size_t last_read(const struct remat_problem *p, const uint32_t *sequence, size_t length,
                        size_t position)
{
    size_t last = position;
    for (size_t i = position + 1; i < length && sequence[i] != sequence[position]; i++)
        if (reads(p, sequence[i], sequence[position]))
            last = i;
    return last;
}

bool plain_simulate(const struct remat_problem *p, const uint32_t *sequence, size_t length,
                    double *time, uint64_t *peak)
{
    *time = 0;
    *peak = 0;
    for (uint32_t v = 0; v < p->node_count; v++) {
        size_t first = 0;
        while (first < length && sequence[first] != v)
            first++;
        if (first == length)
            return false;
        for (size_t i = 0; i < first; i++)
            if (reads(p, sequence[i], v))
                return false;
    }
    for (size_t i = 0; i < length; i++) {
        uint64_t live = 0;
        *time += p->time[sequence[i]];
        for (size_t j = 0; j <= i; j++)
            if (last_read(p, sequence, length, j) >= i)
                live += p->bytes[sequence[j]];
        if (live > *peak)
            *peak = live;
    }
    return true;
}
