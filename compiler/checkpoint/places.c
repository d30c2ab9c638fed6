/* SPDX-License-Identifier: Apache-2.0 */
#include "places.h"

#include "overlap.h"
#include "turn.h"

#include <assert.h>

struct place_finder {
    const struct remat_settled *s;
    struct remat_places *out;
    remat_kernel_id *writer; /* by value: the kernel that makes it last */
    bool *delayed;           /* by kernel: it is, or waits for, a transfer that delays readers */
};

static bool waits_for_nothing(const struct place_finder *f, const struct remat_kernel_info *kernel)
{
    return remat_kernel_kind_is_transfer(kernel->kind) &&
           remat_is_none(f->writer[kernel->operands[0].value.i].i);
}

/* Of what the kernel reads it follows the writers: those of a fixed place, and what those without
 * one follow. */
static void find_begin(struct place_finder *f, remat_kernel_id k)
{
    const struct remat_kernel_info *kernel = remat_kernel_at(f->s->kernels, k);
    uint32_t begin = 0;
    bool delayed = remat_delays_readers(f->s->graph, kernel);
    for (uint32_t o = 0; o < kernel->operand_count; o++) {
        remat_value read = remat_operand_read(&kernel->operands[o]);
        remat_kernel_id w = remat_is_none(read.i) ? REMAT_NO_KERNEL : f->writer[read.i];
        if (remat_is_none(w.i))
            continue;
        uint32_t after = f->out->fixed[w.i] ? w.i + 1 : f->out->begin[w.i];
        begin = after > begin ? after : begin;
        delayed |= f->delayed[w.i];
    }
    f->delayed[k.i] = delayed;
    f->out->fixed[k.i] = !delayed && !waits_for_nothing(f, kernel) &&
                         (f->out->streams[k.i] & 1u << REMAT_STREAM_COMPUTATION) &&
                         remat_turn_of(kernel) == REMAT_TURN_IN_ORDER;
    f->out->begin[k.i] = f->out->fixed[k.i] ? k.i : begin;
    for (uint32_t o = 0; o < kernel->operand_count; o++)
        if (kernel->operands[o].access & REMAT_ACCESS_WRITE)
            f->writer[kernel->operands[o].value.i] = k;
}

/* No decision changes that the forward pass and the loss read a value from where it was made, nor
 * that other kernels read one that is no candidate. */
static void find_end(struct place_finder *f, remat_kernel_id k)
{
    const struct remat_kernel_info *kernel = remat_kernel_at(f->s->kernels, k);
    bool early = remat_kernel_in_forward_pass(f->s->kernels, k);
    uint32_t end = f->out->fixed[k.i] ? k.i : f->out->end[k.i];
    f->out->end[k.i] = end;
    for (uint32_t o = 0; o < kernel->operand_count; o++) {
        remat_value read = remat_operand_read(&kernel->operands[o]);
        remat_kernel_id w = remat_is_none(read.i) ? REMAT_NO_KERNEL : f->writer[read.i];
        bool always = !remat_is_none(read.i) && (early || !remat_is_candidate(f->s, read));
        if (!remat_is_none(w.i) && always && end < f->out->end[w.i])
            f->out->end[w.i] = end;
    }
}

struct remat_places remat_places_find(struct remat_arena *arena, const struct remat_settled *s)
{
    uint32_t count = s->kernels->count, values = s->graph->value_count;
    struct remat_places out = {0};
    struct place_finder f = {.s = s, .out = &out};
    REMAT_NEW(arena, out.streams, count);
    for (remat_kernel_id k = {0}; k.i < count; k.i++) {
        out.streams[k.i] =
            (uint8_t)remat_streams_occupied(s->graph, remat_kernel_at(s->kernels, k));
        out.divided |= !(out.streams[k.i] & 1u << REMAT_STREAM_COMPUTATION);
    }
    if (!out.divided)
        return out;
    REMAT_NEW(arena, out.fixed, count);
    REMAT_NEW(arena, out.begin, count);
    REMAT_NEW(arena, out.end, count);
    REMAT_NEW(arena, f.delayed, count);
    REMAT_NEW_UNINITIALIZED(arena, f.writer, values);
    memset(f.writer, 0xff, values * sizeof *f.writer);
    for (remat_kernel_id k = {0}; k.i < count; k.i++) {
        find_begin(&f, k);
        out.end[k.i] = count;
    }
    for (remat_kernel_id k = {count}; k.i-- > 0;)
        find_end(&f, k);
    return out;
}

enum remat_half remat_places_half(const struct remat_places *places, remat_kernel_id point,
                                  remat_kernel_id kernel)
{
    assert(places->fixed[point.i]);
    if (places->end[kernel.i] <= point.i)
        return REMAT_HALF_FIRST;
    return places->begin[kernel.i] > point.i ? REMAT_HALF_SECOND : REMAT_HALF_EITHER;
}
