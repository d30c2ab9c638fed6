/* SPDX-License-Identifier: Apache-2.0 */
/* The plan chosen for the bytes of a decision of the planner's paths is no slower than it: neither
 * times nor bytes fall all the way along a path. In the last graph not every decision is tried. */
#include <inttypes.h>

#include "check.h"
#include "reference.h"

static const struct {
    const char *preset, *device;
    remat_dtype dtype;
    double dropout;
    int64_t layers, width; /* 0: the preset's */
    uint32_t stride;
} cases[] = {
    {"gpt2-tiny", "cpu", REMAT_F32, 0, 0, 0, 3},
    {"bert-tiny", "v100", REMAT_F32, 0.1, 0, 0, 3},
    {"encdec-tiny", "rtx-4090", REMAT_BF16, 0.1, 0, 0, 20},
    {"encdec-tiny", "a100-80", REMAT_BF16, 0, 12, 1024, 101},
};

struct measured {
    uint64_t ns, bytes; /* step time, packed arena */
};

/* Carries decision `index` of a path through. */
static remat_status measure(struct subject *s, const struct remat_planner *planner, uint32_t path,
                            uint32_t index, struct measured *out)
{
    remat_status st = REMAT_OK;
    struct remat_arena scratch;
    struct remat_decision decision;
    struct reference reference;
    remat_arena_init(&scratch, s->ctx);
    remat_planner_decide(planner, &scratch, (remat_path_id){path}, index, &decision);
    REMAT_TRY(reference_find(s, &scratch, &decision, &reference));
    out->bytes = reference.naive_bytes;
    out->ns = reference.naive.step_ns;
fail:
    remat_arena_release(&scratch);
    return st;
}

static remat_status check_decision(struct subject *s, const struct measured *decision)
{
    remat_status st = REMAT_OK;
    struct remat_arena scratch;
    struct remat_chosen chosen;
    remat_arena_init(&scratch, s->ctx);
    REMAT_TRY(subject_choose(s, &scratch, decision->bytes, &chosen));
    CHECK(chosen.arena_bytes <= decision->bytes && chosen.arranged.step_ns <= decision->ns,
          "%s: %s takes %" PRIu64 " ns and %" PRIu64 " B, a decision %" PRIu64 " ns and %" PRIu64
          " B",
          s->graph->name, chosen.name, chosen.arranged.step_ns, chosen.arena_bytes, decision->ns,
          decision->bytes);
fail:
    remat_arena_release(&scratch);
    return st;
}

/* Of all paths together, every `stride`-th. */
static remat_status check_paths(struct subject *s, const struct remat_planner *planner,
                                uint32_t stride, uint32_t *seen)
{
    remat_status st = REMAT_OK;
    for (uint32_t path = 0; path < planner->path_count; path++) {
        uint32_t count = remat_path_step_count(&planner->paths[path]);
        for (uint32_t i = 0; i < count; i++) {
            struct measured here;
            if ((*seen)++ % stride > 0)
                continue;
            REMAT_TRY(measure(s, planner, path, i, &here));
            REMAT_TRY(check_decision(s, &here));
        }
    }
fail:
    return st;
}

static remat_status check_case(struct subject *s, size_t row)
{
    remat_status st = REMAT_OK;
    struct remat_model_settings settings;
    struct remat_arrangement base;
    struct remat_decision none;
    struct remat_planner *planner;
    uint32_t seen = 0;
    REMAT_TRY(remat_model_preset(s->ctx, cases[row].preset, &settings));
    settings.batch = 4;
    if (cases[row].layers) {
        settings.layers = cases[row].layers;
        settings.width = cases[row].width;
    }
    settings.dtype = cases[row].dtype;
    settings.dropout = cases[row].dropout;
    REMAT_TRY(subject_prepare(s, &settings, 1, cases[row].device));
    REMAT_TRY(subject_plan(s, &base, &none, &planner));
    REMAT_TRY(check_paths(s, planner, cases[row].stride, &seen));
    CHECK(seen / cases[row].stride > (cases[row].layers ? 10 : 40), "%s: only %u decisions",
          s->graph->name, seen);
fail:
    return st;
}

int main(void)
{
    for (size_t row = 0; row < sizeof cases / sizeof *cases; row++) {
        struct subject s;
        subject_init(&s);
        CHECK_OK(s.ctx, check_case(&s, row), "%s", cases[row].preset);
        subject_release(&s);
    }
    return check_exit();
}
