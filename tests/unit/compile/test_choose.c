/* Costs are not exactly those that order the planner's paths, so a corner further on may be faster
 * than the first decision that fits. Where everything behind a corner is no larger than it is, the
 * plan chosen for the bytes of that corner is no slower than it. */
#include <inttypes.h>

#include "check.h"
#include "rewrite.h"
#include "subject.h"

static const struct {
    const char *preset, *device;
    remat_dtype dtype;
    double dropout;
} cases[] = {
    {"gpt2-tiny", "cpu", REMAT_F32, 0},
    {"bert-tiny", "v100", REMAT_F32, 0.1},
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
    struct remat_graph *rewritten;
    struct remat_arrangement whole;
    remat_arena_init(&scratch, s->ctx);
    REMAT_TRY(remat_planner_decide(planner, &scratch, path, index, &decision));
    REMAT_TRY(remat_rewrite(s->ctx, &scratch, s->graph, &decision, &rewritten));
    REMAT_TRY(
        remat_arrange(s->ctx, &scratch, rewritten, &s->statics, &s->device, &s->watch, &whole));
    REMAT_TRY(remat_place(s->ctx, &scratch, &s->statics, &whole.lifespans, 0, &out->bytes));
    out->ns = whole.step_ns;
fail:
    remat_arena_release(&scratch);
    return st;
}

static remat_status check_corner(struct subject *s, const struct measured *corner)
{
    remat_status st = REMAT_OK;
    struct remat_arena scratch;
    struct remat_candidate chosen;
    remat_arena_init(&scratch, s->ctx);
    REMAT_TRY(subject_choose(s, &scratch, corner->bytes, &chosen));
    CHECK(chosen.arena_bytes <= corner->bytes && chosen.arranged.step_ns <= corner->ns,
          "%s: %s takes %" PRIu64 " ns and %" PRIu64 " B, a corner %" PRIu64 " ns and %" PRIu64
          " B",
          s->graph->name, chosen.name, chosen.arranged.step_ns, chosen.arena_bytes, corner->ns,
          corner->bytes);
fail:
    remat_arena_release(&scratch);
    return st;
}

static remat_status check_path(struct subject *s, const struct remat_planner *planner,
                               uint32_t path, uint32_t *checked)
{
    remat_status st = REMAT_OK;
    uint64_t most_behind = 0;
    for (uint32_t i = remat_planner_path_length(planner, path); i-- > 0;) {
        struct measured here;
        REMAT_TRY(measure(s, planner, path, i, &here));
        bool is_corner = remat_planner_path_corner(planner, path, i) == i;
        if (is_corner && most_behind <= here.bytes) {
            REMAT_TRY(check_corner(s, &here));
            ++*checked;
        }
        most_behind = here.bytes > most_behind ? here.bytes : most_behind;
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
    REMAT_TRY(remat_model_preset(s->ctx, cases[row].preset, &settings));
    settings.batch = 4;
    settings.dtype = cases[row].dtype;
    settings.dropout = cases[row].dropout;
    REMAT_TRY(subject_prepare(s, &settings, 1, cases[row].device));
    REMAT_TRY(subject_plan(s, &base, &none, &planner));
    uint32_t checked = 0;
    for (uint32_t path = 0; path < remat_planner_path_count(planner); path++)
        REMAT_TRY(check_path(s, planner, path, &checked));
    CHECK(checked > 10, "%s: only %u corners", s->graph->name, checked);
fail:
    return st;
}

int main(void)
{
    for (size_t row = 0; row < sizeof cases / sizeof *cases; row++) {
        struct subject s;
        subject_init(&s);
        remat_status st = check_case(&s, row);
        CHECK(st == REMAT_OK, "%s: %s", cases[row].preset, remat_context_message(s.ctx));
        subject_release(&s);
    }
    return failures > 0;
}
