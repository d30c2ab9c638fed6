/* SPDX-License-Identifier: Apache-2.0 */
/* Validation of a problem and the arrays derived from it. */
#include "problem.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

struct problem_builder {
    remat_context *ctx;
    struct remat_arena *arena;
    const struct remat_problem_parts *parts;
    struct remat_problem *out;
    remat_problem_node *storage; /* by node: whose storage its value lies in */
    bool *is_storage;            /* of another node's value */
    bool *mark, *fusing;         /* by node, all false between uses */
    struct REMAT_LIST(remat_problem_node) inputs, fused;
    uint64_t bytes; /* of everything so far */
    double time;
};

/* `node 12 ("conv1"): ` and what is wrong with it. */
static remat_status refuse(const struct problem_builder *b, remat_problem_node node,
                           const char *what)
{
    const char *const *names = b->parts->names;
    if (names)
        return remat_error(b->ctx, REMAT_ERROR_INVALID, "node %u (\"%s\"): %s", node.i,
                           names[node.i], what);
    return remat_error(b->ctx, REMAT_ERROR_INVALID, "node %u: %s", node.i, what);
}

#define REFUSE(b, node, ...) refuse((b), (node), REMAT_FORMAT((b)->arena, __VA_ARGS__))

uint64_t remat_problem_working_set_of_mode(const struct remat_problem *p, remat_mode_id mode)
{
    uint64_t bytes = p->bytes[p->node_of[mode.i].i] + p->workspace[mode.i];
    for (uint32_t e = p->input_begin[mode.i]; e < p->input_begin[mode.i + 1]; e++)
        bytes += p->bytes[p->inputs[e].i];
    return bytes;
}

uint64_t remat_problem_working_set(const struct remat_problem *p, remat_problem_node node)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t i = p->mode_begin[node.i]; i < p->mode_begin[node.i + 1]; i++) {
        uint64_t bytes = remat_problem_working_set_of_mode(p, p->modes[i]);
        least = bytes < least ? bytes : least;
    }
    return least;
}

bool remat_problem_reads(const struct remat_problem *p, remat_mode_id mode, remat_problem_node node)
{
    assert(mode.i < p->mode_count && node.i < p->node_count);
    return remat_contains(p->inputs + p->input_begin[mode.i], remat_problem_input_count(p, mode),
                          node);
}

/* Inputs and aliases; whose storage each value lies in. */
static remat_status check_nodes(struct problem_builder *b)
{
    const struct remat_problem_parts *parts = b->parts;
    for (remat_problem_node v = {0}; v.i < parts->node_count; v.i++) {
        remat_problem_node u = parts->alias ? parts->alias[v.i] : REMAT_NO_PROBLEM_NODE;
        for (uint32_t e = parts->input_begin[v.i]; e < parts->input_begin[v.i + 1]; e++)
            if (parts->inputs[e].i >= v.i)
                return REFUSE(b, v, "input %u is not an earlier node (inputs are numbers below %u)",
                              parts->inputs[e].i, v.i);
        b->storage[v.i] = v;
        if (u.i == UINT32_MAX)
            continue;
        if (u.i >= v.i)
            return REFUSE(b, v, "alias %u is not an earlier node", u.i);
        if (parts->bytes[v.i])
            return REFUSE(b, v, "an alias has no bytes of its own, but these are %llu",
                          (unsigned long long)parts->bytes[v.i]);
        b->storage[v.i] = b->storage[u.i];
        b->is_storage[b->storage[u.i].i] = true;
    }
    return REMAT_OK;
}

static int compare(const void *a, const void *b)
{
    const remat_problem_node *left = a, *right = b;
    return (left->i > right->i) - (left->i < right->i);
}

static void sort(remat_problem_node *items, size_t begin, size_t end)
{
    if (end > begin)
        qsort(items + begin, end - begin, sizeof *items, compare);
}

/* Appends, once each, what a node reads and the storages of that; marks it. */
static void push_reads(struct problem_builder *b, remat_problem_node v)
{
    const struct remat_problem_parts *parts = b->parts;
    for (uint32_t e = parts->input_begin[v.i]; e < parts->input_begin[v.i + 1]; e++) {
        remat_problem_node u = parts->inputs[e], both[] = {u, b->storage[u.i]};
        for (int i = 0; i < 2; i++)
            if (!b->mark[both[i].i]) {
                b->mark[both[i].i] = true;
                REMAT_PUSH(b->arena, &b->inputs, both[i]);
            }
    }
}

static remat_status push_fused(struct problem_builder *b, const struct remat_mode *mode)
{
    size_t first = b->fused.count;
    for (uint32_t i = 0; i < mode->fused_count; i++) {
        remat_problem_node u = mode->fused[i];
        const char *wrong = NULL;
        if (u.i >= mode->node.i)
            wrong = "is not an earlier node";
        else if (b->fusing[u.i])
            wrong = "is listed twice";
        else if (b->is_storage[u.i])
            wrong = "has aliases";
        else if (b->parts->once && b->parts->once[u.i])
            wrong = "may not be recomputed";
        if (wrong)
            return REFUSE(b, mode->node, "fused %u %s", u.i, wrong);
        b->fusing[u.i] = true;
        REMAT_PUSH(b->arena, &b->fused, u);
    }
    sort(b->fused.items, first, b->fused.count);
    return REMAT_OK;
}

/* The inputs of the node and of what is fused, without what is fused. A fused node has a larger
 * number than its inputs, so one pass downwards finds them all. */
static remat_status push_mode(struct problem_builder *b, const struct remat_mode *mode)
{
    size_t first = b->inputs.count, kept = first;
    REMAT_CHECK(push_fused(b, mode));
    push_reads(b, mode->node);
    for (uint32_t i = mode->fused_count; i-- > 0;) {
        remat_problem_node u = b->fused.items[b->fused.count - mode->fused_count + i];
        if (!b->mark[u.i])
            return REFUSE(b, mode->node, "fused %u is read by nothing in the mode", u.i);
        push_reads(b, u);
    }
    for (size_t i = first; i < b->inputs.count; i++) {
        remat_problem_node u = b->inputs.items[i];
        b->mark[u.i] = false;
        if (!b->fusing[u.i])
            b->inputs.items[kept++] = u;
    }
    for (uint32_t i = 0; i < mode->fused_count; i++)
        b->fusing[mode->fused[i].i] = false;
    b->inputs.count = kept;
    sort(b->inputs.items, first, kept);
    if (kept > REMAT_PROBLEM_EDGES_MAX || b->fused.count > REMAT_PROBLEM_EDGES_MAX)
        return REFUSE(b, mode->node, "more than %u inputs up to here", REMAT_PROBLEM_EDGES_MAX);
    return REMAT_OK;
}

/* The modes of each node; what each reads and fuses. */
static remat_status make_modes(struct problem_builder *b)
{
    struct remat_problem *p = b->out;
    const struct remat_mode *given = b->parts->modes;
    remat_problem_node *node_of;
    uint32_t *begin, *fused_begin, *modes;
    bool *fusible;
    REMAT_NEW(b->arena, node_of, p->mode_count);
    REMAT_NEW(b->arena, begin, (size_t)p->mode_count + 1);
    REMAT_NEW(b->arena, fused_begin, (size_t)p->mode_count + 1);
    REMAT_NEW(b->arena, fusible, p->node_count);
    for (remat_mode_id w = {0}; w.i < p->mode_count; w.i++) {
        struct remat_mode mode = {.node = {w.i}};
        if (w.i >= p->node_count)
            mode = given[w.i - p->node_count];
        if (mode.node.i >= p->node_count)
            return remat_error(b->ctx, REMAT_ERROR_INVALID,
                               "mode %u is of node %u, which there is not", w.i - p->node_count,
                               mode.node.i);
        REMAT_CHECK(push_mode(b, &mode));
        node_of[w.i] = mode.node;
        begin[w.i + 1] = (uint32_t)b->inputs.count;
        fused_begin[w.i + 1] = (uint32_t)b->fused.count;
    }
    for (size_t i = 0; i < b->fused.count; i++)
        fusible[b->fused.items[i].i] = true;
    p->node_of = node_of;
    p->mode_begin = remat_group_by_key(b->arena, &node_of->i, p->mode_count, p->node_count, &modes);
    p->modes = (const remat_mode_id *)modes;
    p->edge_count = begin[p->node_count];
    p->input_begin = begin;
    p->inputs = b->inputs.items;
    p->fused_begin = fused_begin;
    p->fused = b->fused.items;
    p->fusible = fusible;
    return REMAT_OK;
}

static void find_users(struct remat_arena *arena, struct remat_problem *p)
{
    uint32_t *reader, *users; /* by edge */
    REMAT_NEW(arena, reader, p->edge_count);
    for (uint32_t v = 0; v < p->node_count; v++)
        for (uint32_t e = p->input_begin[v]; e < p->input_begin[v + 1]; e++)
            reader[e] = v;
    p->user_begin = remat_group_by_key(arena, &p->inputs->i, p->edge_count, p->node_count, &users);
    for (uint32_t i = 0; i < p->edge_count; i++)
        users[i] = reader[users[i]];
    p->users = (const remat_problem_node *)users;
}

static remat_status add_bytes(struct problem_builder *b, remat_problem_node node, uint64_t bytes)
{
    return remat_add_u64(b->bytes, bytes, &b->bytes) && b->bytes <= REMAT_PROBLEM_BYTES_MAX
               ? REMAT_OK
               : refuse(b, node, "bytes add up to more than 2^60");
}

static remat_status add_time(struct problem_builder *b, remat_problem_node node, double time)
{
    if (!isfinite(time) || time < 0)
        return REFUSE(b, node, "time %g is not a finite number from 0 on", time);
    b->time += time;
    return b->time <= 1e300 ? REMAT_OK : refuse(b, node, "times add up to more than 1e300");
}

static remat_status copy_costs(struct problem_builder *b)
{
    const struct remat_problem_parts *parts = b->parts;
    struct remat_problem *p = b->out;
    double *times;
    uint64_t *sizes, *workspace, *lasting;
    bool *once;
    REMAT_NEW(b->arena, times, p->mode_count);
    REMAT_NEW(b->arena, workspace, p->mode_count);
    REMAT_NEW(b->arena, sizes, p->node_count);
    REMAT_NEW(b->arena, lasting, p->node_count);
    REMAT_NEW(b->arena, once, p->node_count);
    REMAT_CHECK(add_bytes(b, (remat_problem_node){0}, parts->static_bytes));
    for (remat_mode_id w = {0}; w.i < p->mode_count; w.i++) {
        const struct remat_mode *mode =
            w.i < p->node_count ? NULL : &parts->modes[w.i - p->node_count];
        remat_problem_node v = p->node_of[w.i];
        uint64_t space = mode ? mode->workspace : parts->workspace ? parts->workspace[v.i] : 0;
        times[w.i] = mode ? mode->time : parts->time[v.i];
        workspace[w.i] = space + parts->static_bytes;
        REMAT_CHECK(add_time(b, v, times[w.i]));
        REMAT_CHECK(add_bytes(b, v, space));
        if (mode)
            continue;
        p->total_time += times[w.i];
        sizes[v.i] = parts->bytes[v.i];
        lasting[v.i] = parts->lasting ? parts->lasting[v.i] : 0;
        once[v.i] = parts->once && parts->once[v.i];
        p->has_lasting |= lasting[v.i] > 0;
        p->has_once |= once[v.i];
        REMAT_CHECK(add_bytes(b, v, sizes[v.i]));
        REMAT_CHECK(add_bytes(b, v, lasting[v.i]));
    }
    p->time = times;
    p->bytes = sizes;
    p->workspace = workspace;
    p->lasting = lasting;
    p->once = once;
    p->static_bytes = parts->static_bytes;
    return REMAT_OK;
}

/* Whole times below 2^50 are kept exactly; others become about 2^44 steps of the total. */
static void make_ticks(struct remat_arena *arena, struct remat_problem *p)
{
    uint64_t *ticks, *least;
    double most = p->total_time;
    bool whole;
    REMAT_NEW(arena, ticks, p->mode_count);
    REMAT_NEW(arena, least, p->node_count);
    for (remat_mode_id w = {p->node_count}; w.i < p->mode_count; w.i++)
        most = p->time[w.i] > most ? p->time[w.i] : most;
    whole = most < 0x1p50;
    for (remat_mode_id w = {0}; w.i < p->mode_count; w.i++)
        whole = whole && p->time[w.i] == floor(p->time[w.i]);
    int exponent = 0;
    frexp(most, &exponent);
    p->tick = whole ? 1 : ldexp(1, exponent - 44 < -1000 ? -1000 : exponent - 44);
    for (remat_mode_id w = {0}; w.i < p->mode_count; w.i++)
        ticks[w.i] = (uint64_t)(p->time[w.i] / p->tick);
    for (remat_problem_node v = {0}; v.i < p->node_count; v.i++) {
        double least_time = p->time[v.i];
        p->total_ticks += ticks[v.i];
        least[v.i] = ticks[v.i];
        for (uint32_t i = p->mode_begin[v.i]; i < p->mode_begin[v.i + 1]; i++) {
            remat_mode_id w = p->modes[i];
            least[v.i] = ticks[w.i] < least[v.i] ? ticks[w.i] : least[v.i];
            least_time = p->time[w.i] < least_time ? p->time[w.i] : least_time;
        }
        p->least_time += least_time;
    }
    p->ticks = ticks;
    p->least_ticks = least;
}

remat_status remat_problem_create(remat_context *ctx, struct remat_arena *arena,
                                  const struct remat_problem_parts *parts,
                                  struct remat_problem *out)
{
    struct problem_builder b = {.ctx = ctx, .arena = arena, .parts = parts, .out = out};
    uint32_t n = parts->node_count;
    *out = (struct remat_problem){.node_count = n};
    if (n == 0)
        return remat_error(ctx, REMAT_ERROR_INVALID, "the problem has no nodes");
    if (n > REMAT_PROBLEM_NODES_MAX || parts->mode_count > REMAT_PROBLEM_NODES_MAX ||
        parts->input_begin[n] > REMAT_PROBLEM_EDGES_MAX)
        return remat_error(ctx, REMAT_ERROR_INVALID,
                           "%u nodes with %u modes and %u inputs are more than %u, %u and %u", n,
                           parts->mode_count, parts->input_begin[n], REMAT_PROBLEM_NODES_MAX,
                           REMAT_PROBLEM_NODES_MAX, REMAT_PROBLEM_EDGES_MAX);
    out->mode_count = n + parts->mode_count;
    REMAT_NEW(arena, b.storage, n);
    REMAT_NEW(arena, b.is_storage, n);
    REMAT_NEW(arena, b.mark, n);
    REMAT_NEW(arena, b.fusing, n);
    REMAT_CHECK(check_nodes(&b));
    REMAT_NEW(arena, b.inputs.items, 0); /* offsets of lists that stay empty are taken, too */
    REMAT_NEW(arena, b.fused.items, 0);
    REMAT_CHECK(make_modes(&b));
    REMAT_CHECK(copy_costs(&b));
    find_users(arena, out);
    make_ticks(arena, out);
    return REMAT_OK;
}
