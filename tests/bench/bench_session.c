/* SPDX-License-Identifier: Apache-2.0 */
/* A training step, on ids drawn by Zipf's law, for each line of standard input, so that
 * bench_step.py can take turns between processes: bench_session PLAN THREADS [DEVICE [LIBRARIES]],
 * as remat-run's --threads, --device and --cuda-libraries. Prints one JSON object a step: step_ns,
 * loss, the device that ran it, the bytes that are in use there as its driver says (0 of a CPU),
 * the process's highest resident memory, and how many ids are distinct. */
#include "ids.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

static void must(remat_context *ctx, remat_status status)
{
    if (status == REMAT_OK)
        return;
    fprintf(stderr, "bench_session: %s\n", remat_context_message(ctx));
    exit((int)status);
}

static void run_step(remat_context *ctx, remat_session *session, int32_t step, uint64_t distinct)
{
    struct timespec begin, end;
    struct rusage usage;
    float loss;
    must(ctx, remat_session_write(session, "step", &step, sizeof step));
    clock_gettime(CLOCK_MONOTONIC, &begin);
    must(ctx, remat_session_run(session, "train"));
    clock_gettime(CLOCK_MONOTONIC, &end);
    must(ctx, remat_session_read(session, "loss", &loss, sizeof loss));
    getrusage(RUSAGE_SELF, &usage);
    int64_t ns = (end.tv_sec - begin.tv_sec) * INT64_C(1000000000) + end.tv_nsec - begin.tv_nsec;
    printf("{\"step_ns\": %" PRId64
           ", \"loss\": %.6f, \"device\": \"%s\", \"device_bytes\": %" PRIu64
           ", \"peak_rss_bytes\": %ld, \"distinct_ids\": %" PRIu64 "}\n",
           ns, (double)loss, remat_session_device(session), remat_session_device_bytes(session),
           usage.ru_maxrss * 1024, distinct);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    const float lr = 3e-4f;
    remat_plan *plan;
    remat_session *session;
    remat_session_params params;
    remat_context *ctx = remat_context_create(NULL, NULL);
    if (argc < 3 || argc > 5 || !ctx) {
        fprintf(stderr, "usage: bench_session PLAN THREADS [DEVICE [LIBRARIES]]\n");
        return 2;
    }
    remat_session_params_init(&params);
    params.threads = (uint32_t)atoi(argv[2]);
    params.device = argc > 3 ? argv[3] : NULL;
    params.cuda_libraries = argc > 4 ? argv[4] : NULL;
    must(ctx, remat_plan_load_file(ctx, argv[1], &plan));
    must(ctx, remat_session_create(ctx, plan, &params, &session));
    must(ctx, remat_session_run(session, "init"));
    uint64_t distinct;
    must(ctx, ids_write(ctx, session, plan, &distinct));
    must(ctx, remat_session_write(session, "lr", &lr, sizeof lr));
    int32_t step = 0;
    for (int c = getchar(); c != EOF; c = getchar())
        if (c == '\n')
            run_step(ctx, session, ++step, distinct);
    remat_session_destroy(&session);
    remat_plan_destroy(&plan);
    remat_context_destroy(&ctx);
    return 0;
}
