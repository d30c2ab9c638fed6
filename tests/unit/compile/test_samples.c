/* SPDX-License-Identifier: Apache-2.0 */
/* Samples of the paths of a graph of which not every decision is tried: the last decision of each
 * path is one, and what bisection finds behind a sample is the fastest that fits. */
#include <inttypes.h>

#include "check.h"
#include "samples.h"
#include "subject.h"

enum { INTERVALS = 20 };

struct fixture {
    struct subject_bench bench;
    struct remat_compile_settings settings;
    struct remat_arrangement nothing;
    struct remat_arena scratch;
    struct remat_chooser chooser;
    struct remat_rungs samples;
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
    f->settings = (struct remat_compile_settings){.device = s->device, .has_budget = true};
    f->chooser = (struct remat_chooser){.ctx = s->ctx,
                                        .arena = &s->arena,
                                        .settings = &f->settings,
                                        .graph = s->graph,
                                        .statics = &s->statics,
                                        .evaluator = &s->evaluator,
                                        .watch = &s->watch,
                                        .update = &f->nothing,
                                        .limit_bytes = UINT64_MAX};
    REMAT_TRY(remat_samples_list(&f->chooser, &f->scratch, f->bench.planner, NULL, &f->samples));
fail:
    return st;
}

static remat_status evaluate(struct fixture *f, struct remat_rung *rung)
{
    return remat_rung_evaluate(&f->chooser, &f->scratch, f->bench.planner, rung, UINT64_MAX);
}

static void check_ends(const struct fixture *f)
{
    const struct remat_planner *planner = f->bench.planner;
    for (size_t i = 0; i < f->samples.count; i++) {
        struct remat_proposal at = f->samples.items[i].of;
        if (i + 1 < f->samples.count && f->samples.items[i + 1].of.path == at.path)
            continue;
        uint32_t count = remat_planner_path_length(planner, at.path) +
                         remat_planner_nested_count(planner, at.path);
        CHECK(at.step + 1 == count, "path %u: the last sample is %u of %u", at.path, at.step,
              count);
    }
}

/* Where bytes fall from the decision behind one sample to the next sample, there is room for just
 * the former. */
static remat_status check_interval(struct fixture *f, struct remat_rung previous,
                                   struct remat_rung last, uint32_t *checked)
{
    remat_status st = REMAT_OK;
    struct remat_rung first = {.of = previous.of}, best;
    struct remat_rungs compared = {.items = &best, .count = 1};
    first.of.step++;
    if (first.of.path != last.of.path || first.of.step >= last.of.step)
        return REMAT_OK;
    REMAT_TRY(evaluate(f, &first));
    REMAT_TRY(evaluate(f, &last));
    if (first.cost.arena_bytes <= last.cost.arena_bytes)
        return REMAT_OK;
    best = last;
    f->chooser.limit_bytes = first.cost.arena_bytes;
    REMAT_TRY(remat_samples_refine(&f->chooser, &f->scratch, f->bench.planner, &compared, &best));
    CHECK(best.cost.step_ns <= first.cost.step_ns &&
              best.cost.arena_bytes <= first.cost.arena_bytes,
          "path %u: %u takes %" PRIu64 " ns, %u %" PRIu64 " ns", first.of.path, first.of.step,
          first.cost.step_ns, best.of.step, best.cost.step_ns);
    ++*checked;
fail:
    return st;
}

static remat_status check_samples(struct fixture *f)
{
    remat_status st = REMAT_OK;
    uint32_t checked = 0;
    REMAT_TRY(prepare(f));
    check_ends(f);
    for (size_t i = 0; i + 1 < f->samples.count && checked < INTERVALS; i++)
        REMAT_TRY(check_interval(f, f->samples.items[i], f->samples.items[i + 1], &checked));
    CHECK(checked == INTERVALS, "only %u intervals", checked);
fail:
    return st;
}

int main(void)
{
    struct fixture f = {0};
    subject_init(&f.bench.s);
    remat_arena_init(&f.scratch, f.bench.s.ctx);
    remat_status st = check_samples(&f);
    CHECK(st == REMAT_OK, "%s", remat_context_message(f.bench.s.ctx));
    remat_arena_release(&f.scratch);
    subject_release(&f.bench.s);
    return failures > 0;
}
