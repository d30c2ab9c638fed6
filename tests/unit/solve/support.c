/* SPDX-License-Identifier: Apache-2.0 */
#include "support.h"

#include <stdlib.h>

void test_begin(struct test *test)
{
    *test = (struct test){.ctx = remat_context_create(NULL, NULL), .random = 1};
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
    return check_exit();
}

uint32_t draw(struct test *test, uint32_t low, uint32_t high)
{
    test->random = test->random * 6364136223846793005u + 1442695040888963407u;
    return low + (uint32_t)((test->random >> 33) % (high - low + 1));
}

struct remat_problem make_from_parts(struct test *test, const struct remat_problem_parts *parts)
{
    struct remat_problem problem;
    MUST_OK(test->ctx, remat_problem_create(test->ctx, &test->arena, parts, &problem));
    return problem;
}

struct remat_problem make_problem(struct test *test, uint32_t count, const double *time,
                                  const uint64_t *bytes, const uint32_t *begin,
                                  const uint32_t *inputs)
{
    struct remat_problem_parts parts = {.node_count = count,
                                        .time = time,
                                        .bytes = bytes,
                                        .input_begin = begin,
                                        .inputs = (const remat_problem_node *)inputs};
    return make_from_parts(test, &parts);
}

static void *array(struct test *test, size_t count, size_t size)
{
    void *items = remat_arena_array(&test->arena, count, size);
    MUST(items);
    return items;
}

struct remat_problem_parts random_parts(struct test *test, uint32_t count)
{
    double *time = array(test, count, sizeof *time);
    uint64_t *bytes = array(test, count, sizeof *bytes);
    uint32_t *begin = array(test, count + 1, sizeof *begin);
    remat_problem_node *inputs = array(test, 2 * count, sizeof *inputs);
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
            inputs[begin[v + 1]++].i = a;
        if (b < v && b != a)
            inputs[begin[v + 1]++].i = b;
    }
    return (struct remat_problem_parts){
        .node_count = count, .time = time, .bytes = bytes, .input_begin = begin, .inputs = inputs};
}

struct extras {
    uint64_t *bytes, *workspace, *lasting;
    bool *once, *is_storage;
    remat_problem_node *alias;
    struct remat_mode *modes;
    remat_problem_node *fused;
    uint32_t fused_count;
};

static void add_mode(struct test *test, struct remat_problem_parts *p, struct extras *x,
                     remat_problem_node v, uint32_t first, uint32_t fused_count, double extra)
{
    x->modes[p->mode_count++] = (struct remat_mode){.node = v,
                                                    .time = p->time[v.i] + extra,
                                                    .workspace = draw(test, 0, 2),
                                                    .fused = x->fused + first,
                                                    .fused_count = fused_count};
}

/* Ways of v that fuse its inputs: one, or one and an input of that. */
static void add_groups(struct test *test, struct remat_problem_parts *p, struct extras *x,
                       remat_problem_node v)
{
    for (uint32_t e = p->input_begin[v.i]; e < p->input_begin[v.i + 1]; e++) {
        remat_problem_node u = p->inputs[e];
        uint32_t first = x->fused_count, more = p->input_begin[u.i];
        if (x->once[u.i] || x->is_storage[u.i] || draw(test, 0, 1))
            continue;
        x->fused[x->fused_count++] = u;
        double extra = draw(test, 0, (uint32_t)p->time[u.i]), rest;
        add_mode(test, p, x, v, first, 1, extra);
        if (more == p->input_begin[u.i + 1])
            continue;
        u = p->inputs[more];
        if (x->once[u.i] || x->is_storage[u.i] || draw(test, 0, 1))
            continue;
        first = x->fused_count;
        x->fused[x->fused_count++] = u;
        x->fused[x->fused_count++] = x->fused[first - 1];
        rest = draw(test, 0, (uint32_t)p->time[u.i]);
        add_mode(test, p, x, v, first, 2, extra + rest > 2 ? extra + rest - 2 : 0);
    }
}

void add_random_extras(struct test *test, struct remat_problem_parts *p)
{
    uint32_t n = p->node_count;
    struct extras x = {.bytes = array(test, n, sizeof *x.bytes),
                       .workspace = array(test, n, sizeof *x.workspace),
                       .lasting = array(test, n, sizeof *x.lasting),
                       .once = array(test, n, sizeof *x.once),
                       .is_storage = array(test, n, sizeof *x.is_storage),
                       .alias = array(test, n, sizeof *x.alias),
                       .modes = array(test, 5 * n, sizeof *x.modes),
                       .fused = array(test, 6 * n, sizeof *x.fused)};
    p->static_bytes = draw(test, 0, 3);
    for (uint32_t v = 0; v < n; v++) {
        x.bytes[v] = p->bytes[v];
        x.workspace[v] = draw(test, 0, 2) ? 0 : draw(test, 1, 3);
        x.lasting[v] = v >= n / 2 && draw(test, 0, 2) == 0 ? draw(test, 1, 2) : 0;
        x.once[v] = draw(test, 0, 7) == 0;
        x.alias[v] = REMAT_NO_PROBLEM_NODE;
        if (p->input_begin[v] < p->input_begin[v + 1] && draw(test, 0, 7) == 0) {
            x.alias[v] = p->inputs[p->input_begin[v]];
            x.bytes[v] = 0;
        }
        for (uint32_t u = v; x.alias[u].i != UINT32_MAX;)
            x.is_storage[u = x.alias[u].i] = true;
    }
    for (remat_problem_node v = {0}; v.i < n; v.i++) {
        if (draw(test, 0, 4) == 0)
            add_mode(test, p, &x, v, 0, 0, (double)draw(test, 0, 4) - (p->time[v.i] > 1));
        if (draw(test, 0, 1))
            add_groups(test, p, &x, v);
    }
    p->bytes = x.bytes;
    p->workspace = x.workspace;
    p->lasting = x.lasting;
    p->once = x.once;
    p->alias = x.alias;
    p->modes = x.modes;
}

struct remat_problem random_problem(struct test *test, uint32_t count)
{
    struct remat_problem_parts parts = random_parts(test, count);
    return make_from_parts(test, &parts);
}

static bool reads(const struct remat_problem *p, remat_mode_id mode, remat_problem_node u)
{
    for (uint32_t e = p->input_begin[mode.i]; e < p->input_begin[mode.i + 1]; e++)
        if (p->inputs[e].i == u.i)
            return true;
    return false;
}

/* The last position that reads the copy made at `position`, or that position itself. */
static size_t last_read(const struct remat_problem *p, const remat_mode_id *sequence, size_t length,
                        size_t position)
{
    size_t last = position;
    remat_problem_node v = p->node_of[sequence[position].i];
    for (size_t i = position + 1; i < length && p->node_of[sequence[i].i].i != v.i; i++)
        if (reads(p, sequence[i], v))
            last = i;
    return last;
}

bool plain_simulate(const struct remat_problem *p, const remat_mode_id *sequence, size_t length,
                    double *time, uint64_t *peak)
{
    *time = 0;
    *peak = 0;
    for (remat_problem_node v = {0}; v.i < p->node_count; v.i++) {
        size_t first = 0;
        while (first < length && p->node_of[sequence[first].i].i != v.i)
            first++;
        if (first == length)
            return false;
        for (size_t i = 0; i < first; i++)
            if (reads(p, sequence[i], v))
                return false;
        for (size_t i = first + 1; i < length && p->once[v.i]; i++)
            if (p->node_of[sequence[i].i].i == v.i)
                return false;
    }
    for (size_t i = 0; i < length; i++) {
        uint64_t live = p->workspace[sequence[i].i];
        *time += p->time[sequence[i].i];
        for (size_t j = 0; j <= i; j++)
            if (last_read(p, sequence, length, j) >= i)
                live += p->bytes[p->node_of[sequence[j].i].i];
        for (uint32_t v = 0; v < p->node_count; v++)
            for (size_t j = 0; j <= i; j++)
                if (p->node_of[sequence[j].i].i == v) {
                    live += p->lasting[v];
                    break;
                }
        if (live > *peak)
            *peak = live;
    }
    return true;
}
