/* SPDX-License-Identifier: Apache-2.0 */
#include "comm.h"

#include "host.h"

#include <assert.h>
#include <inttypes.h>
#include <pthread.h>

static void *make_call(void *user)
{
    struct comm_call *call = user;
    call->result = call->function(call->argument);
    atomic_store(&call->done, true);
    return NULL;
}

remat_status comm_call_within(struct comm_call *call, uint64_t timeout_ns)
{
    assert(call->function);
    struct remat_wait wait = {0};
    pthread_t thread;
    atomic_store(&call->done, false);
    if (pthread_create(&thread, NULL, make_call, call))
        return REMAT_ERROR_MEMORY;
    while (!atomic_load(&call->done) && wait.waited_ns < timeout_ns)
        remat_wait_pause(&wait);
    if (!atomic_load(&call->done)) {
        pthread_detach(thread);
        return REMAT_ERROR_RANK_LOST;
    }
    pthread_join(thread, NULL);
    return REMAT_OK;
}

void remat_transfer_describe(const remat_transfer *t, uint32_t count, char *out, size_t bytes)
{
    assert(count > 0);
    char numbers[64];
    snprintf(numbers, sizeof numbers, "at transfer %" PRIu64, t->sequence);
    if (count > 1)
        snprintf(numbers, sizeof numbers, "at transfers %" PRIu64 " to %" PRIu64 ", first",
                 t->sequence, t->sequence + count - 1);
    snprintf(out, bytes, "%s \"%.128s\" of %" PRIu64 " bytes %s %.32s (%" PRIu32 " ranks)", numbers,
             t->name, t->whole_bytes, t->axis ? "along" : "among", t->axis ? t->axis : "all",
             t->size);
}
