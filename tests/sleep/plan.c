/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a plan's step on all of its ranks, which sleep, and prints what was predicted and measured:
 *
 *     sleep-plan PLAN SECONDS [SEED]
 *
 * A step is stretched to so many seconds. With a seed each command takes half to double its time.
 * Times are printed as the plan has them, not stretched. Where it may, it runs before all else on
 * the machine (SCHED_FIFO): who sleeps then wakes in time, however busy that is. Exits with 1 if a
 * rank fails, or uses bytes that it may not use. */
#include "borrowed_plan.h"
#include "check.h"
#include "file.h"
#include "host.h"
#include "sleep.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#define TIMEOUT_NS UINT64_C(60000000000) /* beyond which ranks wait for each other for ever */

struct run {
    const struct remat_program *program;
    struct remat_plan plan;
    struct sleep_ranks *sleep;
    struct sleep_settings settings;
    pthread_barrier_t barrier;
};

struct rank {
    struct run *run;
    pthread_t thread;
    uint32_t number;
    uint64_t step_ns, computed_ns;
};

static void run_entry(remat_context *ctx, struct rank *rank, remat_session *session,
                      const char *name, const struct sleep_settings *settings)
{
    struct run *run = rank->run;
    pthread_barrier_wait(&run->barrier);
    sleep_begin(run->sleep, rank->number, settings);
    uint64_t begin_ns = remat_now_ns();
    CHECK_OK(ctx, remat_session_run(session, name), "rank %u", rank->number);
    rank->step_ns = remat_now_ns() - begin_ns;
    rank->computed_ns = sleep_computed_ns(run->sleep, rank->number);
}

static void *run_rank(void *user)
{
    struct rank *rank = user;
    struct run *run = rank->run;
    remat_session_params params;
    remat_session *session;
    remat_engine engine;
    remat_context *ctx = remat_context_create(NULL, NULL);
    remat_session_params_init(&params);
    params.device = SLEEP_DEVICE;
    if (remat_program_ranks(run->program) > 1) {
        sleep_engine(run->sleep, rank->number, NULL, &engine);
        params.engine = &engine;
    }
    MUST_OK(ctx, remat_session_create(ctx, &run->plan, &params, &session));
    sleep_attach(run->sleep, rank->number, session);
    const struct sleep_settings at_once = {.timeout_ns = TIMEOUT_NS};
    run_entry(ctx, rank, session, "init", &at_once);
    run_entry(ctx, rank, session, "train", &run->settings);
    const char *wrong = sleep_message(run->sleep, rank->number);
    CHECK(!*wrong, "rank %u: %s", rank->number, wrong);
    remat_session_destroy(&session);
    remat_context_destroy(&ctx);
    return NULL;
}

/* Of all ranks the mean. */
static void print(const struct run *run, const struct rank *ranks, bool before_all)
{
    const struct remat_program *p = run->program;
    struct remat_communication sent = remat_program_communication(p);
    uint32_t count = remat_program_ranks(p);
    double step_ns = 0, computed_ns = 0, scale = run->settings.scale;
    for (uint32_t r = 0; r < count; r++) {
        step_ns += (double)ranks[r].step_ns / count / scale;
        computed_ns += (double)ranks[r].computed_ns / count / scale;
    }
    printf("{\"before_all\": %s, \"ranks\": %u, \"commands\": %u, \"scale\": %.6g, "
           "\"predicted_step_ns\": %llu, "
           "\"measured_step_ns\": %.0f, \"transfers_ns\": %llu, \"predicted_exposed_ns\": %llu, "
           "\"measured_exposed_ns\": %.0f}\n",
           before_all ? "true" : "false", count, p->command_count, scale,
           (unsigned long long)p->step_ns, step_ns, (unsigned long long)sent.ns,
           (unsigned long long)sent.exposed_ns, step_ns - computed_ns);
}

int main(int argc, char **argv)
{
    struct run run = {0};
    struct remat_program *program;
    struct remat_arena arena;
    char *data;
    size_t bytes;
    remat_context *ctx = remat_context_create(NULL, NULL);
    MUST(ctx && argc >= 3);
    remat_arena_init(&arena, ctx);
    MUST_OK(ctx, remat_file_read(ctx, argv[1], &arena, &data, &bytes));
    MUST_OK(ctx, remat_program_read(ctx, argv[1], data, bytes, &arena, &program));
    run.program = program;
    run.plan = borrowed_plan(program);
    double scale = atof(argv[2]) * 1e9 / (double)program->step_ns;
    run.settings = (struct sleep_settings){.scale = scale,
                                           .transfer_scale = scale,
                                           .seed = argc > 3 ? strtoull(argv[3], NULL, 10) : 0,
                                           .timeout_ns = TIMEOUT_NS};
    run.sleep = sleep_create(program);
    bool before_all = sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){1}) == 0;
    uint32_t count = remat_program_ranks(program);
    struct rank *ranks = calloc(count, sizeof *ranks);
    MUST(ranks && pthread_barrier_init(&run.barrier, NULL, count) == 0);
    for (uint32_t r = 0; r < count; r++) {
        ranks[r] = (struct rank){.run = &run, .number = r};
        MUST(pthread_create(&ranks[r].thread, NULL, run_rank, &ranks[r]) == 0);
    }
    for (uint32_t r = 0; r < count; r++)
        pthread_join(ranks[r].thread, NULL);
    print(&run, ranks, before_all);
    pthread_barrier_destroy(&run.barrier);
    sleep_destroy(&run.sleep);
    free(ranks);
    remat_arena_release(&arena);
    remat_context_destroy(&ctx);
    return check_exit();
}
