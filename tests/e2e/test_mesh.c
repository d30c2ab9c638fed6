/* SPDX-License-Identifier: Apache-2.0 */
/* A mesh of two axes, in one process: what a graph with transfers along both of them computes is
 * what a loop over the ranks does; coordinates, exchanges and gathers of parts that are not equal
 * are in it. A rank that never comes ends all, also those that share no group with it. */
#include "borrowed_plan.h"
#include "graph_text.h"
#include "harness.h"

#include <remat/engine.h>

#include <pthread.h>

enum { ELEMENTS = 7, RANKS_MAX = 6 };

/* Each rank has x + 10 c + 100 t. `sums` is a weighted sum of the sums over tp, then over dp;
 * `order` has the digits of all ranks' 3 c + t, gathered over dp, then over tp. Data parallel
 * averages both over dp, where they are equal. */
static const char text_of[] =
    "graph \"mesh\"\n"
    "state %%mesh.dp : i32[1] = constant(0)\n"
    "state %%mesh.tp : i32[1] = constant(0)\n"
    "input %%x : f32[7]\n"
    "input %%weights : f32[1,7]\n"
    "input %%digits : f32[1,%u]\n"
    "%%one : f32[] = constant { value = 1.0 } phase forward\n"
    "%%two : f32[] = constant { value = 2.0 } phase forward\n"
    "%%c : f32[1] = equal %%mesh.dp %%one phase forward\n"
    "%%t1 : f32[1] = equal %%mesh.tp %%one phase forward\n"
    "%%t2 : f32[1] = equal %%mesh.tp %%two phase forward\n"
    "%%t2.twice : f32[1] = mul %%t2 %%two phase forward\n"
    "%%t : f32[1] = add %%t1 %%t2.twice phase forward\n"
    "%%ten : f32[] = constant { value = 10.0 } phase forward\n"
    "%%hundred : f32[] = constant { value = 100.0 } phase forward\n"
    "%%by.c : f32[1] = mul %%c %%ten phase forward\n"
    "%%by.t : f32[1] = mul %%t %%hundred phase forward\n"
    "%%by : f32[1] = add %%by.c %%by.t phase forward\n"
    "%%mine : f32[7] = add %%x %%by phase forward\n"
    "%%over.tp : f32[%u,%u] = exchange %%mine { group = %u, ranks = %u } phase forward\n"
    "%%part.tp : f32[%u] = column_sum %%over.tp phase forward\n"
    "%%sum.tp : f32[7] = gather %%part.tp { group = %u, ranks = %u, shape = [7] } phase forward\n"
    "%%over.dp : f32[2,4] = exchange %%sum.tp { group = %u, ranks = 2 } phase forward\n"
    "%%part.dp : f32[4] = column_sum %%over.dp phase forward\n"
    "%%sum.dp : f32[7] = gather %%part.dp { group = %u, ranks = 2, shape = [7] } phase forward\n"
    "%%weighted : f32[1,7] = mul %%weights %%sum.dp phase forward\n"
    "%%sums : f32[1,1] = row_sum %%weighted phase forward\n"
    "%%c.twice : f32[1] = mul %%c %%two phase forward\n"
    "%%c.thrice : f32[1] = add %%c %%c.twice phase forward\n"
    "%%number : f32[1] = add %%c.thrice %%t phase forward\n"
    "%%column : f32[2] = gather %%number { group = %u, ranks = 2, shape = [2] } phase forward\n"
    "%%all : f32[1,%u] = gather %%column { group = %u, ranks = %u, shape = [1,%u] } phase forward\n"
    "%%digit : f32[1,%u] = mul %%digits %%all phase forward\n"
    "%%order : f32[1,1] = row_sum %%digit phase forward\n"
    "output %%sums\n"
    "output %%order\n";

struct rank {
    pthread_t thread;
    remat_engine engine;
    const struct remat_plan *plan;
    uint64_t timeout_ns;
    remat_status status;
    char message[1024];
    int32_t c, t;
    float sums, order;
};

static struct remat_program *compile(remat_context *ctx, struct remat_arena *arena,
                                     uint32_t columns, bool tp_first)
{
    const struct remat_policy_settings none = {0};
    char text[4096];
    struct remat_graph *graph;
    struct remat_program *program;
    uint32_t n = columns, all = 2 * n, share = (ELEMENTS - 1) / n + 1, dp = tp_first,
             tp = !tp_first;
    int length = snprintf(text, sizeof text, text_of, all, n, share, tp, n, share, tp, n, dp, dp,
                          dp, all, tp, n, all, all);
    MUST_OK(ctx, remat_graph_parse(ctx, "mesh", text, (size_t)length, arena, &graph));
    graph->mesh = tp_first ? (struct remat_mesh){2, {{"tp", n}, {"dp", 2}}}
                           : (struct remat_mesh){2, {{"dp", 2}, {"tp", n}}};
    MUST_OK(ctx, harness_compile(ctx, arena, graph, NULL, &none, 0, &program));
    CHECK(program->mesh_count == 2 && remat_program_ranks(program) == all, "the mesh");
    return program;
}

static void write(remat_context *ctx, remat_session *session, const char *name, const float *data,
                  uint32_t count)
{
    MUST_OK(ctx, remat_session_write(session, name, data, count * sizeof *data));
}

static remat_status evaluate(remat_context *ctx, struct rank *rank, remat_session *session)
{
    remat_status st = REMAT_OK;
    const float x[ELEMENTS] = {1, 2, 3, 4, 5, 6, 7}, weights[ELEMENTS] = {1, 3, 2, 1, 4, 1, 5};
    const float digits[RANKS_MAX] = {1, 8, 64, 512, 4096, 32768};
    REMAT_TRY(remat_session_run(session, "init"));
    MUST_OK(ctx, remat_session_read(session, "mesh.dp", &rank->c, sizeof rank->c));
    MUST_OK(ctx, remat_session_read(session, "mesh.tp", &rank->t, sizeof rank->t));
    write(ctx, session, "x", x, ELEMENTS);
    write(ctx, session, "weights", weights, ELEMENTS);
    write(ctx, session, "digits", digits, rank->engine.ranks);
    REMAT_TRY(remat_session_run(session, "eval"));
    MUST_OK(ctx, remat_session_read(session, "sums", &rank->sums, sizeof rank->sums));
    MUST_OK(ctx, remat_session_read(session, "order", &rank->order, sizeof rank->order));
fail:
    return st;
}

static void *run(void *user)
{
    struct rank *rank = user;
    remat_session_params params;
    remat_session *session;
    remat_context *ctx = remat_context_create(NULL, NULL);
    MUST(ctx);
    remat_session_params_init(&params);
    params.threads = 1;
    params.engine = &rank->engine;
    params.transfer_timeout_ns = rank->timeout_ns;
    MUST_OK(ctx, remat_session_create(ctx, rank->plan, &params, &session));
    rank->status = evaluate(ctx, rank, session);
    snprintf(rank->message, sizeof rank->message, "%s", remat_context_message(ctx));
    remat_session_destroy(&session);
    remat_context_destroy(&ctx);
    return NULL;
}

static void run_all(remat_context *ctx, const struct remat_plan *plan, uint32_t absent,
                    struct rank *ranks)
{
    uint32_t count = remat_program_ranks(plan->program);
    remat_local_ranks *local;
    MUST_OK(ctx, remat_local_create(ctx, count, &local));
    for (uint32_t r = 0; r < count - absent; r++) {
        ranks[r] = (struct rank){.plan = plan, .timeout_ns = UINT64_C(2000000000)};
        ranks[r].timeout_ns *= absent ? 1 : 30;
        remat_local_engine(local, r, &ranks[r].engine);
        MUST(pthread_create(&ranks[r].thread, NULL, run, &ranks[r]) == 0);
    }
    for (uint32_t r = 0; r < count - absent; r++)
        pthread_join(ranks[r].thread, NULL);
    remat_local_destroy(&local);
}

static void test_values(remat_context *ctx, uint32_t columns, bool tp_first)
{
    static const float weights[ELEMENTS] = {1, 3, 2, 1, 4, 1, 5};
    struct remat_arena arena;
    struct rank ranks[RANKS_MAX];
    float sums = 0, order = 0, digit = 1;
    remat_arena_init(&arena, ctx);
    struct remat_plan plan = borrowed_plan(compile(ctx, &arena, columns, tp_first));
    run_all(ctx, &plan, 0, ranks);
    for (uint32_t i = 0; i < ELEMENTS; i++)
        for (uint32_t c = 0; c < 2; c++)
            for (uint32_t t = 0; t < columns; t++)
                sums += weights[i] * (float)(i + 1 + 10 * c + 100 * t);
    for (uint32_t t = 0; t < columns; t++)
        for (uint32_t c = 0; c < 2; c++, digit *= 8)
            order += digit * (float)(3 * c + t);
    for (uint32_t r = 0; r < 2 * columns; r++) {
        int32_t c = (int32_t)(tp_first ? r % 2 : r / columns);
        int32_t t = (int32_t)(tp_first ? r / 2 : r % columns);
        CHECK(ranks[r].status == REMAT_OK && ranks[r].c == c && ranks[r].t == t,
              "rank %u: dp %d, tp %d; %s", r, ranks[r].c, ranks[r].t, ranks[r].message);
        CHECK(ranks[r].sums == sums && ranks[r].order == order,
              "rank %u of %s: %.9g, expected %.9g; %.9g, expected %.9g", r, plan.mesh,
              (double)ranks[r].sums, (double)sums, (double)ranks[r].order, (double)order);
    }
    remat_arena_release(&arena);
}

static void test_absent(remat_context *ctx)
{
    struct remat_arena arena;
    struct rank ranks[RANKS_MAX];
    remat_arena_init(&arena, ctx);
    struct remat_plan plan = borrowed_plan(compile(ctx, &arena, 2, false));
    run_all(ctx, &plan, 1, ranks);
    for (uint32_t r = 0; r < 3; r++)
        CHECK(ranks[r].status == REMAT_ERROR_RANK_LOST &&
                  strstr(ranks[r].message, "(2 ranks); missing: rank 3"),
              "rank %u: %d %s", r, (int)ranks[r].status, ranks[r].message);
    remat_arena_release(&arena);
}

int main(void)
{
    remat_context *ctx = remat_context_create(NULL, NULL);
    MUST(ctx);
    test_values(ctx, 2, false);
    test_values(ctx, 3, false);
    test_values(ctx, 2, true);
    test_values(ctx, 3, true);
    test_absent(ctx);
    remat_context_destroy(&ctx);
    return check_exit();
}
