/* SPDX-License-Identifier: Apache-2.0 */
/* The engine of processes, under mpirun: what arrives is what the header says, for tensors of every
 * length up to beyond the number of ranks, large ones too; what is late fails with a message.
 *
 *     mpirun -n 3 test_mpi [mesh | late | late-group | other-size | failed | alone] */
#include "check.h"

#include <remat/engine.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { FAILED = 3 }; /* as it should: mpirun wants no 0 of who has not finalized */

static remat_engine engine;
static char message[REMAT_ENGINE_MESSAGE_BYTES];
static uint32_t columns = 1,
                axis; /* of the mesh, [ranks / columns, columns]; of the next transfer */

/* Byte i of what rank r has in a tensor of `length` bytes. */
static unsigned char byte_of(uint32_t r, size_t length, size_t i)
{
    return (unsigned char)(37 * r + 11 * length + 13 * (i >> 8) + i + 1);
}

static remat_transfer describe(size_t length, uint64_t sequence)
{
    uint32_t size = axis ? columns : engine.ranks / columns;
    return (remat_transfer){.struct_size = sizeof(remat_transfer),
                            .name = "tensor",
                            .sequence = sequence,
                            .axis = axis ? "tp" : "dp",
                            .group = axis,
                            .size = size,
                            .position = axis ? engine.rank % columns : engine.rank / columns,
                            .part_bytes = (length + size - 1) / size,
                            .whole_bytes = length,
                            .timeout_ns = UINT64_C(20000000000),
                            .rank_stride = axis ? 1 : columns};
}

/* The rank of a position in the group, by the definition of the mesh. */
static uint32_t rank_of(uint32_t position)
{
    return axis ? engine.rank / columns * columns + position
                : position * columns + engine.rank % columns;
}

static size_t part_length(const remat_transfer *t, uint32_t q)
{
    uint64_t begin = q * t->part_bytes, end = begin + t->part_bytes;
    end = end < t->whole_bytes ? end : t->whole_bytes;
    return end > begin ? end - begin : 0;
}

/* Bytes after a short part stay as they are. */
static void check_exchange(size_t length, uint64_t sequence)
{
    remat_transfer t = describe(length, sequence);
    unsigned char *from = malloc(length), *to = calloc(t.size, t.part_bytes);
    MUST(from && to);
    for (size_t i = 0; i < length; i++)
        from[i] = byte_of(engine.rank, length, i);
    t.from = from;
    t.to = to;
    CHECK(engine.exchange(engine.user, &t, 1, message) == REMAT_OK, "%s", message);
    for (uint32_t q = 0; q < t.size; q++)
        for (size_t i = 0; i < t.part_bytes; i++) {
            size_t at = t.position * t.part_bytes + i;
            unsigned char expected = i < part_length(&t, t.position)
                                         ? byte_of(rank_of(q), length, at)
                                         : (unsigned char)0;
            if (to[q * t.part_bytes + i] != expected)
                CHECK(false, "exchange of %zu bytes: byte %zu of row %u", length, i, q);
        }
    free(from);
    free(to);
}

/* The bytes after the first third of each part. */
static void check_piece(size_t length, uint64_t sequence)
{
    size_t begin = length / 3, piece = length - begin;
    remat_transfer t = describe(0, sequence);
    t.part_bytes = piece;
    t.whole_bytes = t.size * piece;
    unsigned char *from = malloc(t.size * length), *to = malloc(t.whole_bytes);
    MUST(from && to);
    for (size_t i = 0; i < t.size * length; i++)
        from[i] = byte_of(engine.rank, length, i);
    t.from = from + begin;
    t.to = to;
    t.stride_bytes = length;
    CHECK(engine.exchange(engine.user, &t, 1, message) == REMAT_OK, "%s", message);
    for (uint32_t q = 0; q < t.size; q++)
        for (size_t i = 0; i < piece; i++)
            if (to[q * piece + i] != byte_of(rank_of(q), length, t.position * length + begin + i))
                CHECK(false, "a piece of parts of %zu bytes: byte %zu of row %u", length, i, q);
    free(from);
    free(to);
}

static void check_gather(size_t length, uint64_t sequence)
{
    remat_transfer t = describe(length, sequence);
    unsigned char *from = malloc(t.part_bytes), *to = calloc(1, length);
    MUST(from && to);
    for (size_t i = 0; i < part_length(&t, t.position); i++)
        from[i] = byte_of(rank_of(0), length, t.position * t.part_bytes + i);
    t.from = from;
    t.to = to;
    CHECK(engine.gather(engine.user, &t, 1, message) == REMAT_OK, "%s", message);
    for (size_t i = 0; i < length; i++)
        if (to[i] != byte_of(rank_of(0), length, i))
            CHECK(false, "gather of %zu bytes: byte %zu", length, i);
    free(from);
    free(to);
}

/* Transfers of three lengths at once, one of them large. */
static void check_group(bool exchanges, uint64_t sequence)
{
    static const size_t lengths[] = {3, 1000003, 17};
    enum { GROUP = sizeof lengths / sizeof *lengths };
    remat_transfer t[GROUP];
    unsigned char *from[GROUP], *to[GROUP];
    for (uint32_t k = 0; k < GROUP; k++) {
        t[k] = describe(lengths[k], sequence + k);
        size_t begin = exchanges ? 0 : t[k].position * t[k].part_bytes;
        t[k].from = from[k] = malloc(lengths[k] + t[k].part_bytes);
        t[k].to = to[k] = calloc(t[k].size, t[k].part_bytes);
        MUST(from[k] && to[k]);
        for (size_t i = 0; i < lengths[k]; i++)
            from[k][i] = byte_of(exchanges ? engine.rank : rank_of(0), lengths[k], begin + i);
    }
    CHECK((exchanges ? engine.exchange : engine.gather)(engine.user, t, GROUP, message) == REMAT_OK,
          "%s", message);
    for (uint32_t k = 0; k < GROUP; k++) {
        for (size_t i = 0; i < (exchanges ? t[k].size * t[k].part_bytes : lengths[k]); i++) {
            uint32_t q = (uint32_t)(i / t[k].part_bytes);
            size_t at = i % t[k].part_bytes, own = t[k].position * t[k].part_bytes + at;
            bool stays = exchanges && at >= part_length(&t[k], t[k].position);
            if (to[k][i] != (stays       ? 0
                             : exchanges ? byte_of(rank_of(q), lengths[k], own)
                                         : byte_of(rank_of(0), lengths[k], i)))
                CHECK(false, "%u of a group: byte %zu", k, i);
        }
        free(from[k]);
        free(to[k]);
    }
}

static void expect(const remat_transfer *t, uint32_t count, remat_status status, const char *first,
                   const char *second)
{
    remat_status st = engine.exchange(engine.user, t, count, message);
    for (int k = 0; k < 2; k++) {
        CHECK(st == status && strstr(message, first) && strstr(message, second),
              "%d %s, expected %s and %s", (int)st, message, first, second);
        st = engine.gather(engine.user, t, 1, message); /* so does what comes later */
    }
}

/* The last of three ranks comes to another group than the rest, whose last transfer has this length
 * and number: the others name it, with its host, and it hears of it, long before its deadline. Of a
 * group of two it knows the first. */
static void expect_other(uint32_t count, size_t length, uint64_t sequence)
{
    char buffer[64] = "", host[64] = "", missing[96];
    bool odd = engine.rank + 1 == engine.ranks;
    remat_transfer t[2] = {describe(8, 3), describe(8, 4)};
    if (odd)
        t[count - 1] = describe(length, sequence);
    for (uint32_t k = 0; k < 2; k++) {
        t[k].from = buffer;
        t[k].to = buffer + 16 + 16 * k;
        t[k].timeout_ns = UINT64_C(1000000) * (odd ? 60000 : 2000);
    }
    gethostname(host, sizeof host - 1);
    snprintf(missing, sizeof missing, "; missing: rank 2 on %s", host);
    expect(t, count, REMAT_ERROR_RANK_LOST,
           count == 1 ? "at transfer 3 \"tensor\" of 8 bytes along dp (3 ranks)"
                      : "at transfers 3 to 4, first \"tensor\" of 8 bytes along dp (3 ranks)",
           missing);
}

static void check_late(void)
{
    expect_other(1, 8, 7);
}

static void check_late_group(void)
{
    expect_other(2, 8, 7);
}

static void check_other_size(void)
{
    expect_other(1, 20, 3);
}

/* The last rank has a failure of its own, after a transfer. The others hear of it while they wait,
 * if not already in that transfer for each other. */
static void check_gone(void)
{
    char buffer[64] = "";
    remat_transfer t = describe(8, 0);
    t.from = buffer;
    t.to = buffer + 16;
    t.timeout_ns = UINT64_C(60000000000);
    bool last = engine.rank + 1 == engine.ranks;
    remat_status st = engine.exchange(engine.user, &t, 1, message);
    CHECK(st == REMAT_OK || (!last && st == REMAT_ERROR_IO), "%s", message);
    t.sequence++;
    if (last)
        engine.fail(engine.user, REMAT_ERROR_IO, "no disk");
    expect(&t, 1, REMAT_ERROR_IO, "rank 2 on ", " failed: no disk");
}

/* The host has initialized MPI for calls of its own thread alone. */
static void check_alone(remat_context *ctx, const remat_mpi_params *params)
{
    int (*initialize)(int *, char ***) = NULL;
    void *library = dlopen("libmpi.so.40", RTLD_NOW | RTLD_GLOBAL), *found;
    remat_mpi *mpi;
    MUST(library && (found = dlsym(library, "MPI_Init")));
    memcpy(&initialize, &found, sizeof found);
    MUST(initialize(NULL, NULL) == 0);
    CHECK_STATUS(ctx, remat_mpi_create(ctx, params, &mpi), REMAT_ERROR_IO,
                 "MPI allows calls of one thread alone (level 0)");
    exit(check_exit() ? EXIT_FAILURE : FAILED);
}

/* In the rows and columns of a mesh, by turns. */
static void check_all(uint64_t sequence)
{
    for (size_t length = 1; length < 18; length++) {
        axis = columns > 1 ? length % 2 : 0;
        check_exchange(length, sequence++);
        check_piece(length, sequence++);
        check_gather(length, sequence++);
        check_group(length % 2, sequence);
        sequence += 3;
    }
    check_exchange(5000001, sequence++);
    check_gather(5000001, sequence++);
}

/* --- along both axes at once --- */

enum { BYTES = 1000, LATE_US = 1000000 };

static char of_columns[BYTES];

/* The first row of ranks waits for the others. */
static void *gather_columns(void *transfer)
{
    const remat_transfer *t = transfer;
    static char why[REMAT_ENGINE_MESSAGE_BYTES];
    if (t->position)
        usleep(LATE_US);
    CHECK(engine.gather(engine.user, t, 1, why) == REMAT_OK, "%s", why);
    return NULL;
}

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Transfers along rows do not wait for one along columns, which is under way for a second, whatever
 * began first. */
static void check_beside(uint64_t sequence)
{
    pthread_t thread;
    axis = 0;
    remat_transfer columnwise = describe(BYTES, sequence++);
    char mine[BYTES];
    memset(mine, (int)engine.rank + 1, sizeof mine);
    columnwise.from = mine;
    columnwise.to = of_columns;
    check_gather(3, sequence++); /* all ranks are here */
    MUST(pthread_create(&thread, NULL, gather_columns, &columnwise) == 0);
    usleep(LATE_US / 10);
    double begin_s = now_s();
    for (axis = 1; sequence % 50; sequence++)
        check_gather(BYTES, sequence);
    CHECK(now_s() - begin_s < 0.8 * LATE_US / 1e6, "along rows it took %.2f s", now_s() - begin_s);
    pthread_join(thread, NULL);
    axis = 0;
    for (uint32_t q = 0; q < columnwise.size; q++)
        for (size_t i = 0; i < part_length(&columnwise, q); i++)
            CHECK(of_columns[q * columnwise.part_bytes + i] == (char)(rank_of(q) + 1),
                  "byte %zu of %u", i, q);
}

int main(int argc, char **argv)
{
    remat_mpi *mpi;
    remat_context *ctx = remat_context_create(NULL, NULL);
    MUST(ctx);
    const remat_mpi_params params = {.struct_size = sizeof params};
    if (argc > 1 && strcmp(argv[1], "alone") == 0)
        check_alone(ctx, &params);
    CHECK_OK(ctx, remat_mpi_create(ctx, &params, &mpi), "mpi");
    remat_mpi_engine(mpi, &engine);
    CHECK(engine.ranks == (uint32_t)atoi(getenv("OMPI_COMM_WORLD_SIZE")), "%u ranks", engine.ranks);
    bool in_mesh = argc > 1 && strcmp(argv[1], "mesh") == 0, fails = argc > 1 && !in_mesh;
    columns = in_mesh ? 2 : 1;
    if (fails) {
        (strcmp(argv[1], "late") == 0         ? check_late
         : strcmp(argv[1], "late-group") == 0 ? check_late_group
         : strcmp(argv[1], "other-size") == 0 ? check_other_size
                                              : check_gone)();
    } else {
        check_all(0);
        if (in_mesh)
            check_beside(1000000);
        CHECK_OK(ctx, remat_mpi_finish(mpi), "finish");
    }
    remat_mpi_destroy(&mpi);
    remat_context_destroy(&ctx);
    return check_exit() ? EXIT_FAILURE : fails ? FAILED : EXIT_SUCCESS;
}
