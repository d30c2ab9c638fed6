/* SPDX-License-Identifier: Apache-2.0 */
/* Random fused kernels over ragged spaces: emitted kernels in the emulator against kernel.h read
 * literally, bit for bit, threads and blocks in order and in random order; that against the CPU
 * device, bit for bit, and float64, within rounding. Number 0 are the elementary functions over
 * floats of all sizes.
 *
 *     test_samples COMPILER [COUNT [FIRST]] */
#include "check.h"
#include "cpu_pool.h"
#include "item.h"

#include <stdio.h>
#include <stdlib.h>

#define BATCH 100

static const uint64_t tall[] = {661, 862}; /* column sums in blocks of 512 and 768 rows */

static uint32_t shapes[4];
static struct bounds64 bounds;

static void count_shape(const struct item *item)
{
    static const char *const names[] = {".pointwise.", ".team.", ".block.", ".columns."};
    for (uint32_t k = 0; k < 4; k++)
        shapes[k] += strstr(item->code.kernels[0].key, names[k]) != NULL;
}

static struct item items[BATCH];

static void run_items(remat_context *ctx, struct remat_arena *arena, const char *compiler,
                      uint32_t count)
{
    struct remat_text text = {.arena = arena};
    for (uint32_t i = 0; i < count; i++) {
        item_append_text(&items[i], &text);
        count_shape(&items[i]);
    }
    void *library = kernels_compile(compiler, text.items);
    for (uint32_t i = 0; i < count && checks_failed() < 3; i++) {
        const char *fault = item_run(ctx, &items[i], library, 2);
        if (!fault)
            fault = item_check(ctx, &items[i], &bounds);
        if (!CHECK(!fault, "%s: %s", items[i].key, fault)) {
            sample_print(&items[i].sample);
            printf("%s", strstr(items[i].code.kernels[0].text, "\nKERNEL("));
        }
    }
    kernels_close(library);
}

static void run_batch(remat_context *ctx, const char *compiler, uint64_t first, uint32_t count)
{
    struct remat_arena arena;
    remat_arena_init(&arena, ctx);
    for (uint32_t i = 0; i < count; i++)
        if (first + i == 0)
            item_make_functions(ctx, &arena, &items[i]);
        else
            item_make(ctx, &arena, first + i, &items[i]);
    run_items(ctx, &arena, compiler, count);
    remat_arena_release(&arena);
}

/* So many in one kernel that vectors of 16 bytes would take more shared memory than there is. */
static void run_sums(remat_context *ctx, const char *compiler)
{
    struct remat_arena arena;
    remat_arena_init(&arena, ctx);
    item_make_sums(ctx, &arena, 4, &items[0]);
    item_make_sums(ctx, &arena, 12, &items[1]);
    run_items(ctx, &arena, compiler, 2);
    remat_arena_release(&arena);
}

int main(int argc, char **argv)
{
    uint32_t count = argc > 2 ? (uint32_t)atoi(argv[2]) : 300;
    uint64_t first = argc > 3 ? (uint64_t)atoi(argv[3]) : 0;
    remat_context *ctx = remat_context_create(NULL, NULL);
    uint32_t state = cpu_flush_subnormals();
    for (uint32_t done = 0; done < count && checks_failed() < 3; done += BATCH)
        run_batch(ctx, argv[1], first + done, count - done < BATCH ? count - done : BATCH);
    for (uint32_t k = 0; k < sizeof tall / sizeof *tall && checks_failed() < 3; k++)
        run_batch(ctx, argv[1], tall[k], 1);
    if (checks_failed() < 3)
        run_sums(ctx, argv[1]);
    cpu_restore_float_state(state);
    remat_context_destroy(&ctx);
    printf("%u samples (%u pointwise, %u by a team, %u by a block, %u with column sums)\n", count,
           shapes[0], shapes[1], shapes[2], shapes[3]);
    printf("float64: %.1f %% of %llu elements within 1 %%\n",
           100 * (double)bounds.judged / (double)bounds.elements,
           (unsigned long long)bounds.elements);
    if (argc < 3)
        check_figure((double)bounds.judged / (double)bounds.elements,
                     "emulator_samples share within 1 %%");
    for (uint32_t k = 0; k < 4 && count >= 100; k++)
        CHECK(shapes[k] > 0, "shape %u", k);
    return check_exit();
}
