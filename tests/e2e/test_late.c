/* SPDX-License-Identifier: Apache-2.0 */
/* A time limit that passes at the n-th question about it, for n up to all of them: while there is
 * no plan, compilation ends with one message; it leaks nothing, and the next one is as if nothing
 * had been. That nothing fits is told before any search, and whatever comes then does not change
 * it. */
#include <stdio.h>
#include <stdlib.h>

#include "harness.h"

struct watch {
    uint32_t calls, late_at; /* late from this call on, counted from 0 */
    bool over;               /* the search ends at its first question */
    uint32_t told, named;    /* refusals without and with what needs least */
};

static void refused(void *user, const struct remat_refusal *refusal)
{
    struct watch *w = user;
    CHECK(refusal->smallest ? refusal->smallest_bytes >= refusal->floor_bytes
                            : refusal->floor_bytes > refusal->budget_bytes,
          "floor %llu, smallest %llu", (unsigned long long)refusal->floor_bytes,
          (unsigned long long)refusal->smallest_bytes);
    w->told += !refusal->smallest;
    w->named += refusal->smallest != NULL;
}

static bool is_late(void *user)
{
    struct watch *w = user;
    return w->calls++ >= w->late_at;
}

static bool is_over(void *user, const struct remat_search_state *state)
{
    (void)state;
    return ((struct watch *)user)->over;
}

enum what { PLAN, BOUND, CURVE };

struct subject {
    remat_context *ctx;
    const struct remat_graph *graph;
    struct remat_compile_settings settings;
    enum what what;
};

static remat_status compile(const struct subject *s, struct watch *watch)
{
    remat_status st;
    struct remat_arena arena;
    struct remat_program *program;
    struct remat_front curve = {0};
    struct remat_compile_settings settings = s->settings;
    struct remat_bound bound;
    settings.is_late = is_late;
    settings.search.is_over = is_over;
    settings.search.is_over_user = watch;
    settings.search.refused = refused;
    settings.search.refused_user = watch;
    remat_arena_init(&arena, s->ctx);
    if (s->what == PLAN)
        st = remat_compile(s->ctx, &arena, s->graph, &settings, &program);
    else if (s->what == BOUND)
        st = remat_compile_bound(s->ctx, &arena, s->graph, &settings, &bound);
    else
        st = remat_compile_front(s->ctx, &arena, s->graph, &settings, &curve);
    remat_arena_release(&arena);
    return st;
}

static void test(const struct subject *s, bool over, remat_status whole)
{
    struct watch watch = {.late_at = UINT32_MAX, .over = over};
    CHECK_STATUS(s->ctx, compile(s, &watch), whole, "");
    uint32_t calls = watch.calls, proven = UINT32_MAX; /* the first question after the proof */
    bool hopeless = whole == REMAT_ERROR_INFEASIBLE;
    CHECK((watch.told > 0) == hopeless && watch.named == (hopeless && !s->settings.search.briefly),
          "told %u times, named %u times", watch.told, watch.named);
    for (uint32_t n = 0; n < calls && !checks_failed(); n += 1 + n / 50) {
        watch = (struct watch){.late_at = n, .over = over};
        CHECK_STATUS(s->ctx, compile(s, &watch), REMAT_ERROR_CUT_SHORT,
                     "there was no plan to write within the time limit");
        CHECK(watch.calls == n + 1, "late at question %u, but asked %u times", n, watch.calls);
        CHECK(watch.told || proven == UINT32_MAX, "not told at question %u, but at %u", n, proven);
        proven = watch.told && proven > n ? n : proven;
    }
    watch = (struct watch){.late_at = UINT32_MAX, .over = over};
    CHECK_STATUS(s->ctx, compile(s, &watch), whole, "");
    CHECK(calls > 10 && watch.calls == calls, "%u questions at first, then %u", calls, watch.calls);
    CHECK(!hopeless || s->settings.search.briefly || proven < calls / 2, "told at question %u",
          proven);
    printf("%u questions, told at %u\n", calls, proven);
}

static void *counting_reallocate(void *user, void *pointer, size_t bytes)
{
    int64_t *live = user;
    if (bytes == 0) {
        *live -= pointer != NULL;
        free(pointer);
        return NULL;
    }
    void *result = realloc(pointer, bytes);
    *live += result && !pointer;
    return result;
}

int main(void)
{
    int64_t live = 0;
    remat_context *ctx = remat_context_create(&(remat_allocator){counting_reallocate, &live}, NULL);
    struct remat_arena arena;
    struct remat_program *most;
    struct subject s = {.ctx = ctx, .settings.without_cuda = true};
    remat_arena_init(&arena, ctx);
    s.graph = harness_model(ctx, &arena, "gpt2-tiny",
                            (struct remat_model_settings){.layers = 2, .batch = 4});
    MUST_OK(ctx, remat_device_description_read(ctx, &arena, "cpu", 0, &s.settings.device));
    MUST_OK(ctx, remat_compile(ctx, &arena, s.graph, &s.settings, &most));
    s.settings.search.has_budget = true;
    s.settings.search.budget_bytes =
        most->reserve_bytes + most->static_bytes + (most->arena_bytes - most->static_bytes) / 2;
    int64_t before = live;
    test(&s, false, REMAT_OK);
    test(&s, true, REMAT_OK); /* a plan that is tried after it is complete or none */
    s.what = BOUND;
    test(&s, false, REMAT_OK);
    s.what = CURVE;
    test(&s, false, REMAT_OK);
    s.what = PLAN;
    s.settings.search.budget_bytes = 1;
    test(&s, false, REMAT_ERROR_INFEASIBLE);
    test(&s, true, REMAT_ERROR_INFEASIBLE);
    s.settings.search.briefly = true;
    test(&s, false, REMAT_ERROR_INFEASIBLE);
    CHECK(live == before, "%lld blocks leak", (long long)(live - before));
    remat_arena_release(&arena);
    remat_context_destroy(&ctx);
    return check_exit();
}
