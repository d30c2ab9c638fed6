/* SPDX-License-Identifier: Apache-2.0 */
/* Training steps: structured plans pack at the live peak; gaps and times are printed. */
#include "instances.h"

#include <pack.h>
#include <time.h>

static remat_context *ctx;

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Packs, checks, prints a line and returns the gap in percent. */
static double measure(const char *name, const struct training *training, bool print)
{
    struct remat_arena arena;
    remat_arena_init(&arena, ctx);
    struct slots slots = {.arena = &arena};
    training_slots(&slots, training);
    double start = seconds();
    struct remat_packing p = remat_pack(&arena, slots.items, (uint32_t)slots.count);
    double taken = seconds() - start;
    remat_status st = REMAT_OK;
    if (slots.count < 20000)
        st = remat_pack_check(ctx, slots.items, (uint32_t)slots.count, &p);
    CHECK(!slots.failed && st == REMAT_OK, "%s: %s", name, remat_context_message(ctx));
    double gap = 100 * ((double)p.arena_bytes / (double)p.live_peak_bytes - 1);
    if (print)
        printf("%-22s %6zu slots  peak %8.2f GiB  gap %6.3f %%  %7.1f ms\n", name, slots.count,
               (double)p.live_peak_bytes / (1u << 30), gap, 1e3 * taken);
    remat_arena_release(&arena);
    return gap;
}

int main(void)
{
    const uint64_t u = UINT64_C(64) << 20;
    static const struct {
        const char *name;
        uint32_t layers, units_logits, drop_percent;
        bool greedy, keep_gradients, must_reach_peak;
    } cases[] = {
        {"all kept", 96, 12, 0, false, false, true},
        {"all kept, gk", 96, 12, 0, false, true, true},
        {"block inputs", 96, 12, 100, false, false, true},
        {"block inputs, gk", 96, 12, 100, false, true, true},
        {"half dropped", 96, 12, 50, false, false, true},
        {"half dropped, gk", 96, 12, 50, false, true, true},
        {"30 % dropped, gk", 96, 0, 30, false, true, true},
        {"late recompute", 96, 12, 100, true, false, false},
        {"late recompute, gk", 96, 0, 50, true, true, false},
        {"60k", 2200, 12, 50, false, false, true},
        {"60k, gk", 2200, 12, 50, false, true, true},
    };
    MUST(ctx = remat_context_create(NULL, NULL));
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        struct training t = {cases[k].layers,
                             u,
                             cases[k].units_logits * u,
                             cases[k].drop_percent,
                             cases[k].greedy,
                             cases[k].keep_gradients,
                             k + 1};
        double gap = measure(cases[k].name, &t, true);
        CHECK(gap == 0 || !cases[k].must_reach_peak, "%s: gap %.3f %%", cases[k].name, gap);
    }
    uint32_t at_peak = 0;
    double worst = 0;
    for (uint32_t k = 0; k < 100; k++) {
        struct training t = {8 + k, u, k % 3 * 6 * u, k % 10 * 10, false, k % 2, k};
        double gap = measure("random structured plan", &t, false);
        at_peak += gap == 0;
        worst = gap > worst ? gap : worst;
    }
    printf("random structured plans: %u of 100 at the live peak, worst gap %.3f %%\n", at_peak,
           worst);
    check_figure(at_peak, "memory_training arenas of the live peak");
    check_figure(100 / (100 + worst), "memory_training live peak / arena, at worst");
    remat_context_destroy(&ctx);
    return check_exit();
}
