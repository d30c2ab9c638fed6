/* SPDX-License-Identifier: Apache-2.0 */
/* Transfers in flight: each pair of accesses to the same bytes, of which one writes, is ordered. A
 * transfer is ordered after all computation before it, after the groups before it on its link, and
 * after what its group waits for. A command of computation is ordered after the transfers that are
 * complete before it, and both after all that these are ordered after. So what a command knows is a
 * number for each link: that of the last transfer there which is complete (a vector clock).
 *
 * That holds for bytes of the arena, where a buffer that a transfer uses counts as a whole; no
 * buffer lies in the workspace. Commands come in order. A tree for each link and side has the
 * number of the last transfer that reads, or writes, each range of bytes between two ends of
 * buffers: if it is known, so are all before it. */
#include "verify.h"

#include <assert.h>
#include <stdlib.h>

enum { SOURCE, RESULT, SIDES, LINKS = REMAT_MESH_AXES_MAX };

struct flight_tree { /* 2 * points: the leaves, ranges from a point to the next, are the second half
                      */
    uint32_t *all;   /* the last transfer of all leaves below */
    uint32_t *some;  /* of some leaf below */
};

struct clock { /* by link: one more than the last transfer there that is complete */
    uint32_t known[LINKS];
};

struct remat_flights {
    uint64_t *points;
    uint32_t point_count;
    struct flight_tree trees[LINKS][SIDES];
    struct clock computation;
    struct clock *at_start; /* [command] of a transfer */
    uint32_t last[LINKS];   /* one more than the last transfer so far */
    uint32_t *first_done;   /* [command + 1]: transfers that are complete before it, a list */
    uint32_t *next_done;    /* [command] */
};

static int compare_offsets(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static remat_status find_points(struct remat_verifier *v)
{
    remat_status st = REMAT_OK;
    const struct remat_program *p = v->program;
    struct remat_flights *f = v->flights;
    uint32_t count = 0;
    REMAT_TRY_NEW(&v->scratch, f->points, 2 * (size_t)p->buffer_count + 1);
    for (uint32_t b = 0; b < p->buffer_count; b++) {
        f->points[count++] = p->buffers[b].offset_bytes;
        f->points[count++] = p->buffers[b].offset_bytes + p->buffers[b].bytes;
    }
    qsort(f->points, count, sizeof *f->points, compare_offsets);
    for (uint32_t i = 0; i < count; i++)
        if (f->point_count == 0 || f->points[f->point_count - 1] != f->points[i])
            f->points[f->point_count++] = f->points[i];
fail:
    return st;
}

remat_status remat_verify_flights_begin(struct remat_verifier *v)
{
    remat_status st = REMAT_OK;
    const struct remat_program *p = v->program;
    struct remat_flights *f;
    REMAT_TRY_NEW(&v->scratch, f, 1);
    v->flights = f;
    REMAT_TRY(find_points(v));
    for (uint32_t link = 0; link < p->mesh_count; link++)
        for (int side = 0; side < SIDES; side++) {
            struct flight_tree *tree = &f->trees[link][side];
            REMAT_TRY_NEW(&v->scratch, tree->all, 2 * (size_t)f->point_count);
            REMAT_TRY_NEW(&v->scratch, tree->some, 2 * (size_t)f->point_count);
        }
    REMAT_TRY_NEW(&v->scratch, f->at_start, p->command_count);
    REMAT_TRY_NEW(&v->scratch, f->first_done, (size_t)p->command_count + 1);
    REMAT_TRY_NEW(&v->scratch, f->next_done, p->command_count);
    memset(f->first_done, 0xff, ((size_t)p->command_count + 1) * sizeof *f->first_done);
fail:
    return st;
}

/* --- the trees --- */

static uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

/* The points below an offset. */
static uint32_t points_below(const struct remat_flights *f, uint64_t offset)
{
    uint32_t low = 0, high = f->point_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        bool below = f->points[middle] < offset;
        low = below ? middle + 1 : low;
        high = below ? high : middle;
    }
    return low;
}

/* `number` is larger than all before. */
static void note(const struct remat_flights *f, struct flight_tree *tree,
                 const struct remat_buffer *buffer, uint32_t number)
{
    size_t begin = f->point_count + (size_t)points_below(f, buffer->offset_bytes);
    size_t end = f->point_count + (size_t)points_below(f, buffer->offset_bytes + buffer->bytes);
    for (size_t left = begin, right = end; left < right; left /= 2, right /= 2) {
        if (left % 2)
            tree->all[left] = tree->some[left] = number, left++;
        if (right % 2)
            --right, tree->all[right] = tree->some[right] = number;
    }
    for (size_t node = begin / 2; begin < end && node; node /= 2)
        tree->some[node] = number;
    for (size_t node = (end - 1) / 2; begin < end && node; node /= 2)
        tree->some[node] = number;
}

/* The last transfer that uses some of the bytes; 0: there is none. */
static uint32_t find(const struct remat_flights *f, const struct flight_tree *tree,
                     struct remat_byte_range bytes)
{
    uint32_t found = 0, below = points_below(f, bytes.begin + 1); /* at least 1 in a buffer */
    size_t begin = f->point_count + (size_t)(below ? below - 1 : 0);
    size_t end = f->point_count + (size_t)points_below(f, bytes.end);
    for (size_t left = begin, right = end; left < right; left /= 2, right /= 2) {
        if (left % 2)
            found = larger(found, tree->some[left++]);
        if (right % 2)
            found = larger(found, tree->some[--right]);
    }
    for (size_t node = begin / 2; begin < end && node; node /= 2)
        found = larger(found, tree->all[node]);
    for (size_t node = (end - 1) / 2; begin < end && node; node /= 2)
        found = larger(found, tree->all[node]);
    return found;
}

/* --- the clocks --- */

static void learn(struct clock *clock, const struct clock *other)
{
    for (uint32_t link = 0; link < LINKS; link++)
        clock->known[link] = larger(clock->known[link], other->known[link]);
}

/* A transfer is complete. */
static void learn_of(const struct remat_verifier *v, struct clock *clock, uint32_t transfer)
{
    uint32_t *known = &clock->known[remat_command_link(v->program, transfer)];
    learn(clock, &v->flights->at_start[transfer]);
    *known = larger(*known, transfer + 1);
}

/* All of a group start at once. */
static void start_clock(const struct remat_verifier *v, uint32_t index)
{
    const struct remat_command *c = &v->program->commands[index];
    struct remat_flights *f = v->flights;
    uint32_t *last = &f->last[remat_command_link(v->program, index)];
    struct clock *clock = &f->at_start[index];
    *clock = c->continues_group ? f->at_start[index - 1] : f->computation;
    if (!c->continues_group && *last)
        learn_of(v, clock, *last - 1);
    if (c->waits_for)
        learn_of(v, clock, c->waits_for - 1);
    *last = index + 1;
}

/* --- a command --- */

static const struct remat_buffer *buffer_of(const struct remat_program *p, uint32_t transfer,
                                            int side)
{
    const struct remat_operand *o = &p->operands[p->commands[transfer].operand_begin + side];
    return &p->buffers[p->values[o->value].buffer];
}

static remat_status refuse(struct remat_verifier *v, uint32_t index, uint32_t k, int side,
                           uint32_t transfer)
{
    const struct remat_program *p = v->program;
    const struct remat_command *c = &p->commands[index];
    const struct remat_operand *o = &p->operands[c->operand_begin + k];
    struct remat_byte_range bytes = remat_verify_range(v, o, k);
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
    for (int side = 0; side < SIDES; side++) {
        const struct remat_buffer *buffer = buffer_of(p, index, side);
        if (!buffer->persistent && buffer->end < c->complete_before)
            return remat_verify_error(
                v, "commands", index, c->name,
                "complete before command %u, but the buffer %u of \"%.100s\" lives only in [%u, "
                "%u)",
                c->complete_before, (uint32_t)(buffer - p->buffers),
                p->values[p->operands[c->operand_begin + side].value].name, buffer->begin,
                buffer->end);
        note(f, &f->trees[remat_command_link(p, index)][side], buffer, index + 1);
    }
    f->next_done[index] = f->first_done[c->complete_before];
    f->first_done[c->complete_before] = index;
    return REMAT_OK;
}

remat_status remat_verify_flights(struct remat_verifier *v, uint32_t index)
{
    assert(index < v->program->command_count);
    const struct remat_program *p = v->program;
    const struct remat_command *c = &p->commands[index];
    struct remat_flights *f = v->flights;
    for (uint32_t t = f->first_done[index]; t != REMAT_NONE; t = f->next_done[t])
        learn_of(v, &f->computation, t);
    if (c->complete_before)
        start_clock(v, index);
    const uint32_t *known = (c->complete_before ? &f->at_start[index] : &f->computation)->known;
    for (uint32_t k = 0; k < c->operand_end - c->operand_begin; k++) {
        const struct remat_operand *o = &p->operands[c->operand_begin + k];
        for (uint32_t link = 0; link < p->mesh_count; link++)
            for (int side = o->access == REMAT_ACCESS_READ ? RESULT : SOURCE; side < SIDES;
                 side++) {
                const struct flight_tree *tree = &f->trees[link][side];
                uint32_t number = find(f, tree, remat_verify_range(v, o, k));
                if (number > known[link])
                    return refuse(v, index, k, side, number - 1);
            }
    }
    return c->complete_before ? start(v, index) : REMAT_OK;
}
