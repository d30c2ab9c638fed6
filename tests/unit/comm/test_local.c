/* SPDX-License-Identifier: Apache-2.0 */
/* The engine of ranks in one process: what arrives is what the header says, for tensors of every
 * length among 1 to 5 ranks, and in the rows and columns of a mesh; what is late, different or
 * failed ends all of them with one message, which reads nothing of a plan that is gone. */
#include "check.h"

#include <remat/engine.h>

#include <pthread.h>
#include <sys/mman.h>
#include <time.h>

enum { RANKS = 6, LONGEST = 17, GROUP = 3 };

static const char *const axes[] = {"dp", "tp"};

static remat_context *ctx;

struct rank {
    pthread_t thread;
    remat_engine engine;
    uint32_t columns; /* of the mesh; 0: it has one axis */
    uint32_t axis;    /* that the next transfer goes along */
    uint64_t timeout_ns;
    const struct odd *odd; /* what it does otherwise than the rest in a group; NULL: nothing */
    remat_status status;
    char message[REMAT_ENGINE_MESSAGE_BYTES];
};

/* Byte i of what rank r has in a tensor of `length` bytes. */
static unsigned char byte_of(uint32_t r, uint32_t length, uint32_t i)
{
    return (unsigned char)(37 * r + 11 * length + i + 1);
}

/* Along an axis of the mesh, [ranks / columns, columns]. */
static remat_transfer describe(const struct rank *rank, uint32_t length, uint64_t sequence)
{
    uint32_t columns = rank->columns ? rank->columns : 1, rows = rank->engine.ranks / columns;
    uint32_t size = rank->axis ? columns : rows;
    return (remat_transfer){.struct_size = sizeof(remat_transfer),
                            .name = "tensor",
                            .sequence = sequence,
                            .axis = axes[rank->axis],
                            .group = rank->axis,
                            .size = size,
                            .position = rank->axis ? rank->engine.rank % columns
                                                   : rank->engine.rank / columns,
                            .part_bytes = (length + size - 1) / size,
                            .whole_bytes = length,
                            .timeout_ns = rank->timeout_ns,
                            .rank_stride = rank->axis ? 1 : rank->columns};
}

/* The rank of a position in the group, by the definition of the mesh. */
static uint32_t rank_of(const struct rank *rank, uint32_t position)
{
    uint32_t columns = rank->columns ? rank->columns : 1, row = rank->engine.rank / columns;
    return rank->axis ? row * columns + position : position * columns + rank->engine.rank % columns;
}

static uint32_t part_length(const remat_transfer *t, uint32_t q)
{
    uint64_t begin = q * t->part_bytes, end = begin + t->part_bytes;
    end = end < t->whole_bytes ? end : t->whole_bytes;
    return end > begin ? (uint32_t)(end - begin) : 0;
}

/* Bytes after a short part stay as they are. */
static void check_exchange(struct rank *rank, uint32_t length, uint64_t sequence)
{
    unsigned char from[LONGEST], to[RANKS * LONGEST];
    remat_transfer t = describe(rank, length, sequence);
    for (uint32_t i = 0; i < length; i++)
        from[i] = byte_of(rank->engine.rank, length, i);
    memset(to, 0, sizeof to);
    t.from = from;
    t.to = to;
    rank->status = rank->engine.exchange(rank->engine.user, &t, 1, rank->message);
    for (uint32_t q = 0; q < t.size && rank->status == REMAT_OK; q++)
        for (uint32_t i = 0; i < t.part_bytes; i++) {
            uint32_t at = t.position * (uint32_t)t.part_bytes + i;
            unsigned char expected =
                i < part_length(&t, t.position) ? byte_of(rank_of(rank, q), length, at) : 0;
            CHECK(to[q * t.part_bytes + i] == expected, "rank %u, %u bytes: row %u, byte %u",
                  t.position, length, q, i);
        }
    memset(from, 0xff, sizeof from); /* the others have read it */
}

/* The bytes after the first third of each part. */
static void check_piece(struct rank *rank, uint32_t length, uint64_t sequence)
{
    unsigned char from[RANKS * LONGEST], to[RANKS * LONGEST];
    uint32_t begin = length / 3, piece = length - begin;
    remat_transfer t = describe(rank, 0, sequence);
    t.part_bytes = piece;
    t.whole_bytes = t.size * piece;
    for (uint32_t i = 0; i < t.size * length; i++)
        from[i] = byte_of(rank->engine.rank, length, i);
    t.from = from + begin;
    t.to = to;
    t.stride_bytes = length;
    rank->status = rank->engine.exchange(rank->engine.user, &t, 1, rank->message);
    for (uint32_t q = 0; q < t.size && rank->status == REMAT_OK; q++)
        for (uint32_t i = 0; i < piece; i++)
            CHECK(to[q * piece + i] ==
                      byte_of(rank_of(rank, q), length, t.position * length + begin + i),
                  "rank %u, a piece of parts of %u bytes: row %u, byte %u", t.position, length, q,
                  i);
    memset(from, 0xff, sizeof from);
}

static void check_gather(struct rank *rank, uint32_t length, uint64_t sequence)
{
    unsigned char from[LONGEST], to[LONGEST];
    remat_transfer t = describe(rank, length, sequence);
    uint32_t before = t.position * (uint32_t)t.part_bytes;
    for (uint32_t i = 0; i < t.part_bytes; i++)
        from[i] = byte_of(rank_of(rank, 0), length, before + i);
    t.from = from;
    t.to = to;
    rank->status = rank->engine.gather(rank->engine.user, &t, 1, rank->message);
    for (uint32_t i = 0; i < length && rank->status == REMAT_OK; i++)
        CHECK(to[i] == byte_of(rank_of(rank, 0), length, i), "rank %u: byte %u of %u", t.position,
              i, length);
    memset(from, 0xff, sizeof from);
}

struct odd {
    uint32_t count;                       /* of the group, 0: all */
    uint32_t swapped, longer, other_axis; /* one more than the transfer, 0: none */
};

/* Transfers of GROUP lengths at once. */
static void check_group(struct rank *rank, bool exchanges, uint64_t sequence)
{
    static const uint32_t lengths[GROUP] = {3, LONGEST, 8};
    static const struct odd same = {0};
    const struct odd *odd = rank->odd ? rank->odd : &same;
    unsigned char from[GROUP][LONGEST], to[GROUP][RANKS * LONGEST];
    remat_transfer t[GROUP];
    for (uint32_t k = 0; k < GROUP; k++) {
        uint32_t length = lengths[k];
        t[k] = describe(rank, length + (odd->longer == k + 1), sequence + k);
        uint32_t begin = exchanges ? 0 : t[k].position * (uint32_t)t[k].part_bytes;
        for (uint32_t i = 0; i < LONGEST; i++)
            from[k][i] =
                byte_of(exchanges ? rank->engine.rank : rank_of(rank, 0), length, begin + i);
        memset(to[k], 0, sizeof to[k]);
        if (odd->other_axis == k + 1) {
            t[k].group = 1;
            t[k].axis = axes[1];
        }
        t[k].from = from[k];
        t[k].to = to[k];
    }
    if (odd->swapped) {
        remat_transfer first = t[0];
        t[0] = t[odd->swapped - 1];
        t[odd->swapped - 1] = first;
    }
    rank->status = (exchanges ? rank->engine.exchange : rank->engine.gather)(
        rank->engine.user, t, odd->count ? odd->count : GROUP, rank->message);
    for (uint32_t k = 0; k < GROUP && rank->status == REMAT_OK; k++)
        for (uint32_t i = 0; i < (exchanges ? t[k].size * t[k].part_bytes : lengths[k]); i++) {
            uint32_t q = i / (uint32_t)t[k].part_bytes, at = i % (uint32_t)t[k].part_bytes;
            bool stays = exchanges && at >= part_length(&t[k], t[k].position);
            unsigned char expected = stays ? 0
                                     : exchanges
                                         ? byte_of(rank_of(rank, q), lengths[k],
                                                   t[k].position * (uint32_t)t[k].part_bytes + at)
                                         : byte_of(rank_of(rank, 0), lengths[k], i);
            CHECK(to[k][i] == expected, "rank %u, %u of a group: byte %u", t[k].position, k, i);
        }
    memset(from, 0xff, sizeof from);
}

static void *transfer_all(void *user)
{
    struct rank *rank = user;
    uint64_t sequence = 0;
    for (uint32_t round = 0; round < 20; round++)
        for (uint32_t length = 1; length <= LONGEST && rank->status == REMAT_OK; length++) {
            check_exchange(rank, length, sequence++);
            check_piece(rank, length, sequence++);
            check_gather(rank, length, sequence++);
            check_group(rank, length % 2, sequence);
            sequence += GROUP;
            rank->axis = rank->columns ? length % 2 : 0;
        }
    return NULL;
}

static void open_ranks(uint32_t count, uint32_t columns, uint64_t timeout_ns,
                       remat_local_ranks **local, struct rank *ranks)
{
    MUST_OK(ctx, remat_local_create(ctx, count, local));
    for (uint32_t r = 0; r < count; r++) {
        ranks[r] = (struct rank){.timeout_ns = timeout_ns, .columns = columns};
        remat_local_engine(*local, r, &ranks[r].engine);
        CHECK(ranks[r].engine.rank == r && ranks[r].engine.ranks == count, "rank %u", r);
    }
}

static void start(struct rank *rank, void *(*run)(void *))
{
    MUST(pthread_create(&rank->thread, NULL, run, rank) == 0);
}

static void test_transfers(uint32_t count, uint32_t columns)
{
    remat_local_ranks *local;
    struct rank ranks[RANKS];
    open_ranks(count, columns, UINT64_C(60000000000), &local, ranks);
    for (uint32_t r = 0; r < count; r++)
        start(&ranks[r], transfer_all);
    for (uint32_t r = 0; r < count; r++) {
        pthread_join(ranks[r].thread, NULL);
        CHECK(ranks[r].status == REMAT_OK, "rank %u: %s", r, ranks[r].message);
    }
    remat_local_destroy(&local);
}

/* --- failure --- */

static void *exchange_once(void *user)
{
    check_exchange(user, 8, 0);
    return NULL;
}

static void *exchange_other(void *user)
{
    check_exchange(user, 9, 0);
    return NULL;
}

static void *gather_once(void *user)
{
    check_gather(user, 8, 0);
    return NULL;
}

static void *fail_early(void *user)
{
    struct rank *rank = user;
    rank->engine.fail(rank->engine.user, REMAT_ERROR_IO, "no disk");
    rank->status = REMAT_ERROR_IO;
    snprintf(rank->message, sizeof rank->message, "rank 2 failed: no disk");
    return NULL;
}

static void *exchange_group(void *user)
{
    check_group(user, true, 0);
    return NULL;
}

/* Rank 2 of 3 comes with another group, or does not come (NULL). */
static void expect_other_group(const struct odd *odd, const char *message)
{
    remat_local_ranks *local;
    struct rank ranks[RANKS];
    open_ranks(3, 0, UINT64_C(1000000000) * (odd ? 60 : 1), &local, ranks);
    ranks[2].odd = odd;
    for (uint32_t r = 0; r < (odd ? 3u : 2u); r++)
        start(&ranks[r], exchange_group);
    for (uint32_t r = 0; r < (odd ? 3u : 2u); r++) {
        pthread_join(ranks[r].thread, NULL);
        CHECK(ranks[r].status == (odd ? REMAT_ERROR_OTHER : REMAT_ERROR_RANK_LOST) &&
                  strstr(ranks[r].message, message),
              "rank %u: %d %s, expected %s", r, (int)ranks[r].status, ranks[r].message, message);
    }
    remat_local_destroy(&local);
}

static void test_groups(void)
{
    expect_other_group(NULL,
                       " waited 1 s at transfers 0 to 2, first \"tensor\" of 3 bytes along dp "
                       "(3 ranks); missing: rank 2");
    expect_other_group(&(struct odd){.count = 2}, "exchange 2 \"tensor\" of 8 bytes along dp on "
                                                  "rank 0, no more than 2 at once on rank 2");
    expect_other_group(&(struct odd){.swapped = 3},
                       "ranks differ: exchange 0 \"tensor\" of 3 bytes along dp on rank 0, "
                       "exchange 2 \"tensor\" of 8 bytes along dp on rank 2");
    expect_other_group(&(struct odd){.longer = 3},
                       "exchange 2 \"tensor\" of 8 bytes along dp on rank 0, "
                       "exchange 2 \"tensor\" of 9 bytes along dp on rank 2");
    expect_other_group(&(struct odd){.other_axis = 2},
                       "exchange 1 \"tensor\" of 17 bytes along dp on rank 0, "
                       "exchange 1 \"tensor\" of 17 bytes along tp on rank 2");
}

/* Rank 2 of 3 does something else, or never comes (NULL). */
static void expect_failure(void *(*odd)(void *), remat_status status, const char *message)
{
    remat_local_ranks *local;
    struct rank ranks[RANKS];
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    open_ranks(3, 0, UINT64_C(1000000000) * (odd ? 60 : 1), &local, ranks);
    for (uint32_t r = 0; r < 2; r++)
        start(&ranks[r], exchange_once);
    if (odd)
        start(&ranks[2], odd);
    for (uint32_t r = 0; r < (odd ? 3u : 2u); r++) {
        pthread_join(ranks[r].thread, NULL);
        CHECK(ranks[r].status == status && strstr(ranks[r].message, message),
              "rank %u: %d %s, expected %s", r, (int)ranks[r].status, ranks[r].message, message);
        CHECK(strcmp(ranks[r].message, ranks[0].message) == 0, "messages differ");
    }
    check_gather(&ranks[0], 8, 1); /* so does what comes later, at once */
    CHECK(ranks[0].status == status && strstr(ranks[0].message, message), "later: %s",
          ranks[0].message);
    clock_gettime(CLOCK_MONOTONIC, &end);
    CHECK(end.tv_sec - begin.tv_sec < 30, "%s: %d s", message, (int)(end.tv_sec - begin.tv_sec));
    remat_local_destroy(&local);
}

/* --- failure in a mesh --- */

/* Along columns, then along rows, until it fails. */
static void *alternate(void *user)
{
    struct rank *rank = user;
    for (uint64_t sequence = 0; rank->status == REMAT_OK; sequence++) {
        rank->axis = sequence % 2;
        check_exchange(rank, 8, sequence);
    }
    return NULL;
}

/* The other axis. */
static void *confuse(void *user)
{
    struct rank *rank = user;
    for (uint64_t sequence = 0; rank->status == REMAT_OK; sequence++) {
        rank->axis = sequence % 2 != (sequence > 6);
        check_exchange(rank, 8, sequence);
    }
    return NULL;
}

/* Rank 3 of 2 x 2 does something else, or never comes (NULL): ranks that share no group with it
 * end, too. */
static void expect_failure_in_mesh(void *(*odd)(void *), remat_status status, const char *message)
{
    remat_local_ranks *local;
    struct rank ranks[RANKS];
    open_ranks(4, 2, UINT64_C(1000000000) * (odd ? 60 : 1), &local, ranks);
    for (uint32_t r = 0; r < 3; r++)
        start(&ranks[r], alternate);
    if (odd)
        start(&ranks[3], odd);
    for (uint32_t r = 0; r < (odd ? 4u : 3u); r++) {
        pthread_join(ranks[r].thread, NULL);
        CHECK(ranks[r].status == status && strstr(ranks[r].message, message) &&
                  strcmp(ranks[r].message, ranks[0].message) == 0,
              "rank %u: %d %s, expected %s", r, (int)ranks[r].status, ranks[r].message, message);
    }
    remat_local_destroy(&local);
}

/* --- plans of their own --- */

struct plan_of_rank {
    char name[32], axis[32];
};

/* The names of its transfer lie in a plan, which is gone when the rank has left. */
static void exchange_with_plan(struct rank *rank, const char *name)
{
    unsigned char from[LONGEST] = {0}, to[RANKS * LONGEST];
    void *memory = mmap(NULL, sizeof(struct plan_of_rank), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MUST(memory != MAP_FAILED);
    struct plan_of_rank *plan = memory;
    remat_transfer t = describe(rank, 8, 0);
    snprintf(plan->name, sizeof plan->name, "%s", name);
    snprintf(plan->axis, sizeof plan->axis, "%s", t.axis);
    t.name = plan->name;
    t.axis = plan->axis;
    t.from = from;
    t.to = to;
    rank->status = rank->engine.exchange(rank->engine.user, &t, 1, rank->message);
    munmap(memory, sizeof *plan);
}

static void *exchange_own(void *user)
{
    struct rank *rank = user;
    exchange_with_plan(rank, rank->engine.rank == 2 ? "wpe" : "wte");
    return NULL;
}

/* Rank 2 comes with another name. Who finds it first destroys its plan, and the rest are late. */
static void test_plans_of_late_ranks(void)
{
    for (uint32_t round = 0; round < 50; round++) {
        remat_local_ranks *local;
        struct rank ranks[RANKS];
        open_ranks(RANKS, 0, UINT64_C(60000000000), &local, ranks);
        for (uint32_t r = 0; r < RANKS; r++)
            start(&ranks[r], exchange_own);
        for (uint32_t r = 0; r < RANKS; r++) {
            pthread_join(ranks[r].thread, NULL);
            CHECK(ranks[r].status == REMAT_ERROR_OTHER &&
                      strcmp(ranks[r].message,
                             "ranks differ: exchange 0 \"wte\" of 8 bytes along dp on rank 0, "
                             "exchange 0 \"wpe\" of 8 bytes along dp on rank 2") == 0,
                  "rank %u: %d %s", r, (int)ranks[r].status, ranks[r].message);
        }
        remat_local_destroy(&local);
    }
}

int main(void)
{
    remat_local_ranks *local;
    MUST(ctx = remat_context_create(NULL, NULL));
    for (uint32_t count = 1; count < RANKS; count++)
        test_transfers(count, 0);
    test_transfers(4, 2);
    test_transfers(6, 3);
    test_transfers(6, 2);
    test_groups();
    expect_failure(NULL, REMAT_ERROR_RANK_LOST,
                   " waited 1 s at transfer 0 \"tensor\" of 8 bytes along dp (3 ranks); missing: "
                   "rank 2");
    expect_failure(exchange_other, REMAT_ERROR_OTHER,
                   "ranks differ: exchange 0 \"tensor\" of 8 bytes along dp on rank 0, "
                   "exchange 0 \"tensor\" of 9 bytes along dp on rank 2");
    expect_failure(gather_once, REMAT_ERROR_OTHER,
                   "8 bytes along dp on rank 0, gather 0 \"tensor\" of 8 bytes along");
    expect_failure(fail_early, REMAT_ERROR_IO, "rank 2 failed: no disk");
    expect_failure_in_mesh(NULL, REMAT_ERROR_RANK_LOST, "; missing: rank 3");
    expect_failure_in_mesh(confuse, REMAT_ERROR_OTHER, "ranks differ: exchange ");
    test_plans_of_late_ranks();
    CHECK_STATUS(ctx, remat_local_create(ctx, 0, &local), REMAT_ERROR_USAGE, "0 ranks");
    remat_local_destroy(&local);
    remat_context_destroy(&ctx);
    return check_exit();
}
