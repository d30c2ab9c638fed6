/* Launches that the bound charges, in small graphs that are one rule each; every decision over
 * their items takes at least what it costs by that. */
#include <inttypes.h>
#include <string.h>

#include "check.h"
#include "graph_text.h"
#include "subject.h"

enum { FREE_MAX = 8, ACTIONS = 3, EXPECTED = 2 };

static const struct sample {
    const char *name, *body; /* from %x to %y; both are f32[2,64,64] */
    struct {
        const char *item, *with; /* "": of its own; NULL: none is charged */
    } expected[EXPECTED];
} samples[] = {
    {"lone",
     "%a : f32[2,64,64] = tanh %x phase forward\n"
     "%y : f32[2,64,64] = linear %a %w phase forward\n",
     {{"a", ""}}},
    {"read by a program before",
     "%a : f32[2,64,64] = tanh %x phase forward\n"
     "%b : f32[2,64,64] = linear %a %w phase forward\n"
     "%y : f32[2,64,64] = mul %b %a phase forward\n",
     {{"a", NULL}}},
    {"norm of a sum",
     "%p : f32[2,64,64] = linear %x %w phase forward\n"
     "%s : f32[2,64,64] = add %p %x phase forward\n"
     "%n : f32[2,64,64], %r : f32[2,64,1] = rms_norm %s %g { epsilon = 1e-05 } phase forward\n"
     "%q : f32[2,64,64] = linear %n %v phase forward\n"
     "%y : f32[2,64,64] = add %q %s phase forward\n",
     {{"n", "s"}}},
    {"made of two",
     "%p : f32[2,64,64] = linear %x %w phase forward\n"
     "%s : f32[2,64,64] = tanh %p phase forward\n"
     "%q : f32[2,64,64] = linear %s %v phase forward\n"
     "%t : f32[2,64,64] = tanh %q phase forward\n"
     "%u : f32[2,64,64] = linear %t %w phase forward\n"
     "%a : f32[2,64,64] = add %s %t phase forward\n"
     "%b : f32[2,64,64] = linear %a %v phase forward\n"
     "%y : f32[2,64,64] = add %b %u phase forward\n",
     {{"a", NULL}}},
    {"two for named kernels",
     "%a : f32[2,64,64] = add %x %g phase forward\n"
     "%b : f32[2,64,64] = linear %a %w phase forward\n"
     "%r : f32[2,64,1] = row_sum %a phase forward\n"
     "%c : f32[2,64,64] = linear %r %c1 phase forward\n"
     "%y : f32[2,64,64] = add %b %c phase forward\n",
     {{"a", "r"}, {"r", "a"}}},
    {"two readers of a neighbour",
     "%p : f32[2,64,64] = linear %x %w phase forward\n"
     "%s : f32[2,64,64] = add %p %x phase forward\n"
     "%a : f32[2,64,64] = neg %s phase forward\n"
     "%b : f32[2,64,64] = linear %a %v phase forward\n"
     "%c : f32[2,64,64] = add %s %g phase forward\n"
     "%d : f32[2,64,64] = linear %c %v phase forward\n"
     "%y : f32[2,64,64] = add %b %d phase forward\n",
     {{"a", "s"}, {"c", "s"}}},
    {"of one kernel",
     "%p : f32[2,64,64] = linear %x %w phase forward\n"
     "%s : f32[2,64,64] = exp %p phase forward\n"
     "%a : f32[2,64,64] = tanh %s phase forward\n"
     "%b : f32[2,64,64] = sigmoid %s phase forward\n"
     "%c : f32[2,64,64] = linear %a %v phase forward\n"
     "%d : f32[2,64,64] = linear %b %v phase forward\n"
     "%y : f32[2,64,64] = add %c %d phase forward\n",
     {{"a", "b"}, {"b", "a"}}},
};

static const struct {
    const char *use, *declaration;
} parameters[] = {{"", "%w : f32[64,64]"},
                  {" %v ", "%v : f32[64,64]"},
                  {" %g ", "%g : f32[64]"},
                  {" %c1 ", "%c1 : f32[1,64]"}};

static remat_status prepare(struct subject_bench *b, const struct sample *sample)
{
    remat_status st = REMAT_OK;
    struct remat_text t = {.arena = &b->s.arena};
    struct remat_graph *source;
    remat_text_append(&t, "graph \"sample\"\ninput %%ids : i32[2,64]\n"
                          "parameter %%table : f32[64,64] = normal(0.0, 0.02)\n");
    for (size_t p = 0; p < sizeof parameters / sizeof *parameters; p++)
        if (strstr(sample->body, parameters[p].use))
            remat_text_append(&t, "parameter %s = normal(0.0, 0.02)\n", parameters[p].declaration);
    remat_text_append(&t,
                      "%%x : f32[2,64,64] = embedding %%table %%ids phase forward\n%s"
                      "%%logits : f32[2,64,64] = linear %%y %%w phase forward\n"
                      "%%loss : f32[] output, %%lse : f32[2,64,1] = cross_entropy %%logits %%ids "
                      "phase loss\noutput %%loss\n",
                      sample->body);
    REMAT_TRY(remat_graph_parse(b->s.ctx, sample->name, t.items, t.count, &b->s.arena, &source));
    REMAT_TRY(remat_device_description_read(b->s.ctx, &b->s.arena, "h100-sxm", &b->s.device));
    REMAT_TRY(subject_prepare_graph(&b->s, source, 0));
    REMAT_TRY(subject_bench_extract(b));
fail:
    return st;
}

static const char *name_of(const struct subject_bench *b, uint32_t item)
{
    return b->s.graph->values[b->border.item_value[item].i].name;
}

static void check_charges(const struct subject_bench *b, const struct sample *sample)
{
    uint32_t found = 0, expected = 0;
    for (uint32_t e = 0; e < EXPECTED && sample->expected[e].item; e++, expected++)
        for (uint32_t i = 0; i < b->border.item_count; i++) {
            const struct remat_border_task *task =
                &b->border.least.tasks[b->border.least.items[i].task];
            const char *with = sample->expected[e].with;
            const char *is = !task->launch_ps                  ? "none"
                             : task->launch_with == REMAT_NONE ? ""
                                                               : name_of(b, task->launch_with);
            if (strcmp(name_of(b, i), sample->expected[e].item) != 0)
                continue;
            found++;
            CHECK(strcmp(is, with ? with : "none") == 0, "%s, \"%s\": launch \"%s\", not \"%s\"",
                  sample->name, name_of(b, i), is, with ? with : "none");
        }
    CHECK(found == expected, "%s: %u items of %u", sample->name, found, expected);
}

static remat_status check_decisions(struct subject_bench *b, const struct sample *sample)
{
    remat_status st = REMAT_OK;
    static const uint8_t actions[] = {REMAT_ACTION_SAVE, REMAT_ACTION_RECOMPUTE,
                                      REMAT_ACTION_FUSED};
    uint32_t values[FREE_MAX], free = 0, count = 1;
    bool *keep;
    struct remat_decision decision;
    struct remat_arena scratch;
    remat_arena_init(&scratch, b->s.ctx);
    REMAT_NEW(&b->s.arena, keep, b->border.item_count);
    REMAT_TRY(remat_border_decide(&b->s.arena, b->s.graph, &b->border, keep, &b->none, &decision));
    for (uint32_t i = 0; i < b->border.item_count && free < FREE_MAX; i++)
        if (b->border.facts.recomputable[b->border.item_value[i].i]) {
            values[free++] = b->border.item_value[i].i;
            count *= ACTIONS;
        }
    for (uint32_t code = 0; code < count; code++) {
        struct remat_evaluation cost;
        struct remat_least least;
        for (uint32_t f = 0, rest = code; f < free; f++, rest /= ACTIONS)
            decision.actions[values[f]] = actions[rest % ACTIONS];
        REMAT_TRY(remat_evaluate(&b->s.evaluator, &decision, &cost));
        REMAT_TRY(remat_planner_least(b->planner, &scratch, &decision, &least));
        CHECK(least.step_ns <= cost.step_ns,
              "%s, decision %u: %" PRIu64 " ns, but at least %" PRIu64, sample->name, code,
              cost.step_ns, least.step_ns);
        remat_arena_reset(&scratch);
    }
fail:
    remat_arena_release(&scratch);
    return st;
}

int main(void)
{
    for (size_t n = 0; n < sizeof samples / sizeof *samples; n++) {
        struct subject_bench b = {0};
        subject_init(&b.s);
        remat_status st = prepare(&b, &samples[n]);
        if (st == REMAT_OK) {
            check_charges(&b, &samples[n]);
            st = check_decisions(&b, &samples[n]);
        }
        CHECK(st == REMAT_OK, "%s: %s", samples[n].name, remat_context_message(b.s.ctx));
        subject_release(&b.s);
    }
    return failures > 0;
}
