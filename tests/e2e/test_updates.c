/* SPDX-License-Identifier: Apache-2.0 */
/* A state that the forward pass reads, replaces and reads again, with all saved and with all
 * recomputed that can be: the loss is
 * what the graph says, computed here in whole numbers, which f32 adds in any order. */
#include "borrowed_plan.h"
#include "graph_text.h"
#include "harness.h"

enum { N = 16, STEPS = 3 };

/* old is read before the update and joins what is read after it. */
static const char text[] = "graph \"updates\"\n"
                           "input %x : f32[16,16]\n"
                           "parameter %w : f32[16,16] = normal(0.0, 1.0)\n"
                           "state %s : f32[16,16] = constant(2.0)\n"
                           "%old : f32[16,16] = mul %s %s phase forward scope \"h.0\"\n"
                           "%new : f32[16,16] = assign %s %x phase forward scope \"h.0\"\n"
                           "%e : f32[16,16] = matmul %new %w phase forward scope \"h.0\"\n"
                           "%y : f32[16,16] = mul %e %old phase forward scope \"h.0\"\n"
                           "%v : f32[16,16] = matmul %y %w phase forward scope \"h.1\"\n"
                           "%z : f32[16,16] = mul %v %old phase forward scope \"h.1\"\n"
                           "%flat : f32[1,256] = reshape %z { shape = [1, 256] } phase loss\n"
                           "%sum : f32[1,1] = row_sum %flat phase loss\n"
                           "%loss : f32[] = reshape %sum { shape = [] } phase loss\n"
                           "output %loss\n"
                           "update %s = %new\n"
                           "optimizer sgd { weight_decay = 0.0 }\n";

static void multiply(const float *a, const float *b, float *out)
{
    for (int i = 0; i < N * N; i++) {
        out[i] = 0;
        for (int k = 0; k < N; k++)
            out[i] += a[i / N * N + k] * b[k * N + i % N];
    }
}

static float expected(const float *before, const float *x, const float *w)
{
    float e[N * N], v[N * N], sum = 0;
    multiply(x, w, e);
    for (int i = 0; i < N * N; i++)
        e[i] *= before[i] * before[i];
    multiply(e, w, v);
    for (int i = 0; i < N * N; i++)
        sum += v[i] * before[i] * before[i];
    return sum;
}

static void run(remat_context *ctx, struct remat_program *program)
{
    struct remat_plan plan = borrowed_plan(program);
    remat_session *session = harness_open(ctx, &plan, 1);
    float w[N * N], x[N * N], before[N * N], loss, lr = 0;
    for (int i = 0; i < N * N; i++) {
        w[i] = (float)((i + i / 5) % 3 - 1);
        before[i] = 2;
    }
    MUST_OK(ctx, remat_session_write(session, "w", w, sizeof w));
    MUST_OK(ctx, remat_session_write(session, "lr", &lr, sizeof lr));
    for (int step = 0; step < STEPS; step++) {
        for (int i = 0; i < N * N; i++)
            x[i] = (float)((i * 5 + i / 7 + step * 3) % 3 - 1);
        MUST_OK(ctx, remat_session_write(session, "x", x, sizeof x));
        MUST_OK(ctx, remat_session_run(session, "train"));
        MUST_OK(ctx, remat_session_read(session, "loss", &loss, sizeof loss));
        CHECK(loss == expected(before, x, w), "%s, step %d: %g, expected %g", program->policy, step,
              (double)loss, (double)expected(before, x, w));
        memcpy(before, x, sizeof x);
    }
    remat_session_destroy(&session);
}

int main(void)
{
    const char *const all[] = {"*"};
    const struct remat_policy_settings policies[] = {{0}, {.recompute = all, .recompute_count = 1}};
    struct remat_arena arena;
    struct remat_graph *graph;
    struct remat_program *programs[2];
    remat_context *ctx = remat_context_create(NULL, NULL);
    MUST(ctx);
    remat_arena_init(&arena, ctx);
    MUST_OK(ctx, remat_graph_parse(ctx, "updates", text, sizeof text - 1, &arena, &graph));
    for (uint32_t k = 0; k < 2; k++) {
        MUST_OK(ctx, harness_compile(ctx, &arena, graph, NULL, &policies[k], 0, &programs[k]));
        run(ctx, programs[k]);
    }
    CHECK(remat_program_recomputed(programs[0]) == 0 && remat_program_recomputed(programs[1]) > 1,
          "%u and %u values are recomputed", remat_program_recomputed(programs[0]),
          remat_program_recomputed(programs[1]));
    remat_arena_release(&arena);
    remat_context_destroy(&ctx);
    return check_exit();
}
