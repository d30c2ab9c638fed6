/* SPDX-License-Identifier: Apache-2.0 */
/* Transfers in flight: until the command that one is complete before, no other command writes what
 * it reads or uses what it writes. That holds for bytes of the arena, where a buffer that a
 * transfer uses counts as a whole; no buffer lies in the workspace. Commands come in order. The
 * buffers in flight are leaves of a binary tree, in the order of their offsets, and a node has the
 * one below it that ends last: one tree of what is read, one of what is written. */
#include "verify.h"

#include <assert.h>
#include <stdlib.h>

enum { SOURCE, RESULT, SIDES };

struct remat_flights {
    uint32_t *sorted;      /* buffers by offset */
    uint32_t *place_of;    /* [buffer], in `sorted` */
    uint32_t *last[SIDES]; /* trees of 2 * buffers: the leaves are the second half */
    uint32_t *by[SIDES];   /* [buffer]: the transfer that uses it for the longest */
    uint32_t *first_done;  /* [command + 1]: transfers that are complete before it, a list */
    uint32_t *next_done;   /* [command] */
    uint32_t count;        /* of transfers in flight */
};

/* --- the trees --- */

struct at_offset {
    uint64_t offset_bytes;
    uint32_t buffer;
};

static int compare_offsets(const void *a, const void *b)
{
    const struct at_offset *x = a, *y = b;
    if (x->offset_bytes != y->offset_bytes)
        return x->offset_bytes < y->offset_bytes ? -1 : 1;
    return x->buffer < y->buffer ? -1 : x->buffer > y->buffer;
}

remat_status remat_verify_flights_begin(struct remat_verifier *v)
{
    remat_status st = REMAT_OK;
    struct at_offset *items;
    const struct remat_program *p = v->program;
    struct remat_flights *f;
    REMAT_TRY_NEW(&v->scratch, f, 1);
    v->flights = f;
    REMAT_TRY_NEW(&v->scratch, items, p->buffer_count);
    REMAT_TRY_NEW(&v->scratch, f->sorted, p->buffer_count);
    REMAT_TRY_NEW(&v->scratch, f->place_of, p->buffer_count);
    REMAT_TRY_NEW(&v->scratch, f->first_done, (size_t)p->command_count + 1);
    REMAT_TRY_NEW(&v->scratch, f->next_done, p->command_count);
    memset(f->first_done, 0xff, ((size_t)p->command_count + 1) * sizeof *f->first_done);
    for (int side = 0; side < SIDES; side++) {
        REMAT_TRY_NEW(&v->scratch, f->last[side], 2 * (size_t)p->buffer_count);
        REMAT_TRY_NEW(&v->scratch, f->by[side], p->buffer_count);
        memset(f->last[side], 0xff, 2 * (size_t)p->buffer_count * sizeof *f->last[side]);
    }
    for (uint32_t b = 0; b < p->buffer_count; b++)
        items[b] = (struct at_offset){p->buffers[b].offset_bytes, b};
    qsort(items, p->buffer_count, sizeof *items, compare_offsets);
    for (uint32_t i = 0; i < p->buffer_count; i++) {
        f->sorted[i] = items[i].buffer;
        f->place_of[items[i].buffer] = i;
    }
fail:
    return st;
}

static uint64_t end_of(const struct remat_program *p, uint32_t buffer)
{
    return buffer == REMAT_NONE ? 0 : p->buffers[buffer].offset_bytes + p->buffers[buffer].bytes;
}

static uint32_t later(const struct remat_program *p, uint32_t a, uint32_t b)
{
    return end_of(p, a) >= end_of(p, b) ? a : b;
}

static void set_leaf(const struct remat_verifier *v, int side, uint32_t buffer, bool in_flight)
{
    uint32_t *last = v->flights->last[side];
    size_t node = (size_t)v->program->buffer_count + v->flights->place_of[buffer];
    last[node] = in_flight ? buffer : REMAT_NONE;
    while (node /= 2)
        last[node] = later(v->program, last[2 * node], last[2 * node + 1]);
}

/* A buffer in flight that has some of these bytes, or REMAT_NONE. */
static uint32_t find(const struct remat_verifier *v, int side, struct remat_byte_range bytes)
{
    const struct remat_program *p = v->program;
    const struct remat_flights *f = v->flights;
    uint32_t low = 0, high = p->buffer_count, found = REMAT_NONE;
    while (low < high) { /* as many buffers begin below the end */
        uint32_t middle = low + (high - low) / 2;
        bool below = p->buffers[f->sorted[middle]].offset_bytes < bytes.end;
        low = below ? middle + 1 : low;
        high = below ? high : middle;
    }
    size_t left = p->buffer_count, right = left + low;
    for (; left < right; left /= 2, right /= 2) {
        if (left % 2)
            found = later(p, found, f->last[side][left++]);
        if (right % 2)
            found = later(p, found, f->last[side][--right]);
    }
    return end_of(p, found) > bytes.begin ? found : REMAT_NONE;
}

/* --- a command --- */

static uint32_t buffer_of(const struct remat_program *p, uint32_t transfer, int side)
{
    const struct remat_operand *o = &p->operands[p->commands[transfer].operand_begin + side];
    return p->values[o->value].buffer;
}

static void complete(const struct remat_verifier *v, uint32_t command)
{
    const struct remat_program *p = v->program;
    struct remat_flights *f = v->flights;
    for (uint32_t t = f->first_done[command]; t != REMAT_NONE; t = f->next_done[t], f->count--)
        for (int side = 0; side < SIDES; side++)
            if (p->commands[f->by[side][buffer_of(p, t, side)]].complete_before <= command)
                set_leaf(v, side, buffer_of(p, t, side), false);
}

static remat_status refuse(struct remat_verifier *v, uint32_t index, uint32_t k, int side,
                           uint32_t buffer)
{
    const struct remat_program *p = v->program;
    const struct remat_command *c = &p->commands[index];
    const struct remat_operand *o = &p->operands[c->operand_begin + k];
    struct remat_byte_range bytes = remat_verify_range(v, o, k);
    uint32_t transfer = v->flights->by[side][buffer];
    return remat_verify_error(
        v, "commands", index, c->name,
        "operand %u %s bytes [%llu, %llu) of the arena, in \"%.100s\", but commands[%u] \"%.100s\" "
        "%s some of them until command %u",
        k, o->access == REMAT_ACCESS_READ ? "reads" : "writes", (ull)bytes.begin, (ull)bytes.end,
        p->values[o->value].name, transfer, p->commands[transfer].name,
        side == SOURCE ? "reads" : "writes", p->commands[transfer].complete_before);
}

static remat_status start(struct remat_verifier *v, uint32_t index)
{
    const struct remat_program *p = v->program;
    const struct remat_command *c = &p->commands[index];
    struct remat_flights *f = v->flights;
    for (uint32_t side = 0; side < SIDES; side++) {
        uint32_t b = buffer_of(p, index, (int)side);
        const struct remat_buffer *buffer = &p->buffers[b];
        if (!buffer->persistent && buffer->end < c->complete_before)
            return remat_verify_error(
                v, "commands", index, c->name,
                "complete before command %u, but the buffer %u of \"%.100s\" lives only in [%u, "
                "%u)",
                c->complete_before, b, p->values[p->operands[c->operand_begin + side].value].name,
                buffer->begin, buffer->end);
        bool longest = f->last[side][p->buffer_count + f->place_of[b]] == REMAT_NONE ||
                       p->commands[f->by[side][b]].complete_before < c->complete_before;
        if (longest)
            f->by[side][b] = index;
        set_leaf(v, (int)side, b, true);
    }
    f->next_done[index] = f->first_done[c->complete_before];
    f->first_done[c->complete_before] = index;
    f->count++;
    return REMAT_OK;
}

remat_status remat_verify_flights(struct remat_verifier *v, uint32_t index)
{
    assert(index < v->program->command_count);
    const struct remat_program *p = v->program;
    const struct remat_command *c = &p->commands[index];
    complete(v, index);
    for (uint32_t k = 0; v->flights->count && k < c->operand_end - c->operand_begin; k++) {
        const struct remat_operand *o = &p->operands[c->operand_begin + k];
        for (int side = o->access == REMAT_ACCESS_READ ? RESULT : SOURCE; side < SIDES; side++) {
            uint32_t buffer = find(v, side, remat_verify_range(v, o, k));
            if (buffer != REMAT_NONE)
                return refuse(v, index, k, side, buffer);
        }
    }
    return c->complete_before ? start(v, index) : REMAT_OK;
}
