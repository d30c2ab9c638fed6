/* SPDX-License-Identifier: Apache-2.0 */
/* Dynamic programming over segments (a, b]: with the value of forward node a live, run the backward
 * groups b .. a + 1, where group i are the backward nodes whose last forward input is i. A segment
 * is split at j: advance from a to j without keeping anything on the way, do (j, b], then (a, j].
 * Four kinds, by whether b is live already (`top`) and whether a has to stay live (`base`). Its
 * times at all budgets are a list of points, so bytes are exact, whatever their common divisor.
 * After Griewank (1992) and Beaumont et al., "Optimal checkpointing for heterogeneous chains". */
#include "solvers.h"

enum { FORWARD_MAX = 320, POINTS_MIN = 16, POINTS_MAX = 2048, POLL = 1 << 16 };
#define WORK_MAX UINT64_C(100000000) /* points merged for one table: some tenths of a second */
#define NONE     UINT64_MAX

/* How a segment (a, b] begins. */
struct step {
    uint16_t end; /* the nodes a .. end - 1 run. Then, with end in (a, b], comes (end, b], and then
                     (a, end - 1]; else group b, and then (a, b - 1] */
    bool keep;    /* value end - 1 stays for its own group */
};
struct point {
    uint64_t bytes, ticks;
    struct step step;
};
struct chain_front { /* bytes ascend, ticks descend */
    struct point *items;
    uint32_t count;
};

struct remat_chain {
    const struct remat_problem *problem;
    struct remat_arena *arena;
    struct remat_deadline *deadline;
    uint64_t budget_max;
    uint64_t work, polled; /* points merged, in all and when the deadline was asked */
    bool thinned;          /* some list is not complete */
    bool over;             /* too much work or time: the table stays unfinished */
    uint32_t count;        /* of forward nodes */
    uint32_t points_max;
    uint32_t *group_begin;           /* by group: of `group` */
    const remat_problem_node *group; /* backward nodes, group by group */
    bool *reads_before;              /* by group: it reads the value before its own */
    uint64_t *backward_bytes;        /* backward bytes live before a group runs */
    uint64_t *around;                /* backward bytes and workspace during a run, by node */
    struct chain_front *segments;    /* by times_of */
    struct chain_front best, merged, combined; /* while computing; room for all */
};

/* Segments begin after a - 1: index 0 stands for the begin of the chain. */
struct segment {
    uint32_t a, b;
    bool top, base;
};

static struct chain_front *times_of(const struct remat_chain *c, struct segment s)
{
    return &c->segments[((size_t)s.a * c->count + s.b) * 4 + s.top * 2 + s.base];
}

static uint64_t base_bytes(const struct remat_chain *c, uint32_t a)
{
    return a ? c->problem->bytes[a - 1] : 0;
}

static bool reads(const struct remat_chain *c, remat_problem_node backward, uint32_t forward)
{
    return remat_problem_reads(c->problem, remat_given_mode(backward),
                               (remat_problem_node){forward});
}

/* Bytes while group b runs, its own forward value live, without the one before it when `alone`. */
static uint64_t group_peak(const struct remat_chain *c, uint32_t b, bool base, bool alone)
{
    const struct remat_problem *p = c->problem;
    uint64_t peak = 0, before = base && !alone ? base_bytes(c, b) : 0, own = 0;
    for (uint32_t i = c->group_begin[b + 1]; i-- > c->group_begin[b];) {
        remat_problem_node v = c->group[i];
        if (reads(c, v, b))
            own = p->bytes[b];
        if (!alone && b > 0 && reads(c, v, b - 1))
            before = p->bytes[b - 1];
        if (c->around[v.i] + own + before > peak)
            peak = c->around[v.i] + own + before;
    }
    return peak;
}

/* --- lists of points --- */

/* The fastest point within the bytes; NULL when there is none. */
static const struct point *point_at(const struct chain_front *f, uint64_t bytes)
{
    uint32_t low = 0, high = f->count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (f->items[middle].bytes <= bytes)
            low = middle + 1;
        else
            high = middle;
    }
    return low ? &f->items[low - 1] : NULL;
}

static void append(struct chain_front *f, struct point point)
{
    if (f->count == 0 || point.ticks < f->items[f->count - 1].ticks)
        f->items[f->count++] = point;
}

/* Makes `best` the lower envelope of itself and `other`. */
static void take_better(struct remat_chain *c, const struct chain_front *other)
{
    struct chain_front *a = &c->best, *out = &c->merged;
    uint32_t i = 0, j = 0;
    out->count = 0;
    while (i < a->count || j < other->count) {
        bool first =
            j == other->count || (i < a->count && a->items[i].bytes <= other->items[j].bytes);
        struct point next = first ? a->items[i++] : other->items[j++];
        if (out->count && out->items[out->count - 1].bytes == next.bytes &&
            next.ticks < out->items[out->count - 1].ticks)
            out->count--;
        append(out, next);
    }
    c->work += (uint64_t)a->count + other->count + 1;
    struct chain_front swap = *a;
    *a = *out;
    *out = swap;
}

/* First `right` beside `extra` bytes, then `left`; at least `bytes` and `ticks` in any case. */
static void take_pair(struct remat_chain *c, struct step step, const struct chain_front *right,
                      uint64_t extra, const struct chain_front *left, uint64_t bytes,
                      uint64_t ticks)
{
    uint32_t r = 0, l = 0;
    if (right->count == 0 || left->count == 0)
        return;
    if (right->items[0].bytes + extra > bytes)
        bytes = right->items[0].bytes + extra;
    if (left->items[0].bytes > bytes)
        bytes = left->items[0].bytes;
    c->combined.count = 0;
    while (bytes <= c->budget_max) {
        while (r + 1 < right->count && right->items[r + 1].bytes + extra <= bytes)
            r++;
        while (l + 1 < left->count && left->items[l + 1].bytes <= bytes)
            l++;
        uint64_t all = ticks + right->items[r].ticks + left->items[l].ticks;
        append(&c->combined, (struct point){bytes, all, step});
        uint64_t next = NONE;
        if (r + 1 < right->count)
            next = right->items[r + 1].bytes + extra;
        if (l + 1 < left->count && left->items[l + 1].bytes < next)
            next = left->items[l + 1].bytes;
        if (next == NONE)
            break;
        bytes = next;
    }
    take_better(c, &c->combined);
}

/* Long lists are thinned: of points that are close in time the one in least bytes stays. */
static void store(struct remat_chain *c, struct chain_front *out)
{
    const struct chain_front *f = &c->best;
    uint64_t step = 0;
    c->thinned |= f->count > c->points_max;
    if (f->count > c->points_max)
        step = (f->items[0].ticks - f->items[f->count - 1].ticks) / (c->points_max - 2) + 1;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < f->count; i++)
        if (i == 0 || i + 1 == f->count || f->items[kept - 1].ticks - f->items[i].ticks >= step)
            f->items[kept++] = f->items[i];
    *out = (struct chain_front){remat_copy(c->arena, f->items, kept, sizeof *f->items), kept};
}

/* --- segments --- */

static bool is_over(struct remat_chain *c)
{
    if (c->work >= c->polled + POLL) {
        c->over |= remat_deadline_count(c->deadline, c->work - c->polled) || c->work > WORK_MAX;
        c->polled = c->work;
    }
    return c->over;
}

static void take_splits(struct remat_chain *c, struct segment s)
{
    const struct remat_problem *p = c->problem;
    uint64_t extra = base_bytes(c, s.a), ticks = 0, peak = 0;
    uint64_t beside = extra + c->backward_bytes[s.b] + (s.top ? p->bytes[s.b] : 0);
    for (uint32_t j = s.a; j < s.b && !is_over(c); j++) {
        uint64_t run = p->bytes[j] + p->workspace[j] + (j > s.a ? p->bytes[j - 1] : 0);
        peak = run > peak ? run : peak;
        ticks += p->ticks[j];
        if (peak + beside > c->budget_max)
            return;
        for (int keep = 0; keep < 2; keep++)
            take_pair(c, (struct step){(uint16_t)(j + 1), keep},
                      times_of(c, (struct segment){j + 1, s.b, s.top, keep}), extra,
                      times_of(c, (struct segment){s.a, j, keep, s.base}), peak + beside, ticks);
    }
}

/* Everything that the segment can begin with goes into `best`. */
static void take_steps(struct remat_chain *c, struct segment s)
{
    const struct remat_problem *p = c->problem;
    const struct chain_front nothing = {&(struct point){0}, 1};
    const struct chain_front *rest =
        s.b == s.a ? &nothing : times_of(c, (struct segment){s.a, s.b - 1, false, s.base});
    const struct step direct = {.end = (uint16_t)s.a};
    if (c->group_begin[s.b] == c->group_begin[s.b + 1] && s.b + 1 < c->count) { /* no group */
        take_pair(c, direct, &nothing, 0, rest, 0, 0);
        return;
    }
    if (s.b == s.a) {
        uint64_t run =
            base_bytes(c, s.a) + p->bytes[s.b] + p->workspace[s.b] + c->backward_bytes[s.b];
        uint64_t peak = group_peak(c, s.b, s.base, false);
        const struct step forward = {.end = (uint16_t)(s.b + 1)};
        if (!s.top && run > peak)
            peak = run;
        take_pair(c, s.top ? direct : forward, &nothing, 0, &nothing, peak,
                  s.top ? 0 : p->ticks[s.b]);
        return;
    }
    if (s.top && !c->reads_before[s.b])
        take_pair(c, direct, &nothing, 0, rest,
                  base_bytes(c, s.a) + group_peak(c, s.b, false, true), 0);
    take_splits(c, s);
}

/* `over` if it is not finished. */
static void make_table(struct remat_chain *c, uint64_t points_max)
{
    c->points_max = (uint32_t)(points_max < POINTS_MAX ? points_max : POINTS_MAX);
    c->work = c->polled = 0;
    c->thinned = c->over = false;
    uint32_t room = (2 * c->points_max + 4) * (2 * c->count + 4);
    REMAT_NEW(c->arena, c->segments, (size_t)c->count * c->count * 4);
    REMAT_NEW(c->arena, c->best.items, room);
    REMAT_NEW(c->arena, c->merged.items, room);
    REMAT_NEW(c->arena, c->combined.items, room);
    for (uint32_t length = 0; length < c->count && !c->over; length++)
        for (uint32_t a = 0; a + length < c->count; a++)
            for (int kind = 0; kind < 4; kind++) {
                struct segment s = {a, a + length, kind >> 1, kind & 1};
                c->best.count = 0;
                take_steps(c, s);
                store(c, times_of(c, s));
            }
}

/* --- plans --- */

static void emit(const struct remat_chain *c, struct remat_arena *arena, struct segment s,
                 uint64_t bytes, struct remat_sequence *out)
{
    const struct point *point = point_at(times_of(c, s), bytes);
    const struct step step = point->step;
    bytes = point->bytes; /* what it was made from, were lists thinned or not */
    for (uint32_t i = s.a; i < step.end; i++)
        REMAT_PUSH(arena, out, (remat_mode_id){i});
    if (step.end > s.a && step.end <= s.b) {
        emit(c, arena, (struct segment){step.end, s.b, s.top, step.keep},
             bytes - base_bytes(c, s.a), out);
        emit(c, arena, (struct segment){s.a, step.end - 1u, step.keep, s.base}, bytes, out);
        return;
    }
    for (uint32_t i = c->group_begin[s.b]; i < c->group_begin[s.b + 1]; i++)
        REMAT_PUSH(arena, out, remat_given_mode(c->group[i]));
    if (s.b > s.a)
        emit(c, arena, (struct segment){s.a, s.b - 1, false, s.base}, bytes, out);
}

struct remat_sequence remat_chain_plan(struct remat_arena *arena, const struct remat_chain *chain,
                                       uint64_t budget)
{
    const struct segment whole = {0, chain->count - 1, false, false};
    struct remat_sequence out = {0};
    if (point_at(times_of(chain, whole), budget))
        emit(chain, arena, whole, budget, &out);
    return out;
}

/* --- recognition --- */

/* Assigns backward nodes to groups, as if the first `forward` nodes were the forward ones: by the
 * last of these that they read, besides which they may read the one before it. */
static bool divide(struct remat_chain *c, uint32_t forward, uint32_t *group_of)
{
    const struct remat_problem *p = c->problem;
    uint32_t group = forward - 1;
    c->work += p->node_count / 16;
    for (remat_problem_node v = {forward}; v.i < p->node_count; v.i++) {
        const remat_problem_node *inputs = &p->inputs[p->input_begin[v.i]];
        size_t count = remat_problem_input_count(p, remat_given_mode(v));
        size_t read = remat_count_below(&inputs->i, count, forward);
        c->work += 1 + count;
        if (read && (inputs[read - 1].i > group || inputs[read - 1].i - inputs[0].i > 1))
            return false;
        group = read ? inputs[read - 1].i : group;
        group_of[v.i] = group;
    }
    return true;
}

static void weigh_backward(struct remat_chain *c)
{
    const struct remat_problem *p = c->problem;
    uint64_t live = 0;
    for (uint32_t b = c->count; b-- > 0;) {
        c->backward_bytes[b] = live;
        for (uint32_t i = c->group_begin[b]; i < c->group_begin[b + 1]; i++) {
            remat_problem_node v = c->group[i];
            c->reads_before[b] |= b > 0 && reads(c, v, b - 1);
            live += p->bytes[v.i] + p->lasting[v.i];
            c->around[v.i] = live + p->workspace[v.i];
            if (p->user_begin[v.i] == p->user_begin[v.i + 1])
                live -= p->bytes[v.i];
            for (uint32_t e = p->input_begin[v.i]; e < p->input_begin[v.i + 1]; e++) {
                remat_problem_node u = p->inputs[e];
                if (u.i >= c->count && p->users[p->user_begin[u.i + 1] - 1].i == v.i)
                    live -= p->bytes[u.i];
            }
        }
    }
}

struct remat_chain *remat_chain_find(struct remat_arena *arena, const struct remat_problem *p,
                                     uint64_t budget_max, struct remat_deadline *deadline)
{
    struct remat_chain *c, *fine;
    uint32_t forward = 1, *group_of, *grouped; /* group_of: by node */
    if (p->mode_count > p->node_count)
        return NULL;
    while (forward < p->node_count && !p->once[forward - 1] && p->lasting[forward - 1] == 0 &&
           p->input_begin[forward + 1] - p->input_begin[forward] == 1 &&
           p->inputs[p->input_begin[forward]].i == forward - 1)
        forward++;
    if (forward == p->node_count)
        return NULL;
    REMAT_NEW(arena, c, 1);
    *c = (struct remat_chain){
        .problem = p, .arena = arena, .budget_max = budget_max, .deadline = deadline};
    REMAT_NEW(arena, group_of, p->node_count);
    while (forward > 2 && !is_over(c) && !divide(c, forward, group_of))
        forward--;
    if (forward <= 2 || forward > FORWARD_MAX || is_over(c) || remat_deadline_expired(deadline))
        return NULL;
    c->count = forward;
    c->group_begin =
        remat_group_by_key(arena, group_of + forward, p->node_count - forward, forward, &grouped);
    for (uint32_t i = 0; i < p->node_count - forward; i++)
        grouped[i] += forward;
    c->group = (const remat_problem_node *)grouped;
    REMAT_NEW(arena, c->backward_bytes, c->count);
    REMAT_NEW(arena, c->around, p->node_count);
    REMAT_NEW(arena, c->reads_before, c->count);
    weigh_backward(c);
    /* A coarse table first, then as fine a one as the work allows. */
    make_table(c, POINTS_MIN);
    if (c->over)
        return NULL;
    if (!c->thinned)
        return c;
    REMAT_NEW(arena, fine, 1);
    *fine = *c;
    make_table(fine, POINTS_MIN * (WORK_MAX / (c->work + 1)));
    return fine->over ? c : fine;
}
