/* SPDX-License-Identifier: Apache-2.0 */
/* Replays the order once with two clocks, that of computation and that of the stream of overlapped
 * transfers, which all have one link. A group of transfers starts once everything before it is
 * computed and the group before it is complete. A kernel that needs a transfer in flight is
 * deferred, and so is one that needs a deferred kernel. When the clock of computation reaches the
 * end of a group, deferred transfers that are ready start together, then deferred kernels follow in
 * their order. So groups grow while the stream is busy, and no transfer waits for one that is not
 * ready. A transfer that would delay the next blocking one by nearly all its own time is deferred
 * until after that. At the end computation waits. While the stream is busy the clock of computation
 * may be slower.
 *
 *     order         dW2  send2  add2  update2  dX1  dW1  send1  add1  update1
 *     computation   dW2  dX1    dW1   add2  update2  ......  add1  update1
 *     stream               send2........      send1...........
 *
 * There add2 waits for send2, and update2 for add2; dX1 and dW1 do not.
 *
 * What brings a parameter waits for nothing. With a depth of 0 such a group starts when the order
 * comes to the first reader of the group, and at most two groups are in flight. With a depth of d
 * it may start when the order has come to the reader of the d-th group before. Then groups start as
 * long as the stream would be done before the next kernel is; those that bring something first.
 *
 *     order         get1  y1 = f(x)  get2  y2 = g(y1)  get3  y3 = h(y2)
 *     computation         .......... f............ g.............. h...
 *     stream, d = 1       get1...... get2......... get3.......
 */

#include "amounts.h"
#include "clocks.h"
#include "overlap.h"
#include "schedule.h"

#include <assert.h>

enum {
    FLIGHTS_MAX = 2,  /* with a depth of 0: the stream has a next group, few buffers live longer */
    HIDDEN_SHARE = 8, /* a transfer yields if less than this share of it can be hidden */
};

struct unit { /* of the given order: a kernel, after those that fetch its parts of parameters */
    uint32_t begin, end;
    uint32_t passed;     /* transfers that computation waited for before it was deferred */
    remat_value lacking; /* an input found unwritten last time; none: not known */
    bool emitted;
};

struct group { /* of overlapped transfers, at these positions */
    uint32_t begin, end;
    uint64_t left_ns; /* that further transfers may take */
    uint64_t end_ns;
    bool early;    /* of remat_may_start_early */
    bool complete; /* something has needed it */
};

struct runner {
    struct remat_arena *arena;
    const struct remat_graph *graph;
    const struct remat_kernel_list *kernels;
    const struct remat_price *prices;
    uint32_t depth;
    remat_kernel_id *from, *after; /* the order, and groups of gathers that may start early */
    struct remat_overlapped *out;
    bool *overlapped, *early;   /* by kernel */
    uint32_t count;             /* emitted */
    bool *unwritten;            /* by value: written by what is deferred or in flight */
    uint32_t *readers;          /* by value: how many of these read it */
    uint32_t *receives, *sends; /* by value: 1 + the last position whose transfer does it */
    uint32_t *sent_before;      /* by position: as `sends`, before the transfer here */
    struct REMAT_LIST(struct unit) deferred;
    uint32_t emitted_count; /* of these */
    struct REMAT_LIST(struct group) groups;
    uint32_t landed;                  /* groups; those from here on are in flight */
    uint32_t *group_at;               /* by position of a transfer: its group */
    struct REMAT_LIST(uint32_t) gets; /* positions in the given order where early groups begin */
    uint32_t got, wanted;             /* of these: started; that the order has come to */
    uint64_t now_ns, stream_ns;       /* clock of computation; end of the stream's work */
    struct REMAT_LIST(uint64_t) ends; /* of overlapped transfers, in their order */
    uint32_t ended;                   /* of these */
    uint32_t slowdown_permille;       /* of computation until then: all have one link */
    uint32_t passed;                  /* such transfers so far */
    uint64_t *until_awaited_ns;       /* by position of the given order: computation up to the next
                                 transfer that it waits for at once */
    uint32_t at;                      /* position in that order */
};

static const struct remat_kernel_info *kernel_of(const struct runner *r, struct unit unit)
{
    return remat_kernel_at(r->kernels, r->from[unit.end - 1]);
}

static remat_kernel_id kernel_id_of(const struct runner *r, struct unit unit)
{
    return r->from[unit.end - 1];
}

static struct group *last_in_flight(const struct runner *r)
{
    return r->landed < r->groups.count ? &r->groups.items[r->groups.count - 1] : NULL;
}

/* --- dependences --- */

/* Who reads what is brought early waits, and is not deferred. */
static void mark(struct runner *r, remat_kernel_id k, bool pending)
{
    const struct remat_kernel_info *kernel = remat_kernel_at(r->kernels, k);
    for (uint32_t o = 0; o < kernel->operand_count; o++) {
        const struct remat_kernel_operand *operand = &kernel->operands[o];
        if (!(operand->access & REMAT_ACCESS_WRITE))
            r->readers[operand->value.i] += pending ? 1 : UINT32_MAX; /* modulo 2^32 */
        else if (!r->early[k.i])
            r->unwritten[operand->value.i] = pending;
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

static remat_value value_before(const struct remat_kernel_operand *operand)
{
    return operand->access == REMAT_ACCESS_UPDATE ? operand->previous : operand->value;
}

/* An input is unwritten, or a version is still read that the kernel replaces. `deferred`: the
 * kernel's own reads are marked. */
static bool lacks_input(const struct runner *r, struct unit *unit, bool deferred)
{
    const struct remat_kernel_info *kernel = kernel_of(r, *unit);
    if (!remat_is_none(unit->lacking.i) && r->unwritten[unit->lacking.i])
        return true;
    for (uint32_t o = 0; o < kernel->operand_count; o++) {
        const struct remat_kernel_operand *operand = &kernel->operands[o];
        remat_value v = unit->lacking = value_before(operand);
        if (operand->access != REMAT_ACCESS_WRITE && r->unwritten[v.i])
            return true;
        if (operand->access == REMAT_ACCESS_UPDATE &&
            r->readers[v.i] > (deferred ? own_reads(kernel, v) : 0))
            return true;
    }
    unit->lacking = REMAT_NO_VALUE;
    return false;
}

/* --- which transfers may start --- */

/* It joins the group of the transfer before it if that is in flight and no kernel came in between.
 */
static bool joins(const struct runner *r, remat_kernel_id k)
{
    const struct group *last = last_in_flight(r);
    return last && last->end == r->count && !last->early &&
           remat_continued_ns(&r->prices[k.i]) < last->left_ns &&
           remat_go_together(r->graph, remat_kernel_at(r->kernels, r->out->order[r->count - 1]),
                             remat_kernel_at(r->kernels, k));
}

/* No further transfer may start, but for one that joins a group in flight. */
static bool is_full(const struct runner *r)
{
    return !r->depth && r->groups.count - r->landed >= FLIGHTS_MAX;
}

/* The next transfer that computation has to wait for would wait for nearly all of this one. It
 * yields once: a stream that is always busy would defer it to the end. */
static bool yields(const struct runner *r, struct unit unit, bool deferred)
{
    uint64_t ns = r->prices[kernel_id_of(r, unit).i].ns / HIDDEN_SHARE;
    uint64_t start_ns = r->stream_ns < r->now_ns ? r->now_ns : r->stream_ns;
    return remat_ns_add(start_ns, ns) > remat_ns_add(r->now_ns, r->until_awaited_ns[r->at]) &&
           !(deferred && unit.passed < r->passed);
}

/* The kernel reads what is brought early and in flight. */
static bool reads_in_flight(const struct runner *r, const struct remat_kernel_info *kernel)
{
    bool any = false;
    for (uint32_t o = 0; o < kernel->operand_count && !any; o++) {
        uint32_t received = r->receives[value_before(&kernel->operands[o]).i];
        uint32_t group = received ? r->group_at[received - 1] : 0;
        any = received && r->groups.items[group].early && r->landed <= group;
    }
    return any;
}

/* Of the order's own kernels only transfers are deferred until what is brought early is there. */
static bool waits(const struct runner *r, struct unit *unit, bool deferred)
{
    remat_kernel_id k = kernel_id_of(r, *unit);
    bool overlapped = r->overlapped[k.i];
    return (overlapped && is_full(r) && !joins(r, k)) || lacks_input(r, unit, deferred) ||
           ((overlapped || deferred) && reads_in_flight(r, kernel_of(r, *unit))) ||
           (overlapped && yields(r, *unit, deferred));
}

/* --- positions at which transfers are complete --- */

static void set_complete(struct runner *r, uint32_t transfer)
{
    struct group *group = &r->groups.items[r->group_at[transfer]];
    for (uint32_t at = group->begin; at < group->end && !group->complete; at++)
        r->out->complete_before[at] = r->count;
    group->complete = true;
}

/* The transfers whose results the kernel reads, or whose operands it replaces. */
static void complete_for(struct runner *r, const struct remat_kernel_info *kernel)
{
    for (uint32_t o = 0; o < kernel->operand_count; o++) {
        const struct remat_kernel_operand *operand = &kernel->operands[o];
        remat_value v = value_before(operand);
        uint32_t sent = operand->access == REMAT_ACCESS_UPDATE ? r->sends[v.i] : 0;
        if (r->receives[v.i])
            set_complete(r, r->receives[v.i] - 1);
        for (; sent; sent = r->sent_before[sent - 1])
            set_complete(r, sent - 1);
    }
}

/* --- running --- */

static void start_overlapped(struct runner *r, remat_kernel_id k)
{
    const struct remat_price *price = &r->prices[k.i];
    const struct remat_kernel_info *kernel = remat_kernel_at(r->kernels, k);
    remat_value from = kernel->operands[0].value, to = kernel->operands[1].value;
    bool continues = r->early[k.i] ? !remat_is_none(r->after[k.i].i) : joins(r, k);
    uint64_t ns = continues ? remat_continued_ns(price) : price->ns;
    mark(r, k, true);
    r->slowdown_permille = price->slowdown_permille;
    r->stream_ns = remat_ns_add(r->stream_ns < r->now_ns ? r->now_ns : r->stream_ns, ns);
    REMAT_PUSH(r->arena, &r->ends, r->stream_ns);
    if (!continues) {
        bool alone = remat_goes_alone(r->graph, kernel);
        struct group group = {.begin = r->count,
                              .left_ns = ns + (alone ? 0 : remat_group_room_ns(price)),
                              .early = r->early[k.i]};
        REMAT_PUSH(r->arena, &r->groups, group);
    }
    struct group *group = &r->groups.items[r->groups.count - 1];
    group->left_ns -= ns;
    group->end = r->count + 1;
    group->end_ns = r->stream_ns;
    r->out->continues[r->count] = continues;
    r->group_at[r->count] = (uint32_t)r->groups.count - 1;
    r->sent_before[r->count] = r->sends[from.i];
    r->sends[from.i] = r->receives[to.i] = r->count + 1;
}

/* On another link, which is free: computation waits for each of its transfers. */
static void transfer_blocking(struct runner *r, remat_kernel_id k)
{
    const struct remat_price *price = &r->prices[k.i];
    uint32_t begin = r->count;
    bool continues = r->count && r->out->order[r->count - 1].i == r->after[k.i].i;
    r->out->continues[r->count] = continues;
    while (r->out->continues[begin])
        begin--;
    for (uint32_t at = begin; at < r->count; at++)
        r->out->complete_before[at] = r->count + 1;
    r->now_ns = remat_ns_add(r->now_ns, continues ? remat_continued_ns(price) : price->ns);
}

/* Slowed by one transfer after the other. */
static void compute(struct runner *r, uint64_t work_ns)
{
    for (; r->ended < r->ends.count && work_ns; r->ended++) {
        uint64_t end_ns = r->ends.items[r->ended];
        uint64_t busy_ns = end_ns > r->now_ns ? end_ns - r->now_ns : 0;
        uint64_t done_ns = remat_work_ns(busy_ns, r->slowdown_permille);
        if (done_ns >= work_ns)
            break;
        r->now_ns += busy_ns;
        work_ns -= done_ns;
    }
    uint32_t slowdown = r->ended < r->ends.count ? r->slowdown_permille : 0;
    r->now_ns = remat_ns_add(r->now_ns, remat_slowed_ns(work_ns, slowdown));
}

static void emit_kernel(struct runner *r, remat_kernel_id k)
{
    const struct remat_kernel_info *kernel = remat_kernel_at(r->kernels, k);
    r->out->complete_before[r->count] = r->count + 1;
    if (r->overlapped[k.i])
        start_overlapped(r, k);
    else if (remat_kernel_kind_is_transfer(kernel->kind))
        transfer_blocking(r, k);
    else
        compute(r, r->prices[k.i].ns);
    r->out->order[r->count++] = k;
}

static bool starts_group(const struct runner *r, uint32_t at)
{
    return r->early[r->from[at].i] && remat_is_none(r->after[r->from[at].i].i);
}

/* Starts the next group of what may start early. */
static void get_next(struct runner *r)
{
    uint32_t at = r->gets.items[r->got++];
    do
        emit_kernel(r, r->from[at++]);
    while (at < r->kernels->count && r->early[r->from[at].i] && !starts_group(r, at));
}

static void feed(struct runner *r, uint64_t until_ns);
static bool land_next(struct runner *r);

/* `deferred`: it is marked, up to here. */
static void emit(struct runner *r, struct unit unit, bool deferred)
{
    const struct remat_kernel_info *kernel = kernel_of(r, unit);
    while (reads_in_flight(r, kernel))
        land_next(r);
    if (!r->overlapped[kernel_id_of(r, unit).i])
        feed(r, remat_ns_add(r->now_ns, r->prices[kernel_id_of(r, unit).i].ns));
    if (deferred)
        mark(r, kernel_id_of(r, unit), false);
    complete_for(r, kernel);
    for (uint32_t i = unit.begin; i < unit.end; i++)
        emit_kernel(r, r->from[i]);
}

/* --- what was deferred --- */

static void defer(struct runner *r, struct unit unit)
{
    mark(r, kernel_id_of(r, unit), true);
    REMAT_PUSH(r->arena, &r->deferred, unit);
}

static void emit_deferred(struct runner *r, size_t i)
{
    struct unit unit = r->deferred.items[i];
    r->deferred.items[i].emitted = true;
    r->emitted_count++;
    emit(r, unit, true);
}

/* Starts a deferred transfer that is ready, and all that can join it. */
static bool release_group(struct runner *r)
{
    bool any = false;
    for (size_t i = 0; i < r->deferred.count; i++) {
        struct unit *unit = &r->deferred.items[i];
        remat_kernel_id k = kernel_id_of(r, *unit);
        if (unit->emitted || !r->overlapped[k.i] || (any && !joins(r, k)) || waits(r, unit, true))
            continue;
        emit_deferred(r, i);
        any = true;
    }
    return any;
}

/* Emits all deferred kernels that are ready; of transfers only with a depth of 0. */
static void release(struct runner *r)
{
    while (!r->depth && release_group(r))
        ;
    for (size_t i = 0; i < r->deferred.count; i++) {
        struct unit *unit = &r->deferred.items[i];
        bool fed = r->depth && r->overlapped[kernel_id_of(r, *unit).i];
        if (!unit->emitted && !fed && !waits(r, unit, true))
            emit_deferred(r, i);
    }
}

static void forget_emitted(struct runner *r)
{
    size_t kept = 0;
    for (size_t i = 0; i < r->deferred.count; i++)
        if (!r->deferred.items[i].emitted)
            r->deferred.items[kept++] = r->deferred.items[i];
    r->deferred.count = kept;
    r->emitted_count = 0;
}

/* Starts transfers while the stream would be done before `until_ns`. */
static void feed(struct runner *r, uint64_t until_ns)
{
    while (r->depth && r->stream_ns <= until_ns) {
        bool left = r->got < r->gets.count, held = r->got >= r->wanted + r->depth;
        r->out->depth_matters |= left && held;
        if (left && !held)
            get_next(r);
        else if (!release_group(r))
            break;
    }
}

/* Lands the first group in flight; computation waits for it. False: there is none. */
static bool land_next(struct runner *r)
{
    if (r->landed == r->groups.count)
        return false;
    const struct group first = r->groups.items[r->landed++];
    r->now_ns = r->now_ns < first.end_ns ? first.end_ns : r->now_ns;
    for (uint32_t at = first.begin; at < first.end; at++)
        mark(r, r->out->order[at], false);
    release(r);
    return true;
}

/* Lands the groups that the clock of computation has reached. */
static void land(struct runner *r)
{
    while (r->landed < r->groups.count && r->groups.items[r->landed].end_ns <= r->now_ns)
        land_next(r);
}

/* --- the order --- */

/* Computation waits for it at once. */
static bool is_awaited(const struct runner *r, remat_kernel_id k)
{
    return r->early[k.i] && !r->depth;
}

/* REMAT_SEGMENT_NS_MAX: there is no other. */
static void find_next_awaited(struct runner *r)
{
    uint32_t count = r->kernels->count;
    REMAT_NEW(r->arena, r->until_awaited_ns, count + 1);
    r->until_awaited_ns[count] = REMAT_SEGMENT_NS_MAX;
    for (uint32_t at = count; at-- > 0;) {
        uint64_t ns = r->overlapped[r->from[at].i] ? 0 : r->prices[r->from[at].i].ns;
        if (!is_awaited(r, r->from[at]))
            r->until_awaited_ns[at] = remat_ns_add(r->until_awaited_ns[at + 1], ns);
    }
}

static void begin(struct runner *r, const remat_kernel_id *order)
{
    uint32_t count = r->kernels->count, values = r->graph->value_count;
    REMAT_NEW(r->arena, r->out->order, count);
    REMAT_NEW(r->arena, r->out->complete_before, count);
    REMAT_NEW(r->arena, r->out->continues, count);
    REMAT_NEW(r->arena, r->overlapped, count);
    REMAT_NEW(r->arena, r->early, count);
    REMAT_NEW(r->arena, r->group_at, count);
    REMAT_NEW(r->arena, r->sent_before, count);
    REMAT_NEW(r->arena, r->unwritten, values);
    REMAT_NEW(r->arena, r->readers, values);
    REMAT_NEW(r->arena, r->receives, values);
    REMAT_NEW(r->arena, r->sends, values);
    for (remat_kernel_id k = {0}; k.i < count; k.i++) {
        r->overlapped[k.i] = remat_may_overlap(r->graph, remat_kernel_at(r->kernels, k));
        r->early[k.i] = remat_may_start_early(r->graph, remat_kernel_at(r->kernels, k));
    }
    r->from = remat_group_gathers(r->arena, r->graph, r->kernels, r->prices, order, &r->after);
    for (uint32_t at = 0; at < count; at++)
        if (starts_group(r, at))
            REMAT_PUSH(r->arena, &r->gets, at);
    find_next_awaited(r);
}

/* The order has come to a group that may start early: all up to it are started. */
static void want(struct runner *r)
{
    r->wanted++;
    while (r->got < r->wanted)
        get_next(r);
}

static void run_unit(struct runner *r, struct unit unit)
{
    remat_kernel_id k = kernel_id_of(r, unit);
    r->at = unit.end;
    unit.passed = r->passed;
    if (r->early[k.i]) {
        if (starts_group(r, unit.begin))
            want(r);
    } else if ((r->depth && r->overlapped[k.i]) || waits(r, &unit, false)) {
        defer(r, unit);
    } else {
        emit(r, unit, false);
        land(r);
    }
    if (is_awaited(r, k)) {
        r->passed++;
        release(r);
    }
    if (r->emitted_count > 0)
        forget_emitted(r);
}

struct remat_overlapped remat_overlap_transfers(struct remat_arena *arena,
                                                const struct remat_graph *graph,
                                                const struct remat_kernel_list *kernels,
                                                const struct remat_price *prices,
                                                const remat_kernel_id *order, uint32_t depth)
{
    assert(prices && order);
    struct remat_overlapped out = {.depth_matters = !depth};
    struct runner r = {.arena = arena,
                       .graph = graph,
                       .kernels = kernels,
                       .prices = prices,
                       .depth = depth,
                       .out = &out};
    begin(&r, order);
    for (struct unit unit = {.lacking = REMAT_NO_VALUE}; unit.end < kernels->count;
         unit.begin = unit.end) {
        while (remat_turn_of(remat_kernel_at(kernels, r.from[unit.end++])) ==
                   REMAT_TURN_BEFORE_READER &&
               unit.end < kernels->count)
            ;
        run_unit(&r, unit);
    }
    do
        feed(&r, UINT64_MAX);
    while (land_next(&r));
    forget_emitted(&r);
    assert(r.deferred.count == 0 && r.count == kernels->count);
    for (size_t i = 0; i < r.groups.count; i++)
        if (!r.groups.items[i].complete)
            set_complete(&r, r.groups.items[i].begin);
    out.ns = r.now_ns;
    return out;
}
