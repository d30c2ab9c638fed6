/* SPDX-License-Identifier: Apache-2.0 */
/* What may run at once: the workers of a session, and sessions of one plan in threads of their own.
 * Parameters and outputs have the bits of a session with one thread; under ThreadSanitizer nothing
 * races.
 *     e2e-threads PLAN */
#include <remat/remat.h>

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HOSTS   2
#define WORKERS 3
#define STEPS   2

struct host {
    pthread_t thread;
    pthread_barrier_t *together; /* before each run of an entry point; NULL: alone */
    const char *path;
    const remat_plan *plan;
    uint32_t workers;
    unsigned char *state; /* parameters and outputs after the last step */
};

/* Ends the process: the other threads would wait. */
static void check(remat_status st, const struct host *host, const remat_context *ctx)
{
    if (st == REMAT_OK)
        return;
    fprintf(stderr, "%s: %s\n", host->path, ctx ? remat_context_message(ctx) : "out of memory");
    exit(1);
}

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
    check(remat_session_run(session, entry), host, ctx);
}

static void train(const struct host *host, remat_context *ctx, remat_session *session)
{
    const float lr = 3e-4f;
    remat_tensor_info tensor = {.struct_size = sizeof tensor};
    run_entry(host, ctx, session, "init");
    for (int32_t step = 1; step <= STEPS; step++) {
        for (uint32_t t = 0; remat_plan_get_tensor(host->plan, t, &tensor); t++)
            if (tensor.role == REMAT_TENSOR_INPUT && tensor.index_bound)
                check(write_ids(session, &tensor, step), host, ctx);
        check(remat_session_write(session, "lr", &lr, sizeof lr), host, ctx);
        check(remat_session_write(session, "step", &step, sizeof step), host, ctx);
        run_entry(host, ctx, session, "train");
    }
}

static void *run(void *user)
{
    struct host *host = user;
    remat_session_params params;
    remat_session *session = NULL;
    remat_context *ctx = remat_context_create(NULL, NULL);
    check(ctx ? REMAT_OK : REMAT_ERROR_MEMORY, host, ctx);
    remat_session_params_init(&params);
    params.device = "cpu";
    params.threads = host->workers;
    check(remat_session_create(ctx, host->plan, &params, &session), host, ctx);
    train(host, ctx, session);
    unsigned char *to = host->state;
    remat_tensor_info tensor = {.struct_size = sizeof tensor};
    for (uint32_t t = 0; remat_plan_get_tensor(host->plan, t, &tensor); t++) {
        if (!is_compared(&tensor))
            continue;
        check(remat_session_read(session, tensor.name, to, tensor.bytes), host, ctx);
        to += tensor.bytes;
    }
    remat_session_destroy(&session);
    remat_context_destroy(&ctx);
    return NULL;
}

static int count_faults(const char *path)
{
    struct host hosts[HOSTS], alone = {.path = path, .workers = 1};
    remat_context *ctx = remat_context_create(NULL, NULL);
    remat_plan *plan = NULL;
    pthread_barrier_t together;
    pthread_barrier_init(&together, NULL, HOSTS);
    check(ctx ? remat_plan_load_file(ctx, path, &plan) : REMAT_ERROR_MEMORY, &alone, ctx);
    uint64_t bytes = count_bytes(plan);
    alone.plan = plan;
    alone.state = calloc(bytes, 1);
    for (int h = 0; h < HOSTS; h++) {
        hosts[h] =
            (struct host){.together = &together, .path = path, .plan = plan, .workers = WORKERS};
        hosts[h].state = calloc(bytes, 1);
        check(pthread_create(&hosts[h].thread, NULL, run, &hosts[h]) ? REMAT_ERROR_OTHER : REMAT_OK,
              &alone, NULL);
    }
    run(&alone);

    int faults = bytes == 0;
    for (int h = 0; h < HOSTS; h++) {
        pthread_join(hosts[h].thread, NULL);
        if (memcmp(hosts[h].state, alone.state, bytes) != 0) {
            fprintf(stderr, "%s: session %d has other bits than one with one thread\n", path, h);
            faults++;
        }
        free(hosts[h].state);
    }
    free(alone.state);
    pthread_barrier_destroy(&together);
    remat_plan_destroy(&plan);
    remat_context_destroy(&ctx);
    return faults;
}

int main(int argc, char **argv)
{
    return argc != 2 || count_faults(argv[1]) > 0;
}
