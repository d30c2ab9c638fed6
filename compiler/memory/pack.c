/* SPDX-License-Identifier: Apache-2.0 */
/* Slots fall into parts, between moments at which nothing lives; each is packed for itself. For a
 * part there is a ladder of attempts, cheapest first; the lowest result is kept. */
#include "pack.h"

#include "instance.h"

enum {
    PERTURBED_MAX = 4000,     /* more slots get the keys only */
    PERTURBED_SLOTS = 500000, /* slots packed by all perturbations together */
    PERTURBATIONS_MAX = 1000,
    FRUITLESS_SLOTS = 100000, /* by so many in a row that gain nothing, and no more are tried */
};

static const char *const keys[] = {"OZ", "TAW", "TWA", "L", "WAT", "AT", "TZW", "ZAT"};
enum { KEY_COUNT = sizeof keys / sizeof *keys };

/* Shared by the attempts on one part. All memory is of the scratch arena; offsets are indexed by
 * slot of the instance. */
struct packer_state {
    const struct remat_instance *in;
    struct remat_skyline *skyline;
    struct remat_ranked *ranked;
    remat_slot_id *order, *last_order;               /* to try; of the last attempt that was kept */
    uint64_t *offsets, *last_offsets, *best_offsets; /* best: the first of least height */
    uint64_t best_bytes;                             /* UINT64_MAX at first */
};

static struct packer_state prepare(struct remat_arena *scratch, const struct remat_instance *in)
{
    struct packer_state s = {.in = in, .best_bytes = UINT64_MAX};
    s.skyline = remat_skyline_create(scratch, in);
    REMAT_NEW(scratch, s.ranked, in->count);
    REMAT_NEW(scratch, s.order, in->count);
    REMAT_NEW(scratch, s.last_order, in->count);
    REMAT_NEW(scratch, s.offsets, in->count);
    REMAT_NEW(scratch, s.last_offsets, in->count);
    REMAT_NEW(scratch, s.best_offsets, in->count);
    return s;
}

/* Packs in s->order; a height below bound_bytes is kept as the last, one below the best as that. */
static void attempt(struct packer_state *s, uint64_t bound_bytes)
{
    uint64_t bytes = remat_skyline_pack(s->skyline, s->order, bound_bytes, s->offsets);
    if (bytes >= bound_bytes)
        return;
    remat_slot_id *order = s->last_order;
    uint64_t *offsets = s->last_offsets;
    s->last_order = s->order, s->order = order;
    s->last_offsets = s->offsets, s->offsets = offsets;
    if (bytes < s->best_bytes) {
        memcpy(s->best_offsets, s->last_offsets, s->in->count * sizeof *offsets);
        s->best_bytes = bytes;
    }
}

static void try_keys(struct packer_state *s)
{
    for (int k = 0; k < KEY_COUNT && s->best_bytes > s->in->live_peak_bytes; k++) {
        remat_order_by_key(s->in, keys[k], s->ranked, s->order);
        attempt(s, s->best_bytes);
    }
}

static uint64_t draw(uint64_t *seed, uint64_t bound) /* splitmix64 */
{
    uint64_t z = *seed += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (z ^ (z >> 31)) % bound;
}

/* The last order kept with slots moved forward: up to eight or so at random, or (above) those that
 * end above the live peak. A place is a rank in units of 1/1024. */
static void perturb_order(struct packer_state *s, uint64_t *seed)
{
    uint32_t count = s->in->count, few = 1 + (uint32_t)draw(seed, 8);
    bool above = draw(seed, 2);
    uint64_t scale = draw(seed, 1024);
    for (uint32_t rank = 0; rank < count; rank++) {
        remat_slot_id slot = s->last_order[rank];
        uint64_t top = s->last_offsets[slot.i] + s->in->slots[slot.i].bytes;
        uint64_t place = rank * UINT64_C(1024);
        if (above && top > s->in->live_peak_bytes)
            place = rank * scale;
        else if (!above && draw(seed, count) < few)
            place = rank * draw(seed, 1024);
        s->ranked[rank] = (struct remat_ranked){{UINT64_MAX - place, 0, 0}, slot};
    }
    remat_sort_ranked(s->ranked, count, s->order);
}

/* Climbs from the best attempt; a change that keeps the height is taken as well. */
static void run_perturbations(struct packer_state *s)
{
    if (s->in->count == 0 || s->in->count > PERTURBED_MAX)
        return;
    uint64_t seed = 1;
    uint32_t rounds = PERTURBED_SLOTS / s->in->count;
    if (rounds > PERTURBATIONS_MAX)
        rounds = PERTURBATIONS_MAX;
    uint32_t last = 0; /* that was lower */
    for (uint32_t k = 0; k < rounds && s->best_bytes > s->in->live_peak_bytes; k++) {
        uint64_t bytes = s->best_bytes;
        if ((k - last) * s->in->count > FRUITLESS_SLOTS)
            return;
        perturb_order(s, &seed);
        attempt(s, bytes + 1);
        last = s->best_bytes < bytes ? k : last;
    }
}

/* After the part that begins with slot `first`. */
static uint32_t part_end(const struct remat_instance *in, uint32_t first)
{
    uint32_t slot = first, end = in->slots[first].end;
    for (; slot < in->count && in->slots[slot].begin < end; slot++)
        if (in->slots[slot].end > end)
            end = in->slots[slot].end;
    return slot;
}

/* `given`: by slot of the part, which is in order, the caller's. */
static void pack_part(struct remat_arena *scratch, const struct remat_instance *part,
                      const remat_slot_id *given, struct remat_packing *out)
{
    struct packer_state s = prepare(scratch, part);
    try_keys(&s);
    run_perturbations(&s);
    if (s.best_bytes > out->arena_bytes)
        out->arena_bytes = s.best_bytes;
    for (uint32_t i = 0; i < part->count; i++)
        out->offsets[given[i].i] = s.best_offsets[i];
}

struct remat_packing remat_pack(struct remat_arena *arena, const struct remat_slot *slots,
                                uint32_t count)
{
    struct remat_arena *scratch = remat_scratch_open(arena->ctx);
    const struct remat_instance whole = remat_instance_create(scratch, slots, count);
    struct remat_packing out = {.live_peak_bytes = whole.live_peak_bytes};
    REMAT_NEW(arena, out.offsets, count);
    for (uint32_t first = 0, end; first < whole.count; first = end) {
        end = part_end(&whole, first);
        const struct remat_instance part =
            end - first == whole.count
                ? whole
                : remat_instance_create(scratch, &whole.slots[first], end - first);
        pack_part(scratch, &part, &whole.given[first], &out);
    }
    remat_scratch_close(scratch);
    return out;
}
