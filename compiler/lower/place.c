/* SPDX-License-Identifier: Apache-2.0 */
/* Lifespans by one pass over the schedule for first and last use, a second for sharing in place;
 * then the packer (memory/pack.h). */
#include "place.h"

#include "ops.h"
#include "pack.h"
#include "pack_check.h"

struct placer {
    struct remat_arena *arena;
    const struct remat_graph *graph;
    const struct remat_kernel_list *kernels;
    const uint32_t *order, *complete_before;
    const struct remat_persistent *persistent;
    struct remat_lifespans *out;
    uint32_t *static_of; /* by value: of a given one, or of a root that is an output; REMAT_NONE */
    uint32_t *moved;     /* by buffer: the one that it shares, itself otherwise */
    bool *pinned;        /* by buffer: may not be overwritten */
};

static uint64_t slot_bytes(const struct remat_placed_buffer *b)
{
    return remat_align_up(b->bytes, REMAT_ALIGNMENT);
}

static void add_buffer(struct placer *p, uint32_t v, uint64_t bytes, uint32_t begin)
{
    uint32_t id = p->out->buffer_count++, persistent = p->static_of[v];
    p->out->buffers[id] = (struct remat_placed_buffer){
        .bytes = bytes,
        .begin = begin,
        .end = remat_is_none(persistent) ? begin + 1 : p->kernels->count,
        .persistent = persistent,
    };
    p->out->buffer_of[v] = p->moved[id] = id;
}

/* A buffer for each input, room for one of each value that a kernel writes. */
static void begin_buffers(struct placer *p, const uint32_t *inputs)
{
    uint32_t count = p->persistent->count;
    for (uint32_t k = 0; k < p->kernels->count; k++)
        count += p->kernels->kernels[k].operand_count;
    REMAT_NEW(p->arena, p->out->buffers, count);
    REMAT_NEW(p->arena, p->pinned, count);
    REMAT_NEW(p->arena, p->moved, count);
    REMAT_NEW(p->arena, p->out->buffer_of, p->graph->value_count);
    memset(p->out->buffer_of, 0xff, p->graph->value_count * sizeof *p->out->buffer_of);
    p->static_of = remat_copy(p->arena, inputs, p->graph->value_count, sizeof *inputs);
    for (uint32_t v = 0; v < p->graph->value_count; v++)
        if (!remat_is_none(inputs[v]))
            add_buffer(p, v, p->persistent->items[inputs[v]].bytes, 0);
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
        const struct remat_fused_kernel *kernel = &p->kernels->kernels[p->order[at]];
        uint32_t end = p->complete_before ? p->complete_before[at] : at + 1;
        for (uint32_t o = 0; o < kernel->operand_count; o++) {
            const struct remat_kernel_operand *operand = &kernel->operands[o];
            uint32_t v = operand->value.i;
            if (operand->access == REMAT_ACCESS_WRITE)
                add_buffer(p, v, operand->bytes, at);
            else if (operand->access == REMAT_ACCESS_UPDATE)
                p->out->buffer_of[v] = p->out->buffer_of[operand->previous.i];
            uint32_t buffer = p->out->buffer_of[v];
            p->pinned[buffer] |= end > at + 1 && operand->access == REMAT_ACCESS_READ;
            if (p->out->buffers[buffer].end < end)
                p->out->buffers[buffer].end = end;
        }
    }
}

/* Without an optimizer the host reads the gradients. */
static void keep_gradients(struct placer *p)
{
    for (uint32_t v = 0; v < p->graph->value_count && p->graph->update_count == 0; v++) {
        if (p->graph->values[v].role != REMAT_ROLE_GRADIENT)
            continue;
        uint32_t buffer = p->out->buffer_of[remat_storage_root(p->graph, (remat_value){v}).i];
        if (remat_is_none(buffer))
            continue;
        p->out->buffers[buffer].end = p->kernels->count;
        p->pinned[buffer] = true;
    }
}

/* The result `w` of the kernel at position `at` moves into the buffer of operand `r`, which dies
 * there, unless it has moved already. */
static void share(struct placer *p, uint32_t at, uint32_t r, uint32_t w)
{
    const struct remat_fused_kernel *kernel = &p->kernels->kernels[p->order[at]];
    uint32_t mine = p->out->buffer_of[kernel->operands[w].value.i];
    uint32_t theirs = p->moved[p->out->buffer_of[kernel->operands[r].value.i]];
    struct remat_placed_buffer *own = &p->out->buffers[mine];
    struct remat_placed_buffer *other = &p->out->buffers[theirs];
    if (own->bytes == 0 || !remat_is_none(own->persistent))
        return;
    if (theirs == mine || !remat_is_none(other->persistent) || p->pinned[theirs] ||
        other->end != at + 1)
        return;
    other->end = own->end;
    p->pinned[theirs] = p->pinned[mine];
    own->bytes = 0;
    own->begin = own->end = at;
    p->moved[mine] = theirs; /* which was written earlier and so moves no more */
}

static void share_in_place(struct placer *p)
{
    for (uint32_t at = 0; at < p->kernels->count; at++) {
        const struct remat_fused_kernel *kernel = &p->kernels->kernels[p->order[at]];
        for (uint32_t s = 0; s < kernel->shared_count; s++)
            share(p, at, kernel->shared[s].read, kernel->shared[s].written);
    }
}

/* Drops the buffers that sharing has emptied and renumbers. */
static void compact(struct placer *p)
{
    uint32_t *renamed, count = 0;
    REMAT_NEW(p->arena, renamed, p->out->buffer_count);
    for (uint32_t b = 0; b < p->out->buffer_count; b++) {
        renamed[b] = count;
        if (p->out->buffers[b].bytes)
            p->out->buffers[count++] = p->out->buffers[b];
    }
    for (uint32_t v = 0; v < p->graph->value_count; v++)
        if (!remat_is_none(p->out->buffer_of[v]))
            p->out->buffer_of[v] = renamed[p->moved[p->out->buffer_of[v]]];
    p->out->buffer_count = count;
}

static void profile(struct placer *p)
{
    struct remat_lifespans *l = p->out;
    uint64_t *change;
    uint32_t count = p->kernels->count;
    l->live_peak_bytes = p->persistent->total_bytes;
    REMAT_NEW(p->arena, change, count + 1);
    REMAT_NEW(p->arena, l->live_bytes, count);
    for (uint32_t b = 0; b < l->buffer_count; b++) {
        const struct remat_placed_buffer *buffer = &l->buffers[b];
        if (!remat_is_none(buffer->persistent))
            continue;
        change[buffer->begin] += slot_bytes(buffer);
        change[buffer->end] -= slot_bytes(buffer); /* modulo 2^64 */
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
                                       const uint32_t *order, const uint32_t *complete_before,
                                       const struct remat_persistent *persistent,
                                       const uint32_t *inputs)
{
    struct remat_lifespans lifespans = {0};
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

static struct remat_slot *list_slots(struct remat_arena *arena,
                                     const struct remat_lifespans *lifespans, uint32_t *out_count)
{
    struct remat_slot *slots;
    *out_count = 0;
    REMAT_NEW(arena, slots, lifespans->buffer_count);
    for (uint32_t b = 0; b < lifespans->buffer_count; b++) {
        const struct remat_placed_buffer *buffer = &lifespans->buffers[b];
        if (remat_is_none(buffer->persistent))
            slots[(*out_count)++] =
                (struct remat_slot){buffer->begin, buffer->end, slot_bytes(buffer)};
    }
    return slots;
}

uint64_t remat_packed_bytes(struct remat_arena *arena, const struct remat_persistent *persistent,
                            const struct remat_lifespans *lifespans)
{
    uint32_t count;
    const struct remat_slot *slots = list_slots(arena, lifespans, &count);
    return persistent->total_bytes + remat_pack(arena, slots, count).arena_bytes;
}

remat_status remat_place(remat_context *ctx, struct remat_arena *arena,
                         const struct remat_persistent *persistent,
                         struct remat_lifespans *lifespans, uint64_t *out_arena_bytes)
{
    uint32_t count;
    const struct remat_slot *slots = list_slots(arena, lifespans, &count);
    struct remat_packing packing = remat_pack(arena, slots, count);
    remat_status st = remat_pack_check(ctx, slots, count, &packing);
    const uint64_t *offset = packing.offsets;
    for (uint32_t b = 0; b < lifespans->buffer_count; b++) {
        struct remat_placed_buffer *buffer = &lifespans->buffers[b];
        buffer->offset_bytes = remat_is_none(buffer->persistent)
                                   ? persistent->total_bytes + *offset++
                                   : persistent->items[buffer->persistent].offset_bytes;
    }
    *out_arena_bytes = persistent->total_bytes + packing.arena_bytes;
    return st;
}
