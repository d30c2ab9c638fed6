/* SPDX-License-Identifier: Apache-2.0 */
/* Units of layers that are recomputed from one input: between two inputs that a path's
 * decision saves lie no more layers than the path says, and fewer inputs make a smaller plan than
 * recomputing each layer by itself. In the bytes of every manual policy that does the same with
 * units of one size, no plan is slower. */
#include <inttypes.h>

#include "check.h"
#include "search.h"
#include "subject.h"

enum { LAYERS = 12 };

static const struct {
    const char *preset, *device;
    bool written_out;
} cases[] = {{"llama-tiny", "h100-sxm", false}, {"gpt2-tiny", "a100-80", true}};

struct bench {
    struct subject s;
    struct remat_planner *planner;
    struct remat_decision none;
};

static remat_status prepare(struct bench *b, size_t row)
{
    remat_status st = REMAT_OK;
    struct remat_model_settings settings;
    struct remat_arrangement *base;
    REMAT_TRY(remat_model_preset(b->s.ctx, cases[row].preset, &settings));
    settings.layers = LAYERS;
    settings.width = 128;
    settings.heads = 4;
    settings.vocab = 9973; /* so that most is live at the loss */
    settings.context = settings.seq = 256;
    settings.batch = 4;
    settings.written_out = cases[row].written_out;
    REMAT_TRY(subject_prepare(&b->s, &settings, 2, cases[row].device));
    b->s.device.launch_ns = 0; /* a small model stands for a large one */
    subject_reprice(&b->s);
    REMAT_TRY_NEW(&b->s.arena, base, 1);
    REMAT_TRY(subject_plan(&b->s, base, &b->none, &b->planner));
fail:
    return st;
}

/* The layer that hands its result on as this value, -1: none does. */
static int32_t layer_of_input(const struct remat_graph *g, uint32_t v)
{
    uint32_t from = g->values[v].node.i;
    const struct remat_scope *scope =
        remat_is_none(from) ? NULL : &g->scopes[g->nodes[from].scope.i];
    if (!scope || scope->layer < 0 || g->nodes[from].phase != REMAT_PHASE_FORWARD)
        return -1;
    for (uint32_t n = 0; n < g->node_count; n++)
        for (uint32_t i = 0; i < g->nodes[n].input_count; i++)
            if (g->nodes[n].inputs[i].i == v && g->nodes[n].phase == REMAT_PHASE_FORWARD &&
                g->scopes[g->nodes[n].scope.i].layer > scope->layer)
                return scope->layer;
    return -1;
}

/* The most layers between two saved inputs. */
static uint32_t largest_unit(const struct remat_graph *g, const struct remat_decision *decision)
{
    bool saved[LAYERS] = {false};
    uint32_t most = 0, size = 0;
    for (uint32_t v = 0; v < g->value_count; v++) {
        int32_t layer = layer_of_input(g, v);
        if (layer >= 0 && decision->actions[v] == REMAT_ACTION_SAVE)
            saved[layer] = true;
    }
    for (uint32_t layer = 0; layer < LAYERS; layer++) {
        most = ++size > most ? size : most;
        size = saved[layer] ? 0 : size;
    }
    return most;
}

static void check_sizes(struct bench *b)
{
    uint32_t singles = b->planner->single_count;
    uint64_t single_bytes = UINT64_MAX, pairs_bytes = UINT64_MAX;
    CHECK(b->planner->path_count == singles + LAYERS - 1, "%u paths", b->planner->path_count);
    for (uint32_t path = 0; path < b->planner->path_count; path++) {
        uint32_t size = path < singles ? 1 : path - singles + 2;
        uint32_t last = remat_path_length(&b->planner->paths[path]) - 1;
        struct remat_decision decision;
        struct remat_evaluation cost;
        for (uint32_t i = 0; size > 1 && i <= 1; i++) { /* begins where units do */
            remat_planner_decide(b->planner, &b->s.arena, (remat_path_id){path}, i, &decision);
            CHECK(largest_unit(b->s.graph, &decision) == i + 1, "path %u, %u: a unit of %u", path,
                  i, largest_unit(b->s.graph, &decision));
        }
        for (uint32_t i = path % 5; i < last; i += 5) {
            remat_planner_decide(b->planner, &b->s.arena, (remat_path_id){path}, i, &decision);
            uint32_t most = largest_unit(b->s.graph, &decision);
            CHECK(most <= size, "path %u, %u: a unit of %u", path, i, most);
        }
        remat_planner_decide(b->planner, &b->s.arena, (remat_path_id){path}, last, &decision);
        CHECK(largest_unit(b->s.graph, &decision) == size, "path %u ends with units of %u", path,
              largest_unit(b->s.graph, &decision));
        cost = remat_evaluate(&b->s.evaluator, &decision, 0);
        uint64_t *least = size == 1 ? &single_bytes : &pairs_bytes;
        if (size <= 2 && cost.live_peak_bytes < *least)
            *least = cost.live_peak_bytes;
    }
    CHECK(pairs_bytes < single_bytes, "%" PRIu64 " B with pairs, %" PRIu64 " B without",
          pairs_bytes, single_bytes);
}

static remat_status check_policy(struct bench *b, const struct subject_manual *listed,
                                 uint32_t policy)
{
    remat_status st = REMAT_OK;
    struct remat_arena scratch;
    struct remat_decision decision;
    struct remat_evaluation manual;
    struct remat_chosen chosen;
    remat_arena_init(&scratch, b->s.ctx);
    REMAT_TRY(subject_manual_decide(listed, &scratch, policy, &decision));
    manual = remat_evaluate(&b->s.evaluator, &decision, UINT64_MAX);
    REMAT_TRY(subject_choose(&b->s, &scratch, manual.arena_bytes, &chosen));
    CHECK(chosen.arranged.step_ns <= manual.step_ns,
          "%s: %s takes %" PRIu64 " ns, %s %" PRIu64 " ns in %" PRIu64 " B", b->s.graph->name,
          chosen.name, chosen.arranged.step_ns, listed->policies[policy].name, manual.step_ns,
          manual.arena_bytes);
fail:
    remat_arena_release(&scratch);
    return st;
}

static remat_status check_uniform(struct bench *b)
{
    remat_status st = REMAT_OK;
    struct subject_manual listed;
    uint32_t uniform = 0;
    REMAT_TRY(subject_manual(&b->s, &listed));
    for (uint32_t i = 0; i < listed.count; i++)
        if (listed.policies[i].granularity == REMAT_POLICY_LAYERS &&
            listed.policies[i].unit_layers > 1) {
            REMAT_TRY(check_policy(b, &listed, i));
            uniform++;
        }
    CHECK(uniform == LAYERS - 1, "%u policies", uniform);
fail:
    return st;
}

int main(void)
{
    for (size_t row = 0; row < sizeof cases / sizeof *cases; row++) {
        struct bench b = {0};
        subject_init(&b.s);
        remat_status st = prepare(&b, row);
        if (st == REMAT_OK)
            check_sizes(&b);
        if (st == REMAT_OK)
            st = check_uniform(&b);
        CHECK_OK(b.s.ctx, st, "%s", cases[row].preset);
        subject_release(&b.s);
    }
    return check_exit();
}
