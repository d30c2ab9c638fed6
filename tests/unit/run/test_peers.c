/* SPDX-License-Identifier: Apache-2.0 */
/* What ranks gather has each one's bytes in order; one that does not come ends the wait at the
 * peers' deadline, which is far below the default. */
#include "check.h"
#include "peers.h"

#include <pthread.h>
#include <time.h>

struct rank {
    struct peers peers;
    remat_engine engine;
    uint16_t own, all[3];
    remat_status status;
};

static void *gather(void *user)
{
    struct rank *rank = user;
    remat_context *ctx = remat_context_create(NULL, NULL);
    rank->status = peers_gather(ctx, &rank->peers, "x", 7, sizeof rank->own, &rank->own, rank->all);
    if (rank->status)
        CHECK(strstr(remat_context_message(ctx),
                     "at transfer 7 \"x\" of 6 bytes among all (3 ranks); missing: rank 2"),
              "%s", remat_context_message(ctx));
    remat_context_destroy(&ctx);
    return NULL;
}

static void gather_among(uint32_t present, uint64_t timeout_ns, struct rank *ranks)
{
    remat_context *ctx = remat_context_create(NULL, NULL);
    remat_local_ranks *local;
    pthread_t threads[3];
    CHECK_OK(ctx, remat_local_create(ctx, 3, &local));
    for (uint32_t r = 0; r < present; r++) {
        remat_local_engine(local, r, &ranks[r].engine);
        ranks[r].peers = (struct peers){&ranks[r].engine, timeout_ns};
        ranks[r].own = (uint16_t)(100 + r);
        CHECK(pthread_create(&threads[r], NULL, gather, &ranks[r]) == 0, "thread %u", r);
    }
    for (uint32_t r = 0; r < present; r++)
        pthread_join(threads[r], NULL);
    remat_local_destroy(&local);
    remat_context_destroy(&ctx);
}

int main(void)
{
    struct rank ranks[3] = {0};
    struct timespec begin, end;
    gather_among(3, UINT64_C(60000000000), ranks);
    for (uint32_t r = 0; r < 3; r++)
        CHECK(!ranks[r].status && ranks[r].all[0] == 100 && ranks[r].all[1] == 101 &&
                  ranks[r].all[2] == 102,
              "rank %u: %u %u %u", r, ranks[r].all[0], ranks[r].all[1], ranks[r].all[2]);
    clock_gettime(CLOCK_MONOTONIC, &begin);
    gather_among(2, UINT64_C(2000000000), ranks);
    clock_gettime(CLOCK_MONOTONIC, &end);
    CHECK(ranks[0].status && ranks[1].status && end.tv_sec - begin.tv_sec < 50, "no deadline");
    return check_exit();
}
