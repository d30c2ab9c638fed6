/* Many equal layers in little room, beside the closed form of revolve (Griewank and Walther): a
 * backward pass over n layers that finds room for the contents of one layer and for m inputs runs
 * the forward pass of n - m layers more than with room for all inputs, if m (m + 1) / 2 >= n. With
 * an input more, for packing, the planner's plans take no longer than that. */
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
    REMAT_NEW(&b->s.arena, base, 1);
    REMAT_TRY(subject_plan(&b->s, base, &b->none, &b->planner));
    for (uint32_t k = 0; k < base->kernels.count; k++) {
        const struct remat_fused_kernel *kernel = &base->kernels.kernels[k];
        if (kernel->phase == REMAT_PHASE_FORWARD && b->s.graph->scopes[kernel->scope].layer == 1)
            b->layer_ns += base->prices[k].ns;
    }
    b->input_bytes = remat_dtype_bytes((remat_dtype)settings.dtype) * (uint64_t)settings.batch *
                     (uint64_t)settings.seq * (uint64_t)settings.width;
    REMAT_TRY(remat_planner_decide(b->planner, &b->s.arena, 0,
                                   remat_planner_path_length(b->planner, 0) - 1, &b->all_inputs));
    REMAT_TRY(remat_evaluate(&b->s.evaluator, &b->all_inputs, &b->single));
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
 * embeddings: nothing is easier to compute again. */
static uint64_t room_for(const struct bench *b, uint32_t m)
{
    return b->single.live_peak_bytes - (LAYERS - 1 - m - 1) * b->input_bytes;
}

static remat_status check_room(struct bench *b, uint32_t m)
{
    remat_status st = REMAT_OK;
    struct remat_arena scratch;
    struct remat_candidate chosen;
    uint64_t most_ns = b->single.step_ns + (LAYERS - m) * b->layer_ns;
    remat_arena_init(&scratch, b->s.ctx);
    REMAT_TRY(subject_choose(&b->s, &scratch, room_for(b, m), &chosen));
    CHECK(chosen.arranged.step_ns <= most_ns,
          "%s, room for %u inputs: %" PRIu64 " ns, %" PRIu64 " ns are enough", b->s.graph->name, m,
          chosen.arranged.step_ns, most_ns);
    CHECK(remat_decision_rounds(&chosen.decision) > 1 ||
              chosen.arranged.step_ns <= b->single.step_ns,
          "%s, room for %u inputs: nothing is nested", b->s.graph->name, m);
fail:
    remat_arena_release(&scratch);
    return st;
}

int main(void)
{
    for (size_t row = 0; row < sizeof cases / sizeof *cases; row++) {
        struct bench b = {0};
        subject_init(&b.s);
        remat_status st = prepare(&b, row);
        for (uint32_t m = fewest_inputs(); m < LAYERS && st == REMAT_OK; m += 9)
            st = check_room(&b, m);
        CHECK(st == REMAT_OK, "%s: %s", cases[row].preset, remat_context_message(b.s.ctx));
        subject_release(&b.s);
    }
    return failures > 0;
}
