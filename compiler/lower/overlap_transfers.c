/* SPDX-License-Identifier: Apache-2.0 */
/* Replays the order once with two clocks, that of computation and that of the transfers' stream. A
 * group of transfers starts once everything before it is computed and the group before it is
 * complete. A kernel that needs a transfer in flight is deferred, and so is one that needs a
 * deferred kernel. When the clock of computation reaches the end of a group, deferred transfers
 * that are ready start together, then deferred kernels follow in their order. So groups grow while
 * the stream is busy, and no transfer waits for one that is not ready. A transfer that would delay
 * the next blocking one by nearly all its own time is deferred until after that. At the end
 * computation waits. While the stream is busy the clock of computation may be slower.
 *
 *     order         dW2  send2  add2  update2  dX1  dW1  send1  add1  update1
 *     computation   dW2  dX1    dW1   add2  update2  ......  add1  update1
 *     stream               send2........      send1...........
 *
 * There add2 waits for send2, and update2 for add2; dX1 and dW1 do not. */

#include "amounts.h"
#include "clocks.h"
#include "overlap.h"
#include "schedule.h"

#include <assert.h>

enum {
    FLIGHTS_MAX = 2,  /* the stream always has a next group, and few buffers live longer */
    HIDDEN_SHARE = 8, /* a transfer yields if less than this share of it can be hidden */
};

struct unit { /* of the given order: a kernel, after those that fetch its parts of parameters */
    uint32_t begin, end;
    uint32_t passed;     /* blocking transfers before it was deferred */
    remat_value lacking; /* an input found unwritten last time; none: not known */
};

struct group { /* of overlapped transfers, at these positions */
    uint32_t begin, end;
    uint64_t left_ns; /* that further transfers may take */
    uint64_t end_ns;
};

struct runner {
    struct remat_arena *arena;
    const struct remat_graph *graph;
    const struct remat_kernel_list *kernels;
    const struct remat_price *prices;
    remat_kernel_id *from, *after; /* the order, and groups of blocking transfers */
    struct remat_overlapped *out;
    bool *overlapped;  /* by kernel: it may be overlapped */
    uint32_t count;    /* emitted */
    bool *unwritten;   /* by value: written by what is deferred or in flight */
    uint32_t *readers; /* by value: how many of these read it */
    struct REMAT_LIST(struct unit) deferred;
    struct REMAT_LIST(struct group) open; /* that nothing has needed yet */
    uint32_t flight_count;                /* the last ones of `open`, in flight */
    uint64_t now_ns, stream_ns;           /* clock of computation; end of the stream's work */
    uint32_t slowdown_permille;           /* of computation until then: all have one link */
    uint32_t passed;                      /* blocking transfers so far */
    uint64_t *until_blocking_ns; /* by position of the given order: computation up to the next
                           blocking transfer */
    uint32_t at;                 /* position in that order */
};

static const struct remat_kernel_info *kernel_of(const struct runner *r, struct unit unit)
{
    return remat_kernel_at(r->kernels, r->from[unit.end - 1]);
}

static const struct remat_kernel_info *kernel_at(const struct runner *r, uint32_t position)
{
    return remat_kernel_at(r->kernels, r->out->order[position]);
}

static struct group *first_flight(const struct runner *r)
{
    return &r->open.items[r->open.count - r->flight_count];
}

/* An overlapped transfer joins the group of the one before it if that is in flight and no kernel
 * came in between. */
static bool joins(const struct runner *r, remat_kernel_id k)
{
    const struct group *last = r->flight_count ? &r->open.items[r->open.count - 1] : NULL;
    return last && last->end == r->count && remat_continued_ns(&r->prices[k.i]) < last->left_ns &&
           remat_go_together(r->graph, kernel_at(r, r->count - 1), remat_kernel_at(r->kernels, k));
}

/* No further transfer may start, nor join a group in flight. */
static bool is_full(const struct runner *r)
{
    if (r->flight_count < FLIGHTS_MAX)
        return false;
    const struct group *last = &r->open.items[r->open.count - 1];
    return last->end != r->count || last->left_ns == 0;
}

/* --- dependences --- */

static void mark(struct runner *r, const struct remat_kernel_info *kernel, bool pending)
{
    for (uint32_t o = 0; o < kernel->operand_count; o++) {
        const struct remat_kernel_operand *operand = &kernel->operands[o];
        if (operand->access & REMAT_ACCESS_WRITE)
            r->unwritten[operand->value.i] = pending;
        else
            r->readers[operand->value.i] += pending ? 1 : UINT32_MAX; /* modulo 2^32 */
    }
}

static uint32_t own_reads(const struct remat_kernel_info *kernel, remat_value value)
{
    uint32_t count = 0;
    for (uint32_t o = 0; o < kernel->operand_count; o++)
        count += kernel->operands[o].access == REMAT_ACCESS_READ &&
                 kernel->operands[o].value.i == value.i;
    return count;
}

/* The next blocking transfer would wait for nearly all of this one. It yields once: a stream that
 * is always busy would defer it to the end. */
static bool yields(const struct runner *r, struct unit unit, bool deferred)
{
    uint64_t ns = r->prices[r->from[unit.end - 1].i].ns / HIDDEN_SHARE;
    uint64_t start_ns = r->stream_ns < r->now_ns ? r->now_ns : r->stream_ns;
    return remat_ns_add(start_ns, ns) > remat_ns_add(r->now_ns, r->until_blocking_ns[r->at]) &&
           !(deferred && unit.passed < r->passed);
}

/* `deferred`: the kernel's own reads are marked. */
static bool waits(const struct runner *r, struct unit *unit, bool deferred)
{
    const struct remat_kernel_info *kernel = kernel_of(r, *unit);
    remat_kernel_id k = r->from[unit->end - 1];
    if ((r->overlapped[k.i] && is_full(r)) ||
        (!remat_is_none(unit->lacking.i) && r->unwritten[unit->lacking.i]) ||
        (r->overlapped[k.i] && r->flight_count == FLIGHTS_MAX && !joins(r, k)))
        return true;
    for (uint32_t o = 0; o < kernel->operand_count; o++) {
        const struct remat_kernel_operand *operand = &kernel->operands[o];
        remat_value v = operand->access == REMAT_ACCESS_UPDATE ? operand->previous : operand->value;
        unit->lacking = v;
        if (operand->access != REMAT_ACCESS_WRITE && r->unwritten[v.i])
            return true;
        if (operand->access == REMAT_ACCESS_UPDATE &&
            r->readers[v.i] > (deferred ? own_reads(kernel, v) : 0))
            return true;
    }
    unit->lacking = REMAT_NO_VALUE;
    return r->overlapped[k.i] && yields(r, *unit, deferred);
}

/* The kernel reads the transfer's result, or replaces its operand. */
static bool needs(const struct remat_kernel_info *kernel, const struct remat_kernel_info *transfer)
{
    remat_value from = transfer->operands[0].value, to = transfer->operands[1].value;
    for (uint32_t o = 0; o < kernel->operand_count; o++) {
        const struct remat_kernel_operand *operand = &kernel->operands[o];
        bool update = operand->access == REMAT_ACCESS_UPDATE;
        if ((update ? operand->previous.i : operand->value.i) == to.i ||
            (update && operand->previous.i == from.i))
            return true;
    }
    return false;
}

/* --- running --- */

static void set_complete(struct runner *r, uint32_t begin, uint32_t end, uint32_t before)
{
    for (uint32_t position = begin; position < end; position++)
        r->out->complete_before[position] = before;
}

static bool needs_any(const struct runner *r, const struct remat_kernel_info *kernel,
                      const struct group *group)
{
    bool any = false;
    for (uint32_t position = group->begin; position < group->end; position++)
        any |= needs(kernel, kernel_at(r, position));
    return any;
}

static void complete_for(struct runner *r, const struct remat_kernel_info *kernel)
{
    size_t kept = 0;
    for (size_t i = 0; i < r->open.count; i++) {
        struct group group = r->open.items[i];
        if (needs_any(r, kernel, &group))
            set_complete(r, group.begin, group.end, r->count);
        else
            r->open.items[kept++] = group;
    }
    r->open.count = kept;
}

static void start_overlapped(struct runner *r, remat_kernel_id k)
{
    const struct remat_price *price = &r->prices[k.i];
    bool continues = r->out->continues[r->count] = joins(r, k);
    uint64_t ns = continues ? remat_continued_ns(price) : price->ns;
    mark(r, remat_kernel_at(r->kernels, k), true);
    r->slowdown_permille = price->slowdown_permille;
    r->stream_ns = remat_ns_add(r->stream_ns, ns);
    if (!continues) {
        bool alone = remat_goes_alone(r->graph, remat_kernel_at(r->kernels, k));
        struct group group = {.begin = r->count,
                              .left_ns = ns + (alone ? 0 : remat_group_room_ns(price))};
        REMAT_PUSH(r->arena, &r->open, group);
        r->flight_count++;
    }
    struct group *group = &r->open.items[r->open.count - 1];
    group->left_ns -= ns;
    group->end = r->count + 1;
    group->end_ns = r->stream_ns;
}

/* A blocking transfer waits for its turn on the stream, too. */
static void transfer_blocking(struct runner *r, remat_kernel_id k)
{
    const struct remat_price *price = &r->prices[k.i];
    uint32_t begin = r->count;
    bool continues = r->count && r->out->order[r->count - 1].i == r->after[k.i].i;
    r->out->continues[r->count] = continues;
    while (r->out->continues[begin])
        begin--;
    set_complete(r, begin, r->count, r->count + 1);
    r->now_ns = r->stream_ns =
        remat_ns_add(r->stream_ns, continues ? remat_continued_ns(price) : price->ns);
}

static void compute(struct runner *r, uint64_t work_ns)
{
    uint64_t busy_ns = r->stream_ns > r->now_ns ? r->stream_ns - r->now_ns : 0;
    uint64_t done_ns = remat_work_ns(busy_ns, r->slowdown_permille);
    uint64_t ns = done_ns < work_ns ? busy_ns + work_ns - done_ns
                                    : remat_slowed_ns(work_ns, r->slowdown_permille);
    r->now_ns = remat_ns_add(r->now_ns, ns);
}

static void emit_kernel(struct runner *r, remat_kernel_id k)
{
    const struct remat_kernel_info *kernel = remat_kernel_at(r->kernels, k);
    r->out->complete_before[r->count] = r->count + 1;
    if (!remat_kernel_kind_is_transfer(kernel->kind)) {
        compute(r, r->prices[k.i].ns);
    } else {
        r->stream_ns = r->stream_ns < r->now_ns ? r->now_ns : r->stream_ns;
        (r->overlapped[k.i] ? start_overlapped : transfer_blocking)(r, k);
    }
    r->out->order[r->count++] = k;
}

static void emit(struct runner *r, struct unit unit)
{
    complete_for(r, kernel_of(r, unit));
    for (uint32_t i = unit.begin; i < unit.end; i++)
        emit_kernel(r, r->from[i]);
}

/* Starts a deferred transfer that is ready, and all that can join it. */
static bool release_group(struct runner *r)
{
    size_t kept = 0;
    bool any = false;
    if (is_full(r))
        return false;
    for (size_t i = 0; i < r->deferred.count; i++) {
        struct unit unit = r->deferred.items[i];
        remat_kernel_id k = r->from[unit.end - 1];
        if (!r->overlapped[k.i] || waits(r, &unit, true) || (any && !joins(r, k))) {
            r->deferred.items[kept++] = unit;
            continue;
        }
        mark(r, kernel_of(r, unit), false);
        emit(r, unit);
        any = true;
    }
    r->deferred.count = kept;
    return any;
}

static void release(struct runner *r)
{
    size_t kept = 0;
    while (release_group(r))
        ;
    for (size_t i = 0; i < r->deferred.count; i++) {
        struct unit unit = r->deferred.items[i];
        if (waits(r, &unit, true)) {
            r->deferred.items[kept++] = unit;
            continue;
        }
        mark(r, kernel_of(r, unit), false);
        emit(r, unit);
    }
    r->deferred.count = kept;
}

/* Completes the transfers that the clock of computation has reached; `to_end`: all. */
static void complete_flights(struct runner *r, bool to_end)
{
    while (r->flight_count > 0 && (to_end || first_flight(r)->end_ns <= r->now_ns)) {
        const struct group *first = first_flight(r);
        r->flight_count--;
        r->now_ns = r->now_ns < first->end_ns ? first->end_ns : r->now_ns;
        for (uint32_t position = first->begin; position < first->end; position++)
            mark(r, kernel_at(r, position), false);
        release(r);
    }
}

static bool is_blocking(const struct runner *r, remat_kernel_id k)
{
    return remat_kernel_kind_is_transfer(r->kernels->kernels[k.i].kind) && !r->overlapped[k.i];
}

/* REMAT_SEGMENT_NS_MAX: there is no other. */
static void find_next_blocking(struct runner *r)
{
    uint32_t count = r->kernels->count;
    REMAT_NEW(r->arena, r->until_blocking_ns, count + 1);
    r->until_blocking_ns[count] = REMAT_SEGMENT_NS_MAX;
    for (uint32_t at = count; at-- > 0;) {
        const struct remat_kernel_info *kernel = remat_kernel_at(r->kernels, r->from[at]);
        bool transfer = remat_kernel_kind_is_transfer(kernel->kind);
        uint64_t ns = transfer ? 0 : r->prices[r->from[at].i].ns;
        if (!is_blocking(r, r->from[at]))
            r->until_blocking_ns[at] = remat_ns_add(r->until_blocking_ns[at + 1], ns);
    }
}

struct remat_overlapped remat_overlap_transfers(struct remat_arena *arena,
                                                const struct remat_graph *graph,
                                                const struct remat_kernel_list *kernels,
                                                const struct remat_price *prices,
                                                const remat_kernel_id *order)
{
    assert(prices && order);
    struct remat_overlapped out = {0};
    struct runner r = {
        .arena = arena, .graph = graph, .kernels = kernels, .prices = prices, .out = &out};
    REMAT_NEW(arena, out.order, kernels->count);
    REMAT_NEW(arena, out.complete_before, kernels->count);
    REMAT_NEW(arena, out.continues, kernels->count);
    REMAT_NEW(arena, r.overlapped, kernels->count);
    REMAT_NEW(arena, r.unwritten, graph->value_count);
    REMAT_NEW(arena, r.readers, graph->value_count);
    for (remat_kernel_id k = {0}; k.i < kernels->count; k.i++)
        r.overlapped[k.i] = remat_may_overlap(graph, remat_kernel_at(kernels, k));
    r.from = remat_group_gathers(arena, graph, kernels, prices, order, &r.after);
    find_next_blocking(&r);
    for (struct unit unit = {0}; unit.end < kernels->count; unit.begin = unit.end) {
        while (remat_turn_of(remat_kernel_at(kernels, r.from[unit.end++])) ==
                   REMAT_TURN_BEFORE_READER &&
               unit.end < kernels->count)
            ;
        r.at = unit.end;
        unit.passed = r.passed;
        unit.lacking = REMAT_NO_VALUE;
        if (waits(&r, &unit, false)) {
            mark(&r, kernel_of(&r, unit), true);
            REMAT_PUSH(arena, &r.deferred, unit);
        } else {
            emit(&r, unit);
            complete_flights(&r, false);
        }
        if (is_blocking(&r, r.from[unit.end - 1])) {
            r.passed++;
            release(&r);
        }
    }
    complete_flights(&r, true);
    assert(r.deferred.count == 0 && r.count == kernels->count);
    for (size_t i = 0; i < r.open.count; i++)
        set_complete(&r, r.open.items[i].begin, r.open.items[i].end, r.count);
    out.ns = r.now_ns;
    return out;
}
