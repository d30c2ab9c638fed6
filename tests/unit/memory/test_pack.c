/* SPDX-License-Identifier: Apache-2.0 */
/* Packings against closed forms, an exhaustive search and dissected rectangles, and the checker
 * against mutations. */
#include "instances.h"

#include <pack.h>

static remat_context *ctx;

static struct remat_packing pack(struct slots *slots)
{
    struct remat_packing packing = remat_pack(slots->arena, slots->items, (uint32_t)slots->count);
    if (CHECK(!slots->failed))
        CHECK_OK(ctx, remat_pack_check(ctx, slots->items, (uint32_t)slots->count, &packing));
    return packing;
}

static void add_laminar(struct slots *slots, uint64_t *seed, uint32_t begin, uint32_t end)
{
    add_slot(slots, begin, end, 1 + draw(seed, 5000));
    if (end - begin < 2)
        return;
    uint32_t middle = begin + 1 + (uint32_t)draw(seed, end - begin - 1);
    if (draw(seed, 8))
        add_laminar(slots, seed, begin, middle);
    if (draw(seed, 8))
        add_laminar(slots, seed, middle, end);
}

static void test_closed_forms(struct remat_arena *arena)
{
    uint64_t seed = 1;
    for (uint32_t k = 0; k < 200; k++) {
        struct slots laminar = {.arena = arena}, equal = {.arena = arena};
        add_laminar(&laminar, &seed, 0, 2 + (uint32_t)draw(&seed, 200));
        random_slots(&equal, &seed, 1 + (uint32_t)draw(&seed, 200), 60, 1);
        struct remat_packing a = pack(&laminar), b = pack(&equal);
        CHECK(a.arena_bytes == a.live_peak_bytes, "laminar instance %u", k);
        CHECK(b.arena_bytes == b.live_peak_bytes, "equal sizes, instance %u", k);
        remat_arena_release(arena);
    }
}

static void test_edges(struct remat_arena *arena)
{
    struct slots slots = {.arena = arena};
    struct remat_packing none = pack(&slots);
    CHECK(none.arena_bytes == 0 && none.live_peak_bytes == 0 && none.offsets, "no slots");
    add_slot(&slots, 3, 3, 1000);
    add_slot(&slots, 0, 9, 0);
    none = pack(&slots);
    CHECK(none.arena_bytes == 0 && none.offsets[0] == 0 && none.offsets[1] == 0, "empty slots");
    add_slot(&slots, 7, 8, 1);
    struct remat_packing one = pack(&slots);
    CHECK(one.arena_bytes == REMAT_ALIGNMENT, "one slot");
    add_slot(&slots, 0, UINT32_MAX, 100);
    CHECK(pack(&slots).arena_bytes == 2 * REMAT_ALIGNMENT, "the longest lifespan");
}

static void test_largest(struct remat_arena *arena)
{
    struct slots sum = {.arena = arena};
    add_slot(&sum, 5, 6, UINT64_C(1) << 62);
    add_slot(&sum, 3, 4, (UINT64_C(1) << 62) - REMAT_ALIGNMENT);
    CHECK(pack(&sum).arena_bytes == UINT64_C(1) << 62, "the largest sum");
}

/* The least height over all orders in which each slot is put above those before it that it
 * overlaps: sorting an optimal packing by offset gives one of them. */
static uint64_t optimum(const struct slots *slots, uint64_t *offsets, uint32_t placed, uint64_t top,
                        uint64_t best)
{
    if (top >= best || placed == (1u << slots->count) - 1)
        return top < best ? top : best;
    for (uint32_t i = 0; i < slots->count; i++) {
        const struct remat_slot *a = &slots->items[i];
        if (placed >> i & 1)
            continue;
        offsets[i] = 0;
        for (uint32_t j = 0; j < slots->count; j++) {
            const struct remat_slot *b = &slots->items[j];
            bool overlap = a->begin < b->end && b->begin < a->end;
            if (placed >> j & 1 && overlap && offsets[j] + b->bytes > offsets[i])
                offsets[i] = offsets[j] + b->bytes;
        }
        uint64_t new_top = offsets[i] + a->bytes > top ? offsets[i] + a->bytes : top;
        best = optimum(slots, offsets, placed | 1u << i, new_top, best);
    }
    return best;
}

static void test_small_random(struct remat_arena *arena)
{
    uint64_t seed = 2;
    uint32_t equal = 0, count = 4000;
    double worst = 0;
    for (uint32_t k = 0; k < count; k++) {
        struct slots slots = {.arena = arena};
        uint64_t offsets[7];
        uint32_t positions = 2 + (uint32_t)draw(&seed, 8);
        random_slots(&slots, &seed, 1 + (uint32_t)draw(&seed, 7), positions, 9);
        struct remat_packing packing = pack(&slots);
        uint64_t best = optimum(&slots, offsets, 0, 0, UINT64_MAX);
        CHECK(packing.arena_bytes >= best && best >= packing.live_peak_bytes, "instance %u", k);
        equal += packing.arena_bytes == best;
        double gap = (double)packing.arena_bytes / (double)best - 1;
        worst = gap > worst ? gap : worst;
        remat_arena_release(arena);
    }
    check_figure((double)equal / count, "memory_pack share of optimal arenas, small");
    printf("small random: %u of %u optimal, worst %.1f %% above\n", equal, count, 100 * worst);
}

/* Cuts a rectangle of time and bytes into slots: its height is the least, as nothing is empty. */
static void dissect(struct slots *slots, uint64_t *seed, uint32_t begin, uint32_t end,
                    uint64_t units, uint32_t count)
{
    uint32_t first = count / 4 + (uint32_t)draw(seed, count / 2 + 1);
    bool in_time = draw(seed, 2);
    if (count < 2 || (end - begin < 2 && units < 2)) {
        add_slot(slots, begin, end, units * REMAT_ALIGNMENT);
    } else if ((in_time || units < 2) && end - begin > 1) {
        uint32_t middle = begin + 1 + (uint32_t)draw(seed, end - begin - 1);
        dissect(slots, seed, begin, middle, units, first);
        dissect(slots, seed, middle, end, units, count - first);
    } else {
        uint64_t below = 1 + draw(seed, units - 1);
        dissect(slots, seed, begin, end, below, first);
        dissect(slots, seed, begin, end, units - below, count - first);
    }
}

/* Small ones need several keys, and perturbations; large ones have the keys only. */
static void test_dissected(struct remat_arena *arena)
{
    static const struct {
        uint32_t slots, instances;
    } rows[] = {{64, 200}, {30000, 4}};
    const uint64_t units = 1000000;
    for (size_t row = 0; row < sizeof rows / sizeof *rows; row++) {
        uint64_t seed = 5;
        uint32_t optimal = 0, instances = rows[row].instances;
        double percent = 0;
        for (uint32_t k = 0; k < instances; k++) {
            struct slots slots = {.arena = arena};
            dissect(&slots, &seed, 0, 10 * rows[row].slots, units, rows[row].slots);
            uint64_t bytes = pack(&slots).arena_bytes;
            CHECK(bytes >= units * REMAT_ALIGNMENT, "instance %u", k);
            optimal += bytes == units * REMAT_ALIGNMENT;
            percent += 100 * ((double)bytes / (double)(units * REMAT_ALIGNMENT) - 1) / instances;
            remat_arena_release(arena);
        }
        if (row == 0) /* of the large ones none is */
            check_figure(optimal, "memory_pack optimal arenas, dissected into %u", rows[row].slots);
        check_figure(100 / (100 + percent), "memory_pack optimum / arena, dissected into %u",
                     rows[row].slots);
        printf("dissected into %u: %u of %u optimal, %.2f %% above on average\n", rows[row].slots,
               optimal, instances, percent);
    }
}

static void test_random(struct remat_arena *arena)
{
    uint64_t seed = 3;
    for (uint32_t k = 0; k < 300; k++) {
        struct slots slots = {.arena = arena};
        uint64_t units = 1 + draw(&seed, 1000);
        uint32_t positions = 1 + (uint32_t)draw(&seed, 99);
        random_slots(&slots, &seed, 8 + (uint32_t)draw(&seed, 90), positions, units);
        struct remat_packing free = pack(&slots), again = pack(&slots);
        CHECK(!memcmp(free.offsets, again.offsets, slots.count * sizeof *free.offsets), "repeat %u",
              k);
        remat_arena_release(arena);
    }
}

/* Instances one after the other, of which each has a slot that lives all the while, so that it is
 * packed as one; their slots are given in turns. */
static void test_parts(struct remat_arena *arena)
{
    enum { PARTS = 3 };
    uint64_t seed = 6;
    for (uint32_t k = 0; k < 100; k++) {
        struct slots alone[PARTS], all = {.arena = arena};
        uint32_t count = 8 + (uint32_t)draw(&seed, 60);
        uint64_t most = 0;
        for (uint32_t part = 0; part < PARTS; part++) {
            alone[part] = (struct slots){.arena = arena};
            random_slots(&alone[part], &seed, count, 40, 1000);
            add_slot(&alone[part], 0, 40, 1);
        }
        for (uint32_t i = 0; i <= count; i++)
            for (uint32_t part = 0; part < PARTS; part++) {
                struct remat_slot slot = alone[part].items[i];
                uint32_t begin = part * 40 + (part == 2 ? 7 : 0); /* a gap before the last */
                add_slot(&all, begin + slot.begin, begin + slot.end, slot.bytes);
            }
        struct remat_packing together = pack(&all);
        for (uint32_t part = 0; part < PARTS; part++) {
            struct remat_packing one = pack(&alone[part]);
            most = one.arena_bytes > most ? one.arena_bytes : most;
            for (uint32_t i = 0; i <= count; i++)
                CHECK(together.offsets[i * PARTS + part] == one.offsets[i],
                      "instance %u, part %u, slot %u", k, part, i);
        }
        CHECK(together.arena_bytes == most, "instance %u", k);
        remat_arena_release(arena);
    }
}

/* Applies one fault to a correct packing; false when the instance has no place for it. */
static bool mutate(struct slots *slots, uint64_t *seed, uint32_t kind, struct remat_packing *p)
{
    uint32_t i = (uint32_t)draw(seed, slots->count), j = (uint32_t)draw(seed, slots->count);
    const struct remat_slot *a = &slots->items[i], *b = &slots->items[j];
    if (kind == 0) { /* onto another slot that lives at the same time */
        if (i == j || a->begin >= b->end || b->begin >= a->end)
            return false;
        p->offsets[i] = p->offsets[j];
    } else if (kind == 1) { /* just into the last bytes of the one below */
        if (i == j || a->begin >= b->end || b->begin >= a->end || p->offsets[i] <= p->offsets[j])
            return false;
        p->offsets[i] = p->offsets[j] + remat_align_up(b->bytes, 256) - 256;
    } else if (kind == 2)
        p->offsets[i] += 1 + draw(seed, 255);
    else if (kind == 3)
        p->arena_bytes -= 256;
    else if (kind == 4)
        p->offsets[i] += p->arena_bytes;
    else
        p->live_peak_bytes += draw(seed, 2) ? 256 : -UINT64_C(256);
    return true;
}

static void test_checker_finds_faults(struct remat_arena *arena)
{
    uint64_t seed = 4;
    uint32_t faults = 0;
    for (uint32_t k = 0; k < 3000; k++) {
        struct slots slots = {.arena = arena};
        random_slots(&slots, &seed, k % 599 ? 2 + (uint32_t)draw(&seed, 30) : 6000,
                     k % 599 ? 20 : 900, 50);
        struct remat_packing packing = pack(&slots);
        if (mutate(&slots, &seed, k % 6, &packing)) {
            faults++;
            CHECK_STATUS(ctx, remat_pack_check(ctx, slots.items, (uint32_t)slots.count, &packing),
                         REMAT_ERROR_INTERNAL, "", "fault of kind %u not found", k % 6);
        }
        remat_arena_release(arena);
    }
    CHECK(faults > 2000, "%u", faults);
}

/* Live bytes: 256, 512, 1024, 768, 512. */
static void test_live(struct remat_arena *arena)
{
    struct slots slots = {.arena = arena};
    add_slot(&slots, 0, 4, 1);
    add_slot(&slots, 1, 3, 256);
    add_slot(&slots, 2, 2, 999);
    add_slot(&slots, 2, 5, 300);
    struct remat_packing packing = pack(&slots);
    CHECK(packing.live_peak_bytes == 1024, "live peak");
}

/* With an argument without how good large packings are, for builds with sanitizers. */
int main(int argc, char **argv)
{
    (void)argv;
    struct remat_arena arena;
    MUST(ctx = remat_context_create(NULL, NULL));
    remat_arena_init(&arena, ctx);
    test_closed_forms(&arena);
    test_edges(&arena);
    test_largest(&arena);
    test_small_random(&arena);
    if (argc == 1)
        test_dissected(&arena);
    test_random(&arena);
    test_parts(&arena);
    test_checker_finds_faults(&arena);
    test_live(&arena);
    remat_arena_release(&arena);
    remat_context_destroy(&ctx);
    return check_exit();
}
