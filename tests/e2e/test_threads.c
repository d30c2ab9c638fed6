/* SPDX-License-Identifier: Apache-2.0 */
/* What may run at once: the workers of a session, and sessions of one plan in threads of their own.
 * Parameters and outputs have the bits of a session with one thread; under ThreadSanitizer nothing
 * races.
 *     e2e-threads PLAN */
#include "check.h"

#include <remat/remat.h>

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define HOSTS   2
#define WORKERS 3
#define STEPS   2

struct host {
    pthread_t thread;
    pthread_barrier_t *together; /* before each run of an entry point; NULL: alone */
    const remat_plan *plan;
    uint32_t workers;
    unsigned char *state; /* parameters and outputs after the last step */
};

static bool is_compared(const remat_tensor_info *tensor)
{
    return tensor->role == REMAT_TENSOR_PARAMETER || tensor->role == REMAT_TENSOR_OUTPUT;
}

static uint64_t count_bytes(const remat_plan *plan)
{
    uint64_t bytes = 0;
    remat_tensor_info tensor = {.struct_size = sizeof tensor};
    for (uint32_t t = 0; remat_plan_get_tensor(plan, t, &tensor); t++)
        bytes += is_compared(&tensor) ? tensor.bytes : 0;
    return bytes;
}

/* Ids within the tensor's range, which differ from step to step. */
static remat_status write_ids(remat_session *session, const remat_tensor_info *tensor, int32_t step)
{
    int32_t *ids = malloc(tensor->bytes);
    if (!ids)
        return REMAT_ERROR_MEMORY;
    for (uint64_t i = 0; i < tensor->bytes / sizeof *ids; i++)
        ids[i] = (int32_t)((i * i + (uint64_t)step) % tensor->index_bound);
    remat_status st = remat_session_write(session, tensor->name, ids, tensor->bytes);
    free(ids);
    return st;
}

static void run_entry(const struct host *host, remat_context *ctx, remat_session *session,
                      const char *entry)
{
    if (host->together)
        pthread_barrier_wait(host->together);
    MUST_OK(ctx, remat_session_run(session, entry));
}

static void train(const struct host *host, remat_context *ctx, remat_session *session)
{
    const float lr = 3e-4f;
    remat_tensor_info tensor = {.struct_size = sizeof tensor};
    run_entry(host, ctx, session, "init");
    for (int32_t step = 1; step <= STEPS; step++) {
        for (uint32_t t = 0; remat_plan_get_tensor(host->plan, t, &tensor); t++)
            if (tensor.role == REMAT_TENSOR_INPUT && tensor.index_bound)
                MUST_OK(ctx, write_ids(session, &tensor, step));
        MUST_OK(ctx, remat_session_write(session, "lr", &lr, sizeof lr));
        MUST_OK(ctx, remat_session_write(session, "step", &step, sizeof step));
        run_entry(host, ctx, session, "train");
    }
}

static void *run(void *user)
{
    struct host *host = user;
    remat_session_params params;
    remat_session *session = NULL;
    remat_context *ctx = remat_context_create(NULL, NULL);
    MUST(ctx);
    remat_session_params_init(&params);
    params.device = "cpu";
    params.threads = host->workers;
    MUST_OK(ctx, remat_session_create(ctx, host->plan, &params, &session));
    train(host, ctx, session);
    unsigned char *to = host->state;
    remat_tensor_info tensor = {.struct_size = sizeof tensor};
    for (uint32_t t = 0; remat_plan_get_tensor(host->plan, t, &tensor); t++) {
        if (!is_compared(&tensor))
            continue;
        MUST_OK(ctx, remat_session_read(session, tensor.name, to, tensor.bytes));
        to += tensor.bytes;
    }
    remat_session_destroy(&session);
    remat_context_destroy(&ctx);
    return NULL;
}

int main(int argc, char **argv)
{
    struct host hosts[HOSTS], alone = {.workers = 1};
    remat_context *ctx = remat_context_create(NULL, NULL);
    remat_plan *plan = NULL;
    pthread_barrier_t together;
    pthread_barrier_init(&together, NULL, HOSTS);
    MUST(argc == 2 && ctx, "%d arguments", argc);
    MUST_OK(ctx, remat_plan_load_file(ctx, argv[1], &plan));
    uint64_t bytes = count_bytes(plan);
    alone.plan = plan;
    alone.state = calloc(bytes, 1);
    for (int h = 0; h < HOSTS; h++) {
        hosts[h] = (struct host){.together = &together, .plan = plan, .workers = WORKERS};
        hosts[h].state = calloc(bytes, 1);
        MUST(pthread_create(&hosts[h].thread, NULL, run, &hosts[h]) == 0);
    }
    run(&alone);

    CHECK(bytes > 0, "%s", argv[1]);
    for (int h = 0; h < HOSTS; h++) {
        pthread_join(hosts[h].thread, NULL);
        CHECK(memcmp(hosts[h].state, alone.state, bytes) == 0,
              "%s: session %d has other bits than one with one thread", argv[1], h);
        free(hosts[h].state);
    }
    free(alone.state);
    pthread_barrier_destroy(&together);
    remat_plan_destroy(&plan);
    remat_context_destroy(&ctx);
    return check_exit();
}
