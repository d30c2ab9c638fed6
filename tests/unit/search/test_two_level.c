/* SPDX-License-Identifier: Apache-2.0 */
/* Many equal layers in little room, beside the closed form of revolve (Griewank and Walther): a
 * backward pass over n layers that finds room for the contents of one layer and for m inputs runs
 * the forward pass of n - m layers more than with room for all inputs, if m (m + 1) / 2 >= n. With
 * an input more, for packing, the planner's plans take no longer than that.
 *
 * Units of several layers that recompute less twice may be faster than single layers that
 * recompute more: in the room of every two-level decision of any path the plan takes no longer than
 * the fastest that fits. */
#include <inttypes.h>

#include "check.h"
#include "subject.h"

enum { LAYERS = 36 };

static const struct {
    const char *preset, *device;
    remat_dtype dtype;
} cases[] = {{"gpt2-tiny", "h200", REMAT_F32}, {"llama-tiny", "h100-sxm", REMAT_BF16}};

struct bench {
    struct subject s;
    struct remat_planner *planner;
    struct remat_decision none, all_inputs;
    uint64_t input_bytes, layer_ns; /* of one layer: its input; its forward pass */
    struct remat_evaluation single; /* with all inputs saved, and nothing else of the layers */
    uint32_t two_level;             /* two-level plans */
};

static remat_status prepare(struct bench *b, size_t row)
{
    remat_status st = REMAT_OK;
    struct remat_model_settings settings;
    struct remat_arrangement *base;
    REMAT_TRY(remat_model_preset(b->s.ctx, cases[row].preset, &settings));
    settings.layers = LAYERS;
    settings.batch = 4;
    settings.seq = settings.context = 128;
    settings.dtype = cases[row].dtype;
    REMAT_TRY(subject_prepare(&b->s, &settings, 2, cases[row].device));
    REMAT_TRY_NEW(&b->s.arena, base, 1);
    REMAT_TRY(subject_plan(&b->s, base, &b->none, &b->planner));
    for (uint32_t k = 0; k < base->kernels.count; k++) {
        const struct remat_kernel_info *kernel = &base->kernels.kernels[k];
        if (kernel->phase == REMAT_PHASE_FORWARD && b->s.graph->scopes[kernel->scope.i].layer == 1)
            b->layer_ns += base->prices[k].ns;
    }
    b->input_bytes = remat_dtype_bytes((remat_dtype)settings.dtype) * (uint64_t)settings.batch *
                     (uint64_t)settings.seq * (uint64_t)settings.width;
    remat_planner_decide(b->planner, &b->s.arena, (remat_path_id){0},
                         remat_path_length(&b->planner->paths[0]) - 1, &b->all_inputs);
    b->single = remat_evaluate(&b->s.evaluator, &b->all_inputs, 0);
fail:
    return st;
}

/* The fewest inputs that are enough when no layer's forward pass runs more than three times. */
static uint32_t fewest_inputs(void)
{
    uint32_t m = 1;
    while (m * (m + 1) / 2 < LAYERS)
        m++;
    return m;
}

/* Room for m inputs, and one more. `single` has all but the first one, which is the sum of two
 * embeddings: nothing is easier to recompute. */
static uint64_t room_for(const struct bench *b, uint32_t m)
{
    return b->single.live_peak_bytes - (LAYERS - 1 - m - 1) * b->input_bytes;
}

static remat_status check_room(struct bench *b, uint32_t m)
{
    remat_status st = REMAT_OK;
    struct remat_arena scratch;
    struct remat_chosen chosen;
    uint64_t most_ns = b->single.step_ns + (LAYERS - m) * b->layer_ns;
    remat_arena_init(&scratch, b->s.ctx);
    REMAT_TRY(subject_choose(&b->s, &scratch, room_for(b, m), &chosen));
    CHECK(chosen.arranged.step_ns <= most_ns,
          "%s, room for %u inputs: %" PRIu64 " ns, %" PRIu64 " ns are enough", b->s.graph->name, m,
          chosen.arranged.step_ns, most_ns);
    b->two_level += remat_decision_rounds(&chosen.decision) > 1;
fail:
    remat_arena_release(&scratch);
    return st;
}

/* --- units of all sizes --- */

enum { GROUPS_MAX = 6, TWO_LEVEL_MAX = 128 };

struct sizes {
    uint32_t count;
    struct two_level {
        uint32_t path;
        struct remat_evaluation cost;
    } two_level[TWO_LEVEL_MAX]; /* what is as small as nothing before it on its path */
};

/* Much of a layer's time goes into its result, which units of two compute once more for every
 * second layer; so in some room they take longer than single layers, and larger units do not. */
static remat_status prepare_sizes(struct subject *s, struct remat_planner **planner)
{
    remat_status st = REMAT_OK;
    struct remat_model_settings settings;
    struct remat_arrangement *base;
    struct remat_decision *none;
    REMAT_TRY(remat_model_preset(s->ctx, "mlp-tiny", &settings));
    settings.layers = 48;
    settings.batch = 32;
    settings.seq = 64;
    settings.dtype = REMAT_BF16;
    REMAT_TRY(subject_prepare(s, &settings, 2, "h100-sxm"));
    REMAT_TRY_NEW(&s->arena, base, 1);
    REMAT_TRY_NEW(&s->arena, none, 1);
    REMAT_TRY(subject_plan(s, base, none, planner));
fail:
    return st;
}

static void list_two_level(struct subject *s, const struct remat_planner *planner, uint32_t path,
                           struct sizes *sizes)
{
    uint32_t length = remat_path_length(&planner->paths[path]);
    uint32_t end = length + remat_path_twice_count(&planner->paths[path]);
    uint64_t least_bytes = UINT64_MAX;
    for (uint32_t step = length; step < end && sizes->count < TWO_LEVEL_MAX; step++) {
        struct two_level *here = &sizes->two_level[sizes->count];
        struct remat_decision decision;
        remat_planner_decide(planner, &s->arena, (remat_path_id){path}, step, &decision);
        here->cost = remat_evaluate(&s->evaluator, &decision, UINT64_MAX);
        if (here->cost.live_peak_bytes >= least_bytes)
            break;
        least_bytes = here->cost.live_peak_bytes;
        here->path = path;
        sizes->count++;
    }
}

static const struct two_level *fastest(const struct sizes *sizes, uint64_t arena_bytes)
{
    const struct two_level *best = NULL;
    for (const struct two_level *n = sizes->two_level; n < sizes->two_level + sizes->count; n++)
        if (n->cost.arena_bytes <= arena_bytes && (!best || n->cost.step_ns < best->cost.step_ns))
            best = n;
    return best;
}

static remat_status check_sizes(struct subject *s)
{
    remat_status st = REMAT_OK;
    struct remat_planner *planner;
    struct sizes sizes = {0};
    struct remat_arena scratch;
    uint32_t larger = 0;
    remat_arena_init(&scratch, s->ctx);
    REMAT_TRY(prepare_sizes(s, &planner));
    for (uint32_t path = 0; path < planner->single_count + GROUPS_MAX - 1; path++)
        list_two_level(s, planner, path, &sizes);
    for (uint32_t i = 0; i < sizes.count; i += 5) {
        uint64_t arena_bytes = sizes.two_level[i].cost.arena_bytes;
        const struct two_level *best = fastest(&sizes, arena_bytes);
        struct remat_chosen chosen;
        REMAT_TRY(subject_choose(s, &scratch, arena_bytes, &chosen));
        CHECK(chosen.arranged.step_ns <= best->cost.step_ns,
              "%" PRIu64 " B: %" PRIu64 " ns, path %u, two-level, for %" PRIu64 " ns", arena_bytes,
              chosen.arranged.step_ns, best->path, best->cost.step_ns);
        larger += best->path > planner->single_count;
        remat_arena_reset(&scratch);
    }
    CHECK(larger > 0, "in no room units of three or more are the fastest");
fail:
    remat_arena_release(&scratch);
    return st;
}

int main(void)
{
    struct subject s;
    subject_init(&s);
    CHECK_OK(s.ctx, check_sizes(&s));
    subject_release(&s);
    for (size_t row = 0; row < sizeof cases / sizeof *cases; row++) {
        struct bench b = {0};
        subject_init(&b.s);
        remat_status st = prepare(&b, row);
        for (uint32_t m = fewest_inputs(); m < LAYERS && st == REMAT_OK; m += 9)
            st = check_room(&b, m);
        CHECK_OK(b.s.ctx, st, "%s", cases[row].preset);
        CHECK(b.two_level > 1, "%s: %u two-level plans", cases[row].preset, b.two_level);
        subject_release(&b.s);
    }
    return check_exit();
}
