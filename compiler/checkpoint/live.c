/* SPDX-License-Identifier: Apache-2.0 */
#include "live.h"

#include "rebuild.h"

struct builder {
    const struct remat_settled *s;
    struct remat_live *out;
    uint32_t *begin, *end; /* by value: kernels at which it is live in every decision */
};

/* The root that an operand reads, none where it only writes. */
static remat_value read_root(const struct remat_kernel_operand *o)
{
    return o->access == REMAT_ACCESS_WRITE    ? REMAT_NO_VALUE
           : o->access == REMAT_ACCESS_UPDATE ? o->previous
                                              : o->value;
}

static bool is_made(const struct builder *b, remat_value root)
{
    return !remat_is_none(root.i) && !remat_is_none(remat_settled_writer(b->s, root).i);
}

/* The optimizer's kernels wait for what they read. */
static uint32_t find_place(const struct builder *b, uint32_t k)
{
    const struct remat_fused_kernel *kernel = &b->s->kernels->kernels[k];
    uint32_t place = 0;
    if (kernel->phase != REMAT_PHASE_OPTIMIZER)
        return k;
    for (uint32_t o = 0; o < kernel->operand_count; o++) {
        remat_value read = read_root(&kernel->operands[o]);
        uint32_t made = is_made(b, read) ? b->out->place[remat_settled_writer(b->s, read).i] : 0;
        place = made > place ? made : place;
    }
    return place;
}

/* What a fused kernel writes may lie where something lay that it reads. */
static void add_kernel(struct builder *b, uint32_t k)
{
    const struct remat_fused_kernel *kernel = &b->s->kernels->kernels[k];
    uint32_t place = b->out->place[k] = find_place(b, k);
    for (uint32_t o = 0; o < kernel->operand_count; o++) {
        uint32_t read = read_root(&kernel->operands[o]).i, written = kernel->operands[o].value.i;
        if (!remat_is_none(read) && b->end[read] <= place)
            b->end[read] = place + 1;
        if (remat_is_none(read) && kernel->phase != REMAT_PHASE_OPTIMIZER) {
            b->begin[written] = k + (kernel->kind == REMAT_KERNEL_fused);
            b->end[written] = k + 1;
        }
    }
}

static void add_value(struct builder *b, remat_value v)
{
    struct remat_live *l = b->out;
    const struct remat_value_info *info = &b->s->graph->values[v.i];
    uint64_t bytes = remat_align_up(remat_storage_bytes(info), REMAT_ALIGNMENT);
    uint32_t written = remat_settled_writer(b->s, v).i;
    if (remat_is_candidate(b->s, v)) {
        l->bytes[v.i] = bytes;
        l->saved[v.i] = written < l->first ? l->first : written + 1;
    } else if (b->begin[v.i] < b->end[v.i]) {
        l->fixed_bytes[b->begin[v.i]] += bytes;
        l->fixed_bytes[b->end[v.i]] -= bytes; /* modulo 2^64 */
    }
}

struct remat_live remat_live_create(struct remat_arena *arena, const struct remat_settled *settled)
{
    const struct remat_graph *g = settled->graph;
    uint32_t count = settled->kernels->count;
    struct remat_live out = {.kernel_count = count, .value_count = g->value_count};
    struct builder b = {.s = settled, .out = &out};
    struct remat_arena *scratch = remat_scratch_open(arena->ctx);
    const bool *kept = remat_find_kept(scratch, g);
    REMAT_NEW(arena, out.place, count);
    REMAT_NEW(arena, out.fixed_bytes, count + 1);
    REMAT_NEW(arena, out.change, count + 1);
    REMAT_NEW(arena, out.bytes, g->value_count);
    REMAT_NEW(arena, out.saved, g->value_count);
    REMAT_NEW(arena, out.next, g->value_count);
    REMAT_NEW(scratch, b.begin, g->value_count);
    REMAT_NEW(scratch, b.end, g->value_count);
    memset(b.begin, 0xff, g->value_count * sizeof *b.begin);
    while (out.first < count && settled->kernels->kernels[out.first].phase == REMAT_PHASE_FORWARD)
        out.first++;
    for (uint32_t k = 0; k < count; k++)
        add_kernel(&b, k);
    for (uint32_t v = 0; v < g->value_count && g->update_count == 0; v++)
        if (g->values[v].role == REMAT_ROLE_GRADIENT) /* the host reads them */
            b.end[settled->facts.root[v].i] = count;
    for (remat_value v = {0}; v.i < g->value_count; v.i++)
        if (is_made(&b, v) && !kept[v.i] && !settled->facts.output[v.i])
            add_value(&b, v);
    for (uint32_t k = 0; k < count; k++) {
        out.fixed_bytes[k + 1] += out.fixed_bytes[k];
        if (out.fixed_bytes[k] > out.fixed_most)
            out.fixed_most = out.fixed_bytes[k];
    }
    remat_scratch_close(scratch);
    return out;
}

void remat_live_begin(struct remat_live *l)
{
    memset(l->change, 0, (l->kernel_count + 1) * sizeof *l->change);
    memcpy(l->next, l->saved, l->value_count * sizeof *l->next);
}

void remat_live_read(struct remat_live *l, remat_value candidate, uint32_t kernel)
{
    uint32_t *next = &l->next[candidate.i];
    if (kernel < *next)
        return;
    l->change[*next] += l->bytes[candidate.i];
    l->change[kernel + 1] -= l->bytes[candidate.i];
    *next = kernel + 1;
}

struct remat_live_bytes remat_live_most(const struct remat_live *l)
{
    struct remat_live_bytes out = {0};
    uint64_t bytes = 0;
    for (uint32_t k = l->first; k < l->kernel_count; k++) {
        bytes += l->change[k];
        uint64_t here = bytes + l->fixed_bytes[k];
        out.at_loss = k == l->first ? here : out.at_loss;
        out.most = here > out.most ? here : out.most;
    }
    return out;
}
