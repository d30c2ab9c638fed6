/* SPDX-License-Identifier: Apache-2.0 */
#include "live.h"

#include "rebuild.h"

/* The result of a fused kernel may lie where something lay that it reads. */
static void add_kernel(struct remat_live *l, const struct remat_settled *s, remat_kernel_id k)
{
    const struct remat_kernel_info *kernel = remat_kernel_at(s->kernels, k);
    bool in_order = remat_turn_of(kernel) == REMAT_TURN_IN_ORDER;
    remat_kernel_id turn = l->turns.after[k.i];
    for (uint32_t o = 0; o < kernel->operand_count; o++) {
        remat_value read = remat_operand_read(&kernel->operands[o]);
        remat_value v = remat_is_none(read.i) ? kernel->operands[o].value : read;
        l->last[v.i].i = l->last[v.i].i < turn.i ? turn.i : l->last[v.i].i;
        if (remat_in_forward_pass(kernel->phase))
            l->last_early[v.i] = turn;
        if (remat_is_none(read.i) && in_order)
            l->begin[v.i].i =
                k.i + (kernel->kind == REMAT_KERNEL_fused &&
                       (kernel->phase != REMAT_PHASE_LOSS || remat_kernel_may_share(kernel, o)));
    }
}

static void add_value(struct remat_live *l, const struct remat_settled *s, remat_value v)
{
    uint64_t bytes = remat_aligned_bytes(remat_storage_bytes(&s->graph->values[v.i]));
    bool candidate = remat_is_candidate(s, v);
    uint64_t *live_bytes = candidate ? l->early_bytes : l->fixed_bytes;
    remat_kernel_id *begin = &l->begin[v.i];
    uint32_t end = 1 + (candidate ? l->last_early[v.i].i : l->last[v.i].i);
    if (begin->i < end) {
        live_bytes[begin->i] += bytes;
        live_bytes[end] -= bytes; /* modulo 2^64 */
    }
    if (candidate) {
        l->bytes[v.i] = bytes;
        begin->i = begin->i < l->first.i ? l->first.i : begin->i;
        begin->i = begin->i < end ? end : begin->i;
    }
}

/* Operands of a kernel, each once, that lie in transient memory in every decision: what it reads,
 * and what a built-in kernel writes. `first`: those that a kernel makes that runs first, or all
 * others. */
static uint64_t own_bytes(const struct remat_live *l, const struct remat_settled *s,
                          const struct remat_kernel_info *kernel, bool first)
{
    uint64_t bytes = 0;
    for (uint32_t o = 0; o < kernel->operand_count; o++) {
        remat_value v = kernel->operands[o].value;
        remat_kernel_id writer = remat_settled_writer(s, v);
        bool read = kernel->operands[o].access == REMAT_ACCESS_READ;
        bool counts = !remat_is_none(writer.i) && !s->facts.output[v.i] &&
                      !remat_is_candidate(s, v) && (read || kernel->kind != REMAT_KERNEL_fused) &&
                      l->turns.first[writer.i] == first;
        for (uint32_t before = 0; before < o && counts; before++)
            counts = kernel->operands[before].value.i != v.i;
        bytes += counts ? remat_aligned_bytes(remat_storage_bytes(&s->graph->values[v.i])) : 0;
    }
    return bytes;
}

/* What is live while a kernel of the optimizer runs, whenever that is. A value of a kernel that
 * runs first is there up to its last reader, so also while what that reader reads is made. */
static uint64_t optimizer_bytes(const struct remat_live *l, const struct remat_settled *s,
                                const struct remat_kernel_info *kernel)
{
    uint64_t first_bytes = own_bytes(l, s, kernel, true);
    uint64_t most = own_bytes(l, s, kernel, false) + first_bytes;
    for (uint32_t o = 0; o < kernel->operand_count; o++) {
        remat_value v = kernel->operands[o].value;
        remat_kernel_id writer = remat_settled_writer(s, v);
        const struct remat_kernel_info *made =
            remat_is_none(writer.i) ? NULL : remat_kernel_at(s->kernels, writer);
        if (kernel->operands[o].access == REMAT_ACCESS_READ && made &&
            made->phase == REMAT_PHASE_OPTIMIZER && !l->turns.first[writer.i])
            remat_keep_most(&most, own_bytes(l, s, made, false) + first_bytes);
    }
    return most;
}

/* Beside what is fixed a built-in kernel has its own candidates, each once. */
static uint64_t find_floor(struct remat_live *l, const struct remat_settled *s)
{
    for (remat_kernel_id k = {0}; k.i < l->kernel_count; k.i++) {
        const struct remat_kernel_info *kernel = remat_kernel_at(s->kernels, k);
        for (uint32_t o = 0; o < kernel->operand_count && kernel->kind != REMAT_KERNEL_fused; o++) {
            remat_value v = kernel->operands[o].value;
            if (l->next[v.i].i > k.i || l->last_early[v.i].i >= k.i)
                continue;
            remat_live_make(l, v, k);
            remat_live_read(l, v, k);
        }
    }
    return remat_live_end(l);
}

struct remat_live remat_live_create(struct remat_arena *arena, const struct remat_settled *s)
{
    const struct remat_graph *g = s->graph;
    uint32_t count = s->kernels->count, values = g->value_count;
    struct remat_live out = {.kernel_count = count,
                             .turns = remat_turns_find(arena, g, s->kernels)};
    REMAT_NEW(arena, out.last, values);
    REMAT_NEW(arena, out.last_early, values);
    REMAT_NEW(arena, out.fixed_bytes, count + 1);
    REMAT_NEW(arena, out.early_bytes, count + 1);
    REMAT_NEW(arena, out.change, count + 1);
    REMAT_NEW(arena, out.bytes, values);
    REMAT_NEW(arena, out.begin, values);
    REMAT_NEW(arena, out.next, values);
    memset(out.begin, 0xff, values * sizeof *out.begin);
    while (out.first.i < count &&
           remat_kernel_at(s->kernels, out.first)->phase == REMAT_PHASE_FORWARD)
        out.first.i++;
    for (remat_kernel_id k = {0}; k.i < count; k.i++)
        add_kernel(&out, s, k);
    for (uint32_t v = 0; v < values && g->update_count == 0; v++)
        if (g->values[v].role == REMAT_ROLE_GRADIENT) /* the host reads them at the end */
            out.last[s->facts.root[v].i].i = count - 1;
    for (remat_value v = {0}; v.i < values; v.i++) {
        if (!remat_is_none(remat_settled_writer(s, v).i) && !s->facts.output[v.i])
            add_value(&out, s, v);
        if (remat_is_candidate(s, v))
            REMAT_PUSH(arena, &out.candidates, v);
    }
    for (uint32_t k = 0; k < count; k++) {
        out.fixed_bytes[k + 1] += out.fixed_bytes[k];
        out.early_bytes[k + 1] += out.early_bytes[k];
    }
    out.floor_bytes = find_floor(&out, s);
    for (remat_kernel_id k = {0}; k.i < count; k.i++)
        if (remat_kernel_at(s->kernels, k)->phase == REMAT_PHASE_OPTIMIZER)
            remat_keep_most(&out.floor_bytes,
                            optimizer_bytes(&out, s, remat_kernel_at(s->kernels, k)));
    return out;
}

void remat_live_begin(struct remat_live *l)
{
    memset(l->change, 0, (l->kernel_count + 1) * sizeof *l->change);
    for (size_t c = 0; c < l->candidates.count; c++) {
        remat_value v = l->candidates.items[c];
        l->next[v.i] = l->begin[v.i];
    }
}

void remat_live_keep(struct remat_live *l, remat_value candidate, uint64_t kept_bytes,
                     remat_kernel_id kernel)
{
    remat_kernel_id begin = l->begin[candidate.i];
    remat_live_make(l, candidate, kernel);
    if (begin.i >= kernel.i)
        return;
    l->change[begin.i] += kept_bytes;
    l->change[kernel.i] -= kept_bytes;
}

void remat_live_read(struct remat_live *l, remat_value candidate, remat_kernel_id kernel)
{
    remat_kernel_id *next = &l->next[candidate.i], end = {l->turns.after[kernel.i].i + 1};
    if (end.i <= next->i)
        return;
    l->change[next->i] += l->bytes[candidate.i];
    l->change[end.i] -= l->bytes[candidate.i];
    *next = end;
}

uint64_t remat_live_end(const struct remat_live *l)
{
    uint64_t most = 0, bytes = 0;
    for (uint32_t k = 0; k < l->kernel_count; k++) {
        bytes += l->change[k];
        remat_keep_most(&most, bytes + l->fixed_bytes[k] + l->early_bytes[k]);
    }
    return most;
}
