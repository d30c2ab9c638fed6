/* SPDX-License-Identifier: Apache-2.0 */
/* The order is run once, with two clocks. A transfer starts when all before it is computed and the
 * one before it is complete. A kernel that needs a transfer under way, or a kernel that is held, is
 * held too; when the transfer is complete by the clock of computation, held kernels come in their
 * order. At the end computation waits.
 *
 *     order         dW2  send2  add2  update2  dX1  dW1  send1  add1  update1
 *     computation   dW2  dX1    dW1   add2  update2  ......  add1  update1
 *     lane               send2........      send1...........
 *
 * There add2 waits for send2, and update2 for add2; dX1 and dW1 do not. */
#include "beside.h"

#include "amounts.h"
#include "schedule.h"

#include <assert.h>

enum { FLIGHTS_MAX = 2 }; /* so that the lane has a next one, and few buffers are waited with */

struct unit { /* of the given order: a kernel, behind those that take parts of parameters for it */
    uint32_t begin, end;
};

struct flight { /* a transfer under way */
    uint32_t position;
    uint64_t end_ns;
};

struct runner {
    struct remat_arena *arena;
    const struct remat_graph *graph;
    const struct remat_kernel_list *kernels;
    const struct remat_price *prices;
    const remat_kernel_id *from;
    struct remat_beside *out;
    uint32_t count;    /* emitted */
    bool *unwritten;   /* by value: made by what is held or under way */
    uint32_t *readers; /* by value: of these, how many read it */
    struct REMAT_LIST(struct unit) held;
    struct REMAT_LIST(uint32_t) open; /* positions of transfers that nothing has needed yet */
    struct flight flights[FLIGHTS_MAX];
    uint32_t flight_count;
    uint64_t now_ns, lane_ns; /* computation has come to; the lane will have come to */
};

static const struct remat_fused_kernel *kernel_of(const struct runner *r, struct unit unit)
{
    return remat_kernel_at(r->kernels, r->from[unit.end - 1]);
}

/* --- what waits for what --- */

static void mark(struct runner *r, const struct remat_fused_kernel *kernel, bool pending)
{
    for (uint32_t o = 0; o < kernel->operand_count; o++) {
        const struct remat_kernel_operand *operand = &kernel->operands[o];
        if (operand->access & REMAT_ACCESS_WRITE)
            r->unwritten[operand->value.i] = pending;
        else
            r->readers[operand->value.i] += pending ? 1 : UINT32_MAX; /* modulo 2^32 */
    }
}

static uint32_t own_reads(const struct remat_fused_kernel *kernel, remat_value value)
{
    uint32_t count = 0;
    for (uint32_t o = 0; o < kernel->operand_count; o++)
        count += kernel->operands[o].access == REMAT_ACCESS_READ &&
                 kernel->operands[o].value.i == value.i;
    return count;
}

/* `held`: the kernel's own reads are marked. */
static bool waits(const struct runner *r, const struct remat_fused_kernel *kernel, bool held)
{
    bool beside = remat_runs_beside(r->graph, kernel);
    for (uint32_t o = 0; o < kernel->operand_count; o++) {
        const struct remat_kernel_operand *operand = &kernel->operands[o];
        remat_value v = operand->access == REMAT_ACCESS_UPDATE ? operand->previous : operand->value;
        if (operand->access != REMAT_ACCESS_WRITE && r->unwritten[v.i])
            return true;
        if (operand->access == REMAT_ACCESS_UPDATE &&
            r->readers[v.i] > (held ? own_reads(kernel, v) : 0))
            return true;
    }
    return beside && r->flight_count == FLIGHTS_MAX;
}

/* The kernel reads what the transfer gives, or replaces what it takes. */
static bool needs(const struct remat_fused_kernel *kernel,
                  const struct remat_fused_kernel *transfer)
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

static void complete_for(struct runner *r, const struct remat_fused_kernel *kernel)
{
    size_t kept = 0;
    for (size_t i = 0; i < r->open.count; i++) {
        uint32_t position = r->open.items[i];
        if (needs(kernel, remat_kernel_at(r->kernels, r->out->order[position])))
            r->out->complete_before[position] = r->count;
        else
            r->open.items[kept++] = position;
    }
    r->open.count = kept;
}

/* A transfer in line takes its turn on the lane, too. */
static void emit_kernel(struct runner *r, remat_kernel_id k)
{
    const struct remat_fused_kernel *kernel = remat_kernel_at(r->kernels, k);
    uint64_t ns = r->prices[k.i].ns;
    bool transfer = remat_kernel_kind_is_transfer(kernel->kind);
    r->out->order[r->count] = k;
    r->out->complete_before[r->count] = r->count + 1;
    if (transfer && r->lane_ns < r->now_ns)
        r->lane_ns = r->now_ns;
    if (remat_runs_beside(r->graph, kernel)) {
        mark(r, kernel, true);
        r->lane_ns = remat_ns_add(r->lane_ns, ns);
        r->flights[r->flight_count++] = (struct flight){r->count, r->lane_ns};
        REMAT_PUSH(r->arena, &r->open, r->count);
    } else {
        r->out->computed_ns = remat_ns_add(r->out->computed_ns, ns);
        r->now_ns = remat_ns_add(transfer ? r->lane_ns : r->now_ns, ns);
        r->lane_ns = transfer ? r->now_ns : r->lane_ns;
    }
    r->count++;
}

static void emit(struct runner *r, struct unit unit)
{
    complete_for(r, kernel_of(r, unit));
    for (uint32_t i = unit.begin; i < unit.end; i++)
        emit_kernel(r, r->from[i]);
}

static void release(struct runner *r)
{
    size_t kept = 0;
    for (size_t i = 0; i < r->held.count; i++) {
        struct unit unit = r->held.items[i];
        const struct remat_fused_kernel *kernel = kernel_of(r, unit);
        if (waits(r, kernel, true)) {
            r->held.items[kept++] = unit;
            continue;
        }
        mark(r, kernel, false);
        emit(r, unit);
    }
    r->held.count = kept;
}

/* What the clock of computation has come to; `to_end`: all. */
static void land(struct runner *r, bool to_end)
{
    while (r->flight_count > 0 && (to_end || r->flights[0].end_ns <= r->now_ns)) {
        struct flight first = r->flights[0];
        memmove(r->flights, r->flights + 1, --r->flight_count * sizeof *r->flights);
        r->now_ns = r->now_ns < first.end_ns ? first.end_ns : r->now_ns;
        mark(r, remat_kernel_at(r->kernels, r->out->order[first.position]), false);
        release(r);
    }
}

struct remat_beside remat_run_beside(struct remat_arena *arena, const struct remat_graph *graph,
                                     const struct remat_kernel_list *kernels,
                                     const struct remat_price *prices, const remat_kernel_id *order)
{
    struct remat_beside out = {0};
    struct runner r = {.arena = arena,
                       .graph = graph,
                       .kernels = kernels,
                       .prices = prices,
                       .from = order,
                       .out = &out};
    REMAT_NEW(arena, out.order, kernels->count);
    REMAT_NEW(arena, out.complete_before, kernels->count);
    REMAT_NEW(arena, r.unwritten, graph->value_count);
    REMAT_NEW(arena, r.readers, graph->value_count);
    for (struct unit unit = {0}; unit.end < kernels->count; unit.begin = unit.end) {
        while (remat_takes_part(remat_kernel_at(kernels, order[unit.end++])) &&
               unit.end < kernels->count)
            ;
        const struct remat_fused_kernel *kernel = kernel_of(&r, unit);
        if (waits(&r, kernel, false)) {
            mark(&r, kernel, true);
            REMAT_PUSH(arena, &r.held, unit);
        } else {
            emit(&r, unit);
            land(&r, false);
        }
    }
    land(&r, true);
    assert(r.held.count == 0 && r.count == kernels->count);
    for (size_t i = 0; i < r.open.count; i++)
        out.complete_before[r.open.items[i]] = r.count;
    out.ns = r.now_ns;
    return out;
}
