/* SPDX-License-Identifier: Apache-2.0 */
/* One pass in order marks the values that a transfer may delay: those that it reads or writes, and
 * those of each kernel that reads what is delayed, or replaces what a delayed kernel reads. A
 * second one lists the operands that are marked. */
#include "transfers.h"

#include "amounts.h"
#include "overlap.h"

struct transfer_finder {
    struct remat_arena *arena;
    const struct remat_graph *graph;
    const struct remat_kernel_list *kernels;
    struct remat_transfers *out;
    uint32_t *number;      /* by value: 0 where it is not marked */
    uint8_t *pending;      /* by value: enum pending */
    uint32_t operand_room; /* an upper bound of the marked operands */
};

/* By what is delayed. */
enum pending { READ = 1, WRITTEN = 2 };

static void number(struct transfer_finder *f, remat_value v)
{
    if (!f->number[v.i])
        f->number[v.i] = f->out->value_count++;
}

static remat_value value_before(const struct remat_kernel_operand *operand)
{
    return operand->access == REMAT_ACCESS_UPDATE ? operand->previous : operand->value;
}

static bool is_delayed(const struct transfer_finder *f, const struct remat_kernel_info *kernel)
{
    bool delayed = false;
    for (uint32_t o = 0; o < kernel->operand_count && !delayed; o++) {
        const struct remat_kernel_operand *operand = &kernel->operands[o];
        uint8_t pending = f->pending[value_before(operand).i];
        delayed = (operand->access != REMAT_ACCESS_WRITE && pending & WRITTEN) ||
                  (operand->access == REMAT_ACCESS_UPDATE && pending & READ);
    }
    return delayed;
}

/* Who reads what is brought early waits in its place: that value is no reason for a delay. */
static void mark(struct transfer_finder *f, remat_kernel_id k)
{
    const struct remat_kernel_info *kernel = remat_kernel_at(f->kernels, k);
    const struct remat_delayed_kernel *facts = &f->out->kernels[k.i];
    if (!facts->overlapped && !is_delayed(f, kernel))
        return;
    for (uint32_t o = 0; o < kernel->operand_count; o++) {
        const struct remat_kernel_operand *operand = &kernel->operands[o];
        bool writes = operand->access & REMAT_ACCESS_WRITE;
        number(f, value_before(operand));
        number(f, operand->value);
        if (!writes)
            f->pending[operand->value.i] |= READ;
        else if (!facts->early)
            f->pending[operand->value.i] |= WRITTEN;
    }
}

static void list_operands(struct transfer_finder *f, remat_kernel_id k)
{
    const struct remat_kernel_info *kernel = remat_kernel_at(f->kernels, k);
    struct remat_delayed_kernel *facts = &f->out->kernels[k.i];
    uint32_t count = k.i ? facts[-1].operand_end : 0;
    facts->operand_begin = count;
    for (uint32_t o = 0; o < kernel->operand_count; o++) {
        const struct remat_kernel_operand *operand = &kernel->operands[o];
        uint32_t value = f->number[operand->value.i], before = f->number[value_before(operand).i];
        if (value || before)
            f->out->operands[count++] =
                (struct remat_delayed_operand){before, value, operand->access};
    }
    facts->operand_end = count;
    if (facts->overlapped) {
        facts->from = f->number[kernel->operands[0].value.i];
        facts->to = f->number[kernel->operands[1].value.i];
    }
}

static void describe(struct transfer_finder *f, remat_kernel_id k)
{
    const struct remat_kernel_info *kernel = remat_kernel_at(f->kernels, k);
    struct remat_delayed_kernel *facts = &f->out->kernels[k.i];
    facts->ns = f->out->prices[k.i].ns;
    facts->transfer = remat_kernel_kind_is_transfer(kernel->kind);
    facts->overlapped = remat_may_overlap(f->graph, kernel);
    facts->early = remat_may_start_early(f->graph, kernel);
    facts->goes_with = facts->transfer ? remat_goes_with(f->graph, kernel) : 0;
    f->operand_room += kernel->operand_count;
    uint64_t *work_ns = facts->overlapped ? &f->out->overlapped_ns : &f->out->computation_ns;
    *work_ns = remat_ns_add(*work_ns, remat_continued_ns(&f->out->prices[k.i]));
}

static void list_order(struct transfer_finder *f)
{
    struct remat_transfers *out = f->out;
    uint32_t count = out->count;
    REMAT_NEW_UNINITIALIZED(f->arena, out->until_awaited_ns, count + 1);
    out->until_awaited_ns[count] = REMAT_SEGMENT_NS_MAX; /* there is no other */
    for (uint32_t at = count; at-- > 0;) {
        const struct remat_delayed_kernel *facts = &out->kernels[out->order[at].i];
        uint64_t ns = facts->overlapped ? 0 : facts->ns;
        out->until_awaited_ns[at] =
            facts->early ? 0 : remat_ns_add(out->until_awaited_ns[at + 1], ns);
    }
    for (uint32_t at = 0, begin = 0; at < count; at++) {
        remat_kernel_id k = out->order[at];
        bool fetches = remat_turn_of(remat_kernel_at(f->kernels, k)) == REMAT_TURN_BEFORE_READER;
        if (out->kernels[k.i].early && remat_is_none(out->after[k.i].i))
            REMAT_PUSH(f->arena, &out->gets, at);
        if (fetches && at + 1 < count)
            continue;
        REMAT_PUSH(f->arena, &out->units, ((struct remat_unit){begin, at + 1}));
        begin = at + 1;
    }
}

struct remat_transfers *remat_transfers_find(struct remat_arena *arena,
                                             const struct remat_graph *graph,
                                             const struct remat_kernel_list *kernels,
                                             const struct remat_price *prices,
                                             const remat_kernel_id *order)
{
    assert(prices && order);
    struct remat_transfers *out;
    struct transfer_finder f = {.arena = arena, .graph = graph, .kernels = kernels};
    REMAT_NEW(arena, out, 1);
    f.out = out;
    *out = (struct remat_transfers){.prices = prices, .count = kernels->count, .value_count = 1};
    REMAT_NEW(arena, out->kernels, kernels->count);
    REMAT_NEW(arena, f.number, graph->value_count);
    REMAT_NEW(arena, f.pending, graph->value_count);
    for (remat_kernel_id k = {0}; k.i < kernels->count; k.i++)
        describe(&f, k);
    out->order = remat_group_gathers(arena, graph, kernels, prices, order, &out->after);
    for (uint32_t at = 0; at < kernels->count; at++)
        mark(&f, out->order[at]);
    REMAT_NEW_UNINITIALIZED(arena, out->operands, f.operand_room);
    for (remat_kernel_id k = {0}; k.i < kernels->count; k.i++)
        list_operands(&f, k);
    list_order(&f);
    return out;
}
