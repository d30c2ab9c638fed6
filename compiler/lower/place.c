/* SPDX-License-Identifier: Apache-2.0 */
/* Lifespans by one pass over the schedule for first and last use, a second for sharing in place;
 * then the packer (memory/pack.h). */
#include "place.h"

#include "pack.h"

struct placer {
    struct remat_arena *arena;
    const struct remat_graph *graph;
    const struct remat_kernel_list *kernels;
    const remat_kernel_id *order;
    const uint32_t *complete_before;
    const struct remat_persistent *persistent;
    struct remat_lifespans *out;
    remat_tensor_id *static_of; /* by value: of a given one, or of a root that is an output */
    remat_buffer_id *moved;     /* by buffer: the one that it shares, itself otherwise */
    bool *pinned;               /* by buffer: may not be overwritten */
};

static void add_buffer(struct placer *p, remat_value v, uint64_t bytes, uint32_t begin)
{
    remat_buffer_id id = {p->out->buffer_count++};
    remat_tensor_id persistent = p->static_of[v.i];
    p->out->buffers[id.i] = (struct remat_placed_buffer){
        .bytes = bytes,
        .begin = begin,
        .end = remat_is_none(persistent.i) ? begin + 1 : p->kernels->count,
        .persistent = persistent,
    };
    p->out->buffer_of[v.i] = p->moved[id.i] = id;
}

/* A buffer for each input, room for one of each value that a kernel writes. */
static void begin_buffers(struct placer *p, const remat_tensor_id *inputs)
{
    uint32_t count = p->persistent->count;
    for (uint32_t k = 0; k < p->kernels->count; k++)
        count += p->kernels->kernels[k].operand_count;
    REMAT_NEW_UNINITIALIZED(p->arena, p->out->buffers, count);
    REMAT_NEW(p->arena, p->pinned, count);
    REMAT_NEW_UNINITIALIZED(p->arena, p->moved, count);
    REMAT_NEW_UNINITIALIZED(p->arena, p->out->buffer_of, p->graph->value_count);
    memset(p->out->buffer_of, 0xff, p->graph->value_count * sizeof *p->out->buffer_of);
    p->static_of = remat_copy(p->arena, inputs, p->graph->value_count, sizeof *inputs);
    for (remat_value v = {0}; v.i < p->graph->value_count; v.i++)
        if (!remat_is_none(inputs[v.i].i))
            add_buffer(p, v, p->persistent->items[inputs[v.i].i].bytes, 0);
    for (uint32_t o = p->graph->output_count; o-- > 0;) { /* of several the first */
        remat_value output = p->graph->outputs[o];
        p->static_of[remat_storage_root(p->graph, output).i] =
            remat_persistent_find(p->persistent, p->graph->values[output.i].name);
    }
}

/* Buffers by definition, versions sharing theirs; `end` by last use. */
static void find_uses(struct placer *p)
{
    for (uint32_t at = 0; at < p->kernels->count; at++) {
        const struct remat_kernel_info *kernel = remat_kernel_at(p->kernels, p->order[at]);
        uint32_t end = p->complete_before ? p->complete_before[at] : at + 1;
        for (uint32_t o = 0; o < kernel->operand_count; o++) {
            const struct remat_kernel_operand *operand = &kernel->operands[o];
            remat_value v = operand->value;
            if (operand->access == REMAT_ACCESS_WRITE)
                add_buffer(p, v, operand->bytes, at);
            else if (operand->access == REMAT_ACCESS_UPDATE)
                p->out->buffer_of[v.i] = p->out->buffer_of[operand->previous.i];
            remat_buffer_id buffer = p->out->buffer_of[v.i];
            assert(!remat_is_none(buffer.i)); /* written before it is read */
            p->pinned[buffer.i] |= end > at + 1 && operand->access == REMAT_ACCESS_READ;
            if (p->out->buffers[buffer.i].end < end)
                p->out->buffers[buffer.i].end = end;
        }
    }
}

/* Without an optimizer the host reads the gradients. */
static void keep_gradients(struct placer *p)
{
    for (remat_value v = {0}; v.i < p->graph->value_count && p->graph->update_count == 0; v.i++) {
        if (p->graph->values[v.i].role != REMAT_ROLE_GRADIENT)
            continue;
        remat_buffer_id buffer = p->out->buffer_of[remat_storage_root(p->graph, v).i];
        if (remat_is_none(buffer.i))
            continue;
        p->out->buffers[buffer.i].end = p->kernels->count;
        p->pinned[buffer.i] = true;
    }
}

/* The result of the kernel at position `at` moves into the buffer of an operand that dies there,
 * unless it has moved already. */
static void share(struct placer *p, uint32_t at, remat_value operand, remat_value result)
{
    remat_buffer_id mine = p->out->buffer_of[result.i];
    remat_buffer_id theirs = p->moved[p->out->buffer_of[operand.i].i];
    struct remat_placed_buffer *own = &p->out->buffers[mine.i];
    struct remat_placed_buffer *other = &p->out->buffers[theirs.i];
    if (own->bytes == 0 || !remat_is_none(own->persistent.i))
        return;
    if (theirs.i == mine.i || !remat_is_none(other->persistent.i) || p->pinned[theirs.i] ||
        other->end != at + 1)
        return;
    other->end = own->end;
    p->pinned[theirs.i] = p->pinned[mine.i];
    own->bytes = 0;
    own->begin = own->end = at;
    p->moved[mine.i] = theirs; /* which was written earlier and so moves no more */
}

static void share_in_place(struct placer *p)
{
    for (uint32_t at = 0; at < p->kernels->count; at++) {
        const struct remat_kernel_info *kernel = remat_kernel_at(p->kernels, p->order[at]);
        for (uint32_t s = 0; s < kernel->shared_count; s++)
            share(p, at, kernel->operands[kernel->shared[s].read].value,
                  kernel->operands[kernel->shared[s].written].value);
    }
}

/* Drops the buffers that sharing has emptied and renumbers. */
static void compact(struct placer *p)
{
    remat_buffer_id *renamed, next = {0};
    REMAT_NEW_UNINITIALIZED(p->arena, renamed, p->out->buffer_count);
    for (uint32_t b = 0; b < p->out->buffer_count; b++) {
        renamed[b] = next;
        if (p->out->buffers[b].bytes)
            p->out->buffers[next.i++] = p->out->buffers[b];
    }
    for (uint32_t v = 0; v < p->graph->value_count; v++)
        if (!remat_is_none(p->out->buffer_of[v].i))
            p->out->buffer_of[v] = renamed[p->moved[p->out->buffer_of[v].i].i];
    p->out->buffer_count = next.i;
}

static void profile(struct placer *p)
{
    struct remat_lifespans *l = p->out;
    uint64_t *change;
    uint32_t count = p->kernels->count;
    l->live_peak_bytes = p->persistent->total_bytes;
    REMAT_NEW(p->arena, change, count + 1);
    REMAT_NEW_UNINITIALIZED(p->arena, l->live_bytes, count);
    for (uint32_t b = 0; b < l->buffer_count; b++) {
        const struct remat_placed_buffer *buffer = &l->buffers[b];
        if (!remat_is_none(buffer->persistent.i))
            continue;
        change[buffer->begin] += remat_aligned_bytes(buffer->bytes);
        change[buffer->end] -= remat_aligned_bytes(buffer->bytes); /* modulo 2^64 */
    }
    uint64_t live = p->persistent->total_bytes;
    for (uint32_t at = 0; at < count; at++) {
        live += change[at];
        l->live_bytes[at] = live;
        if (live > l->live_peak_bytes) {
            l->live_peak_bytes = live;
            l->peak_position = at;
        }
    }
}

struct remat_lifespans remat_lifespans(struct remat_arena *arena, const struct remat_graph *graph,
                                       const struct remat_kernel_list *kernels,
                                       const remat_kernel_id *order,
                                       const uint32_t *complete_before,
                                       const struct remat_persistent *persistent,
                                       const remat_tensor_id *inputs)
{
    assert(order);
    struct remat_lifespans lifespans = {.points = kernels->count};
    struct placer p = {.arena = arena,
                       .graph = graph,
                       .kernels = kernels,
                       .order = order,
                       .complete_before = complete_before,
                       .persistent = persistent,
                       .out = &lifespans};
    begin_buffers(&p, inputs);
    find_uses(&p);
    keep_gradients(&p);
    share_in_place(&p);
    compact(&p);
    profile(&p);
    return lifespans;
}

struct slots REMAT_LIST(struct remat_slot);

static void add_slots(struct remat_arena *arena, const struct remat_lifespans *call,
                      struct slots *out)
{
    for (uint32_t b = 0; b < call->buffer_count; b++) {
        const struct remat_placed_buffer *buffer = &call->buffers[b];
        if (remat_is_none(buffer->persistent.i))
            REMAT_PUSH(arena, out,
                       ((struct remat_slot){call->first_point + buffer->begin,
                                            call->first_point + buffer->end,
                                            remat_aligned_bytes(buffer->bytes)}));
    }
}

uint64_t remat_packed_bytes(remat_context *ctx, const struct remat_persistent *persistent,
                            const struct remat_lifespans *call)
{
    struct remat_arena *scratch = remat_scratch_open(ctx);
    struct slots slots = {0};
    add_slots(scratch, call, &slots);
    uint64_t bytes = remat_pack(scratch, slots.items, (uint32_t)slots.count).arena_bytes;
    remat_scratch_close(scratch);
    return persistent->total_bytes + bytes;
}

remat_status remat_place(remat_context *ctx, const struct remat_persistent *persistent,
                         struct remat_lifespans *const *calls, uint32_t call_count,
                         uint64_t *out_arena_bytes)
{
    assert(persistent->total_bytes % REMAT_ALIGNMENT == 0);
    struct remat_arena *scratch = remat_scratch_open(ctx);
    struct slots slots = {0};
    for (uint32_t c = 0; c < call_count; c++) {
        calls[c]->first_point = c ? calls[c - 1]->first_point + calls[c - 1]->points : 0;
        add_slots(scratch, calls[c], &slots);
    }
    struct remat_packing packing = remat_pack(scratch, slots.items, (uint32_t)slots.count);
    const uint64_t *offset = packing.offsets;
    for (uint32_t c = 0; c < call_count; c++)
        for (uint32_t b = 0; b < calls[c]->buffer_count; b++) {
            struct remat_placed_buffer *buffer = &calls[c]->buffers[b];
            buffer->offset_bytes = remat_is_none(buffer->persistent.i)
                                       ? persistent->total_bytes + *offset++
                                       : persistent->items[buffer->persistent.i].offset_bytes;
        }
    *out_arena_bytes = persistent->total_bytes + packing.arena_bytes;
    remat_status st = remat_pack_check(ctx, slots.items, (uint32_t)slots.count, &packing);
    remat_scratch_close(scratch);
    return st;
}
