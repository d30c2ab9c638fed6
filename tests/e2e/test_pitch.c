/* Logits over 1031 ids lie in rows of 1088; a host that traces them sees rows of 1031: the loss
 * made of these in double is the plan's. In fp32, so that nothing but the sum's order differs. */
#include <math.h>

#include "harness.h"

#define BATCH 2
#define SEQ   9
#define IDS   1031

static struct {
    float logits[BATCH * SEQ][IDS];
    uint32_t count;
} seen;

static int catch_logits(void *user, const remat_trace_event *event)
{
    (void)user;
    for (uint32_t v = 0; v < event->value_count; v++) {
        const remat_trace_value *value = &event->values[v];
        if (strcmp(event->phase, "forward") != 0 || value->bytes != sizeof seen.logits)
            continue;
        seen.count++;
        memcpy(seen.logits, value->data, sizeof seen.logits);
    }
    return 0;
}

static double cross_entropy(const int32_t *targets)
{
    double loss = 0;
    for (int row = 0; row < BATCH * SEQ; row++) {
        double sum = 0;
        for (int id = 0; id < IDS; id++)
            sum += exp((double)seen.logits[row][id]);
        loss += log(sum) - (double)seen.logits[row][targets[row]];
    }
    return loss / (BATCH * SEQ);
}

int main(void)
{
    remat_context *ctx = remat_context_create(NULL, NULL);
    struct remat_arena arena;
    struct remat_program *program;
    struct remat_policy_settings policy = {0};
    int32_t targets[BATCH * SEQ];
    float loss;
    remat_arena_init(&arena, ctx);
    struct remat_graph *graph = harness_model(
        ctx, &arena, "gpt2-tiny",
        (struct remat_model_settings){.layers = 1, .batch = BATCH, .seq = SEQ, .vocab = IDS});
    MUST(ctx, harness_compile(ctx, &arena, graph, &policy, 0, 0, &program));
    struct remat_plan plan = remat_plan_borrow(program);
    remat_session *session = harness_open(ctx, &plan, 1);
    remat_session_set_trace(session, catch_logits, NULL);
    harness_write_inputs(ctx, session, &plan, 0, 0);
    MUST(ctx, remat_session_run(session, "train"));
    MUST(ctx, remat_session_read(session, "loss", &loss, sizeof loss));
    MUST(ctx, remat_session_read(session, "targets", targets, sizeof targets));
    double expected = cross_entropy(targets);
    harness_check(seen.count > 0, "no logits were traced");
    harness_check(fabs((double)loss - expected) < 1e-6 * expected, "loss %.9g, of the logits %.9g",
                  (double)loss, expected);
    remat_session_set_trace(session, NULL, NULL);
    remat_session_destroy(&session);
    remat_arena_release(&arena);
    remat_context_destroy(&ctx);
    return harness_exit();
}
