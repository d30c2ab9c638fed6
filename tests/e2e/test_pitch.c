/* SPDX-License-Identifier: Apache-2.0 */
/* Logits over 1031 ids lie in rows of 1088; a host that asks for copies of activations traces rows
 * of 1031: the loss made of these in double is the plan's. In fp32, so that nothing but the sum's
 * order differs. A host that does not ask gets no data of them. No traced run allocates. */
#include <math.h>
#include <stdlib.h>

#include "borrowed_plan.h"
#include "harness.h"

#define BATCH 2
#define SEQ   9
#define IDS   1031

static struct {
    float logits[BATCH * SEQ][IDS];
    uint32_t count, without_data;
} seen;
static uint32_t allocations;

static int catch_logits(void *user, const remat_trace_event *event)
{
    (void)user;
    for (uint32_t v = 0; v < event->value_count; v++) {
        const remat_trace_value *value = &event->values[v];
        if (strcmp(event->phase, "forward") != 0 || value->bytes != sizeof seen.logits)
            continue;
        seen.count++;
        if (value->data)
            memcpy(seen.logits, value->data, sizeof seen.logits);
        else
            seen.without_data++;
    }
    return 0;
}

static void *count_allocation(void *user, void *pointer, size_t bytes)
{
    (void)user;
    allocations += bytes != 0;
    if (bytes)
        return realloc(pointer, bytes);
    free(pointer);
    return NULL;
}

/* A traced step of a session with copies of these roles. */
static double run(remat_context *ctx, const remat_plan *plan, uint32_t trace_copies,
                  int32_t *targets)
{
    remat_session_params params;
    remat_session *session;
    float loss;
    memset(&seen, 0, sizeof seen);
    remat_session_params_init(&params);
    params.threads = 1;
    params.trace = catch_logits;
    params.trace_copies = trace_copies;
    MUST_OK(ctx, remat_session_create(ctx, plan, &params, &session));
    uint32_t before = allocations;
    MUST_OK(ctx, remat_session_run(session, "init"));
    harness_write_inputs(ctx, session, plan, 0, 0);
    MUST_OK(ctx, remat_session_run(session, "train"));
    CHECK(allocations == before, "%u allocations in a traced run", allocations - before);
    MUST_OK(ctx, remat_session_read(session, "loss", &loss, sizeof loss));
    MUST_OK(ctx, remat_session_read(session, "targets", targets, BATCH * SEQ * sizeof *targets));
    CHECK(seen.count > 0, "no logits were traced");
    remat_session_destroy(&session);
    return (double)loss;
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
    const remat_allocator allocator = {count_allocation, NULL};
    remat_context *ctx = remat_context_create(&allocator, NULL);
    struct remat_arena arena;
    struct remat_program *program;
    struct remat_policy_settings policy = {0};
    int32_t targets[BATCH * SEQ];
    remat_arena_init(&arena, ctx);
    struct remat_graph *graph = harness_model(
        ctx, &arena, "gpt2-tiny",
        (struct remat_model_settings){.layers = 1, .batch = BATCH, .seq = SEQ, .vocab = IDS});
    MUST_OK(ctx, harness_compile(ctx, &arena, graph, NULL, &policy, 0, &program));
    struct remat_plan plan = borrowed_plan(program);
    double loss = run(ctx, &plan, 1u << REMAT_TENSOR_ACTIVATION, targets);
    double expected = cross_entropy(targets);
    CHECK(seen.without_data == 0, "copies were asked for in vain");
    CHECK(fabs(loss - expected) < 1e-6 * expected, "loss %.9g, of the logits %.9g", loss, expected);
    run(ctx, &plan, 1u << REMAT_TENSOR_OUTPUT | 1u << REMAT_TENSOR_GRADIENT, targets);
    CHECK(seen.without_data == seen.count, "copies that nobody asked for");
    remat_arena_release(&arena);
    remat_context_destroy(&ctx);
    return check_exit();
}
