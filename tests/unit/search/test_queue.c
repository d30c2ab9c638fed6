/* SPDX-License-Identifier: Apache-2.0 */
/* A queue of which most decisions lie in ranges, against every decision of every path one by one:
 * at several limits it finds one as fast as the fastest that fits, and one as small as any. */
#include <inttypes.h>

#include "check.h"
#include "queue.h"
#include "subject.h"

enum { LIMITS = 40, STRIDE = 7 }; /* every 7th decision is measured */

struct fixture {
    struct subject_bench bench;
    struct remat_search_settings settings;
    struct remat_arena scratch;
    struct remat_search search;
    struct remat_proposals all;
};

static remat_status prepare(struct fixture *f)
{
    remat_status st = REMAT_OK;
    struct subject *s = &f->bench.s;
    struct remat_model_settings model;
    REMAT_TRY(remat_model_preset(s->ctx, "encdec-tiny", &model));
    model.layers = 12;
    model.batch = 4;
    REMAT_TRY(subject_prepare(s, &model, 1, "a100-80"));
    REMAT_TRY(subject_bench_extract(&f->bench));
    f->settings = (struct remat_search_settings){.has_budget = true};
    f->search = (struct remat_search){.ctx = s->ctx,
                                      .arena = &s->arena,
                                      .scratch = &f->scratch,
                                      .planner = f->bench.planner,
                                      .settings = &f->settings,
                                      .graph = s->graph,
                                      .evaluator = &s->evaluator,
                                      .step = &s->step,
                                      .limit_bytes = UINT64_MAX};
fail:
    return st;
}

static remat_status measure_all(struct fixture *f)
{
    remat_status st = REMAT_OK;
    const struct remat_planner *planner = f->search.planner;
    for (uint32_t path = 0; path < planner->path_count; path++) {
        uint32_t count = remat_path_step_count(&planner->paths[path]);
        for (uint32_t step = path % STRIDE; step < count; step += STRIDE) {
            struct remat_proposal proposal = {.name = "per-op", .path = {path}, .step = step};
            remat_proposal_find_least(&f->search, &proposal);
            remat_proposal_evaluate(&f->search, &proposal, UINT64_MAX);
            REMAT_TRY_PUSH(&f->bench.s.arena, &f->all, proposal);
        }
    }
fail:
    return st;
}

static void fill(struct fixture *f, enum remat_queue_order order, struct remat_queue *queue)
{
    *queue = (struct remat_queue){.search = &f->search, .order = order};
    remat_queue_add_planned(queue);
}

/* The limit is what decision `of` needs. */
static void check_fastest(struct fixture *f, const struct remat_proposal *of)
{
    struct remat_queue queue;
    struct remat_proposal best = {0};
    fill(f, REMAT_FASTEST_FIRST, &queue);
    bool found = remat_queue_best(&queue, of->cost.arena_bytes, false, &best);
    CHECK(found, "path %u, step %u: nothing fits", of->path.i, of->step);
    for (size_t i = 0; i < f->all.count; i++) {
        const struct remat_proposal *other = &f->all.items[i];
        CHECK(other->cost.arena_bytes > of->cost.arena_bytes ||
                  best.cost.step_ns <= other->cost.step_ns,
              "%" PRIu64 " B: step %u of path %u takes %" PRIu64 " ns, step %u of path %u %" PRIu64
              " ns",
              of->cost.arena_bytes, best.step, best.path.i, best.cost.step_ns, other->step,
              other->path.i, other->cost.step_ns);
    }
}

static void check_smallest(struct fixture *f)
{
    struct remat_queue queue;
    struct remat_proposal smallest = {0};
    fill(f, REMAT_SMALLEST_FIRST, &queue);
    CHECK(remat_queue_best(&queue, UINT64_MAX - 1, false, &smallest), "nothing is smallest");
    for (size_t i = 0; i < f->all.count; i++)
        CHECK(smallest.cost.arena_bytes <= f->all.items[i].cost.arena_bytes,
              "step %u of path %u is smaller: %" PRIu64 " B, live %" PRIu64
              ", than step %u of path %u, %" PRIu64 " live %" PRIu64,
              f->all.items[i].step, f->all.items[i].path.i, f->all.items[i].cost.arena_bytes,
              f->all.items[i].cost.live_peak_bytes, smallest.step, smallest.path.i,
              smallest.cost.arena_bytes, smallest.cost.live_peak_bytes);
}

/* Times do not fall, no two make the same kernels, and where all fit none is left out. */
static void check_order(struct fixture *f)
{
    struct remat_queue queue;
    struct remat_proposal proposal;
    uint64_t before_ns = 0, before_effect = 0;
    uint32_t count = 0;
    fill(f, REMAT_FASTEST_FIRST, &queue);
    CHECK(queue.heap.count < queue.added_count / 2, "few ranges");
    for (; remat_queue_pop(&queue, UINT64_MAX, &proposal); count++) {
        CHECK(proposal.cost.step_ns + 10000 >= before_ns, "%" PRIu64 " ns behind %" PRIu64 " ns",
              proposal.cost.step_ns, before_ns);
        CHECK(proposal.cost.step_ns != before_ns || proposal.cost.effect != before_effect,
              "the same kernels twice");
        before_ns = proposal.cost.step_ns;
        before_effect = proposal.cost.effect;
    }
    CHECK(count > LIMITS, "only %u", count);
    for (size_t i = 0; i < f->all.count; i++)
        CHECK(f->all.items[i].path.i >= f->search.planner->tried_count ||
                  remat_proposals_have(&queue.popped, &f->all.items[i]),
              "step %u of path %u is left out", f->all.items[i].step, f->all.items[i].path.i);
}

static remat_status check_queue(struct fixture *f)
{
    remat_status st = REMAT_OK;
    REMAT_TRY(prepare(f));
    REMAT_TRY(measure_all(f));
    for (uint32_t i = 0; i < LIMITS; i++)
        check_fastest(f, &f->all.items[i * (f->all.count - 1) / (LIMITS - 1)]);
    check_smallest(f);
    check_order(f);
fail:
    return st;
}

int main(void)
{
    struct fixture f = {0};
    subject_init(&f.bench.s);
    remat_arena_init(&f.scratch, f.bench.s.ctx);
    CHECK_OK(f.bench.s.ctx, check_queue(&f));
    remat_arena_release(&f.scratch);
    subject_release(&f.bench.s);
    return check_exit();
}
