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
#include "transfers.h"

#include <assert.h>

enum {
    FLIGHTS_MAX = 2,  /* with a depth of 0: the stream has a next group, few buffers live longer */
    HIDDEN_SHARE = 8, /* a transfer yields if less than this share of it can be hidden */
};

struct unit { /* of the given order */
    uint32_t begin, end;
    remat_kernel_id kernel; /* the last one */
    uint32_t passed;        /* transfers that computation waited for before it was deferred */
    uint32_t lacking;       /* the number of an input found unwritten last time; 0: not known */
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
    const struct remat_transfers *given;
    uint32_t depth;
    struct remat_overlapped *out;
    uint32_t count;             /* emitted */
    bool *unwritten;            /* by number of a value: written by what is deferred or in flight */
    uint32_t *readers;          /* by number: how many of these read it */
    uint32_t *receives, *sends; /* by number: 1 + the last position whose transfer does it */
    uint32_t *sent_before;      /* by position: as `sends`, before the transfer here */
    struct REMAT_LIST(struct unit) deferred;
    uint32_t emitted_count; /* of these */
    struct REMAT_LIST(struct group) groups;
    uint32_t landed;                  /* groups; those from here on are in flight */
    uint32_t *group_at;               /* by position of a transfer: its group */
    uint32_t got, wanted;             /* of early groups: started; that the order has come to */
    uint64_t now_ns, stream_ns;       /* clock of computation; end of the stream's work */
    uint64_t left_ns, stream_left_ns; /* of the least times of both streams' work */
    struct REMAT_LIST(uint64_t) ends; /* of overlapped transfers, in their order */
    uint32_t ended;                   /* of these */
    uint32_t slowdown_permille;       /* of computation until then: all have one link */
    uint32_t passed;                  /* such transfers so far */
    uint32_t at;                      /* position in the given order */
};

static const struct remat_delayed_kernel *facts_of(const struct runner *r, remat_kernel_id k)
{
    return &r->given->kernels[k.i];
}

static const struct remat_price *price_of(const struct runner *r, remat_kernel_id k)
{
    return &r->given->prices[k.i];
}

/* Of the kernel: the operands that a transfer may delay. */
static const struct remat_delayed_operand *operands_begin(const struct runner *r, remat_kernel_id k)
{
    return r->given->operands + facts_of(r, k)->operand_begin;
}

static const struct remat_delayed_operand *operands_end(const struct runner *r, remat_kernel_id k)
{
    return r->given->operands + facts_of(r, k)->operand_end;
}

static struct group *last_in_flight(const struct runner *r)
{
    return r->landed < r->groups.count ? &r->groups.items[r->groups.count - 1] : NULL;
}

/* --- dependences --- */

/* Who reads what is brought early waits, and is not deferred. */
static void mark(struct runner *r, remat_kernel_id k, bool pending)
{
    for (const struct remat_delayed_operand *o = operands_begin(r, k); o < operands_end(r, k); o++)
        if (!(o->access & REMAT_ACCESS_WRITE))
            r->readers[o->value] += pending ? 1 : UINT32_MAX; /* modulo 2^32 */
        else if (!facts_of(r, k)->early)
            r->unwritten[o->value] = pending;
}

static uint32_t own_reads(const struct runner *r, remat_kernel_id k, uint32_t value)
{
    uint32_t count = 0;
    for (const struct remat_delayed_operand *o = operands_begin(r, k); o < operands_end(r, k); o++)
        count += o->access == REMAT_ACCESS_READ && o->value == value;
    return count;
}

/* An input is unwritten, or a version is still read that the kernel replaces. `deferred`: the
 * kernel's own reads are marked. */
static bool lacks_input(const struct runner *r, struct unit *unit, bool deferred)
{
    remat_kernel_id k = unit->kernel;
    if (r->unwritten[unit->lacking])
        return true;
    for (const struct remat_delayed_operand *o = operands_begin(r, k); o < operands_end(r, k);
         o++) {
        unit->lacking = o->before;
        if (o->access != REMAT_ACCESS_WRITE && r->unwritten[o->before])
            return true;
        if (o->access == REMAT_ACCESS_UPDATE &&
            r->readers[o->before] > (deferred ? own_reads(r, k, o->before) : 0))
            return true;
    }
    unit->lacking = 0;
    return false;
}

/* --- which transfers may start --- */

/* It joins the group of the transfer before it if that is in flight and no kernel came in between.
 */
static bool joins(const struct runner *r, remat_kernel_id k)
{
    const struct group *last = last_in_flight(r);
    return last && last->end == r->count && !last->early &&
           remat_continued_ns(price_of(r, k)) < last->left_ns && facts_of(r, k)->goes_with &&
           facts_of(r, r->out->order[r->count - 1])->goes_with == facts_of(r, k)->goes_with;
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
    uint64_t ns = facts_of(r, unit.kernel)->ns / HIDDEN_SHARE;
    uint64_t start_ns = r->stream_ns < r->now_ns ? r->now_ns : r->stream_ns;
    uint64_t until_ns = r->given->until_awaited_ns[r->at];
    return !r->depth && remat_ns_add(start_ns, ns) > remat_ns_add(r->now_ns, until_ns) &&
           !(deferred && unit.passed < r->passed);
}

/* The kernel reads what is brought early and in flight. */
static bool reads_in_flight(const struct runner *r, remat_kernel_id k)
{
    bool any = false;
    for (const struct remat_delayed_operand *o = operands_begin(r, k);
         o < operands_end(r, k) && !any; o++) {
        uint32_t received = r->receives[o->before];
        uint32_t group = received ? r->group_at[received - 1] : 0;
        any = received && r->groups.items[group].early && r->landed <= group;
    }
    return any;
}

/* Of the order's own kernels only transfers are deferred until what is brought early is there. */
static bool waits(const struct runner *r, struct unit *unit, bool deferred)
{
    remat_kernel_id k = unit->kernel;
    bool overlapped = facts_of(r, k)->overlapped;
    return (overlapped && is_full(r) && !joins(r, k)) || lacks_input(r, unit, deferred) ||
           ((overlapped || deferred) && reads_in_flight(r, k)) ||
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
static void complete_for(struct runner *r, remat_kernel_id k)
{
    for (const struct remat_delayed_operand *o = operands_begin(r, k); o < operands_end(r, k);
         o++) {
        uint32_t sent = o->access == REMAT_ACCESS_UPDATE ? r->sends[o->before] : 0;
        if (r->receives[o->before])
            set_complete(r, r->receives[o->before] - 1);
        for (; sent; sent = r->sent_before[sent - 1])
            set_complete(r, sent - 1);
    }
}

/* --- running --- */

static void start_overlapped(struct runner *r, remat_kernel_id k)
{
    const struct remat_price *price = price_of(r, k);
    const struct remat_delayed_kernel *facts = facts_of(r, k);
    bool continues = facts->early ? !remat_is_none(r->given->after[k.i].i) : joins(r, k);
    uint64_t ns = continues ? remat_continued_ns(price) : price->ns;
    mark(r, k, true);
    r->slowdown_permille = price->slowdown_permille;
    r->stream_ns = remat_ns_add(r->stream_ns < r->now_ns ? r->now_ns : r->stream_ns, ns);
    REMAT_PUSH(r->arena, &r->ends, r->stream_ns);
    if (!continues) {
        struct group group = {.begin = r->count,
                              .left_ns = ns + (facts->goes_with ? remat_group_room_ns(price) : 0),
                              .early = facts->early};
        REMAT_PUSH(r->arena, &r->groups, group);
    }
    struct group *group = &r->groups.items[r->groups.count - 1];
    group->left_ns -= ns;
    group->end = r->count + 1;
    group->end_ns = r->stream_ns;
    r->out->continues[r->count] = continues;
    r->group_at[r->count] = (uint32_t)r->groups.count - 1;
    r->sent_before[r->count] = r->sends[facts->from];
    r->sends[facts->from] = r->receives[facts->to] = r->count + 1;
}

/* On another link, which is free: computation waits for each of its transfers. */
static void transfer_blocking(struct runner *r, remat_kernel_id k)
{
    const struct remat_price *price = price_of(r, k);
    uint32_t begin = r->count;
    bool continues = r->count && r->out->order[r->count - 1].i == r->given->after[k.i].i;
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
    const struct remat_delayed_kernel *facts = facts_of(r, k);
    uint64_t *left_ns = facts->overlapped ? &r->stream_left_ns : &r->left_ns;
    uint64_t least_ns = remat_continued_ns(price_of(r, k));
    *left_ns -= least_ns < *left_ns ? least_ns : *left_ns; /* the sum may have been saturated */
    r->out->complete_before[r->count] = r->count + 1;
    if (facts->overlapped)
        start_overlapped(r, k);
    else if (facts->transfer)
        transfer_blocking(r, k);
    else
        compute(r, facts->ns);
    r->out->order[r->count++] = k;
}

/* The position is where a group begins that may start early. */
static bool starts_group(const struct runner *r, uint32_t at)
{
    remat_kernel_id k = r->given->order[at];
    return facts_of(r, k)->early && remat_is_none(r->given->after[k.i].i);
}

/* Starts the next group of what may start early. */
static void get_next(struct runner *r)
{
    const struct remat_transfers *given = r->given;
    uint32_t at = given->gets.items[r->got++];
    do
        emit_kernel(r, given->order[at++]);
    while (at < given->count && facts_of(r, given->order[at])->early && !starts_group(r, at));
}

static void feed(struct runner *r, uint64_t until_ns);
static bool land_next(struct runner *r);

/* `deferred`: it is marked, up to here. */
static void emit(struct runner *r, struct unit unit, bool deferred)
{
    while (reads_in_flight(r, unit.kernel))
        land_next(r);
    if (!facts_of(r, unit.kernel)->overlapped)
        feed(r, remat_ns_add(r->now_ns, facts_of(r, unit.kernel)->ns));
    if (deferred)
        mark(r, unit.kernel, false);
    complete_for(r, unit.kernel);
    for (uint32_t i = unit.begin; i < unit.end; i++)
        emit_kernel(r, r->given->order[i]);
}

/* --- what was deferred --- */

static void defer(struct runner *r, struct unit unit)
{
    mark(r, unit.kernel, true);
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
        remat_kernel_id k = unit->kernel;
        if (unit->emitted || !facts_of(r, k)->overlapped || (any && !joins(r, k)) ||
            waits(r, unit, true))
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
        bool fed = r->depth && facts_of(r, unit->kernel)->overlapped;
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
        bool left = r->got < r->given->gets.count, held = r->got >= r->wanted + r->depth;
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

/* The order has come to a group that may start early: all up to it are started. */
static void want(struct runner *r)
{
    r->wanted++;
    while (r->got < r->wanted)
        get_next(r);
}

static void run_unit(struct runner *r, struct unit unit)
{
    const struct remat_delayed_kernel *facts = facts_of(r, unit.kernel);
    r->at = unit.end;
    unit.passed = r->passed;
    if (facts->early) {
        if (starts_group(r, unit.begin))
            want(r);
    } else if ((r->depth && facts->overlapped) || waits(r, &unit, false)) {
        defer(r, unit);
    } else {
        emit(r, unit, false);
        land(r);
    }
    if (facts->early && !r->depth) {
        r->passed++;
        release(r);
    }
    if (r->emitted_count > 0)
        forget_emitted(r);
}

/* What is left takes at least until then. */
static uint64_t least_end_ns(const struct runner *r)
{
    uint64_t end_ns = remat_ns_add(r->now_ns, r->left_ns);
    remat_keep_most(&end_ns, remat_ns_add(r->stream_ns, r->stream_left_ns));
    return end_ns;
}

static struct runner begin(struct remat_arena *arena, const struct remat_transfers *transfers,
                           uint32_t depth, struct remat_overlapped *out)
{
    uint32_t count = transfers->count, values = transfers->value_count;
    struct runner r = {.arena = arena,
                       .given = transfers,
                       .depth = depth,
                       .out = out,
                       .left_ns = transfers->computation_ns,
                       .stream_left_ns = transfers->overlapped_ns};
    REMAT_NEW_UNINITIALIZED(arena, out->order, count);
    REMAT_NEW_UNINITIALIZED(arena, out->complete_before, count);
    REMAT_NEW(arena, out->continues, count);
    REMAT_NEW_UNINITIALIZED(arena, r.group_at, count);
    REMAT_NEW_UNINITIALIZED(arena, r.sent_before, count);
    REMAT_NEW(arena, r.unwritten, values);
    REMAT_NEW(arena, r.readers, values);
    REMAT_NEW(arena, r.receives, values);
    REMAT_NEW(arena, r.sends, values);
    return r;
}

struct remat_overlapped remat_overlap_transfers(struct remat_arena *arena,
                                                const struct remat_transfers *transfers,
                                                uint32_t depth, uint64_t limit_ns)
{
    struct remat_overlapped out = {.depth_matters = !depth};
    struct runner r = begin(arena, transfers, depth, &out);
    for (size_t u = 0; u < transfers->units.count; u++) {
        const struct remat_unit *given = &transfers->units.items[u];
        remat_kernel_id last = transfers->order[given->end - 1];
        run_unit(&r, (struct unit){.begin = given->begin, .end = given->end, .kernel = last});
        if (least_end_ns(&r) > limit_ns)
            return (struct remat_overlapped){.ns = least_end_ns(&r), .depth_matters = true};
    }
    do
        feed(&r, UINT64_MAX);
    while (land_next(&r));
    forget_emitted(&r);
    assert(r.deferred.count == 0 && r.count == transfers->count);
    for (size_t i = 0; i < r.groups.count; i++)
        if (!r.groups.items[i].complete)
            set_complete(&r, r.groups.items[i].begin);
    out.ns = r.now_ns;
    return out;
}
