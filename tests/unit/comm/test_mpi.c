/* SPDX-License-Identifier: Apache-2.0 */
/* The engine of processes, under mpirun: what arrives is what the header says, for tensors of every
 * length up to beyond the number of ranks, large ones too; what is late fails with a message.
 *
 *     mpirun -n 3 test_mpi [late] */
#include "check.h"

#include <remat/engine.h>

#include <stdlib.h>

enum { LATE = 3 }; /* all was as it should: mpirun wants no 0 of who has not finalized */

static remat_engine engine;
static char message[REMAT_ENGINE_MESSAGE_BYTES];

/* Byte i of what rank r has in a tensor of `length` bytes. */
static unsigned char byte_of(uint32_t r, size_t length, size_t i)
{
    return (unsigned char)(37 * r + 11 * length + 13 * (i >> 8) + i + 1);
}

static remat_transfer describe(size_t length, uint64_t sequence)
{
    return (remat_transfer){.struct_size = sizeof(remat_transfer),
                            .name = "tensor",
                            .sequence = sequence,
                            .size = engine.ranks,
                            .position = engine.rank,
                            .part_bytes = (length + engine.ranks - 1) / engine.ranks,
                            .whole_bytes = length,
                            .timeout_ns = UINT64_C(20000000000)};
}

static size_t part_length(const remat_transfer *t, uint32_t q)
{
    uint64_t begin = q * t->part_bytes, end = begin + t->part_bytes;
    end = end < t->whole_bytes ? end : t->whole_bytes;
    return end > begin ? end - begin : 0;
}

/* Bytes behind a short part stay as they are. */
static void check_exchange(size_t length, uint64_t sequence)
{
    remat_transfer t = describe(length, sequence);
    unsigned char *from = malloc(length), *to = calloc(t.size, t.part_bytes);
    MUST(from && to);
    for (size_t i = 0; i < length; i++)
        from[i] = byte_of(t.position, length, i);
    t.from = from;
    t.to = to;
    CHECK(engine.exchange(engine.user, &t, message) == REMAT_OK, "%s", message);
    for (uint32_t q = 0; q < t.size; q++)
        for (size_t i = 0; i < t.part_bytes; i++) {
            size_t at = t.position * t.part_bytes + i;
            unsigned char expected =
                i < part_length(&t, t.position) ? byte_of(q, length, at) : (unsigned char)0;
            if (to[q * t.part_bytes + i] != expected)
                CHECK(false, "exchange of %zu bytes: byte %zu of row %u", length, i, q);
        }
    free(from);
    free(to);
}

static void check_gather(size_t length, uint64_t sequence)
{
    remat_transfer t = describe(length, sequence);
    unsigned char *from = malloc(t.part_bytes), *to = calloc(1, length);
    MUST(from && to);
    for (size_t i = 0; i < part_length(&t, t.position); i++)
        from[i] = byte_of(0, length, t.position * t.part_bytes + i);
    t.from = from;
    t.to = to;
    CHECK(engine.gather(engine.user, &t, message) == REMAT_OK, "%s", message);
    for (size_t i = 0; i < length; i++)
        if (to[i] != byte_of(0, length, i))
            CHECK(false, "gather of %zu bytes: byte %zu", length, i);
    free(from);
    free(to);
}

/* The last rank comes to another transfer than the rest. */
static void check_late(void)
{
    char buffer[64] = "";
    bool odd = engine.rank + 1 == engine.ranks;
    remat_transfer t = describe(8, odd ? 7 : 3);
    t.from = buffer;
    t.to = buffer + 16;
    t.timeout_ns = 300000000;
    char expected[64], other[8];
    snprintf(other, sizeof other, "%u", engine.ranks - 1);
    snprintf(expected, sizeof expected, "transfer %d \"tensor\" of 8 bytes; missing: rank %s",
             odd ? 7 : 3, odd ? "0" : other);
    remat_status st = engine.exchange(engine.user, &t, message);
    CHECK(st == REMAT_ERROR_OTHER && strstr(message, expected), "%d %s, expected %s", (int)st,
          message, expected);
    st = engine.gather(engine.user, &t, message);
    CHECK(st == REMAT_ERROR_OTHER && strstr(message, expected), "later: %d %s", (int)st, message);
}

int main(int argc, char **argv)
{
    remat_mpi *mpi;
    uint64_t sequence = 0;
    remat_context *ctx = remat_context_create(NULL, NULL);
    MUST(ctx);
    CHECK_OK(ctx, remat_mpi_create(ctx, &mpi), "mpi");
    remat_mpi_engine(mpi, &engine);
    CHECK(engine.ranks == (uint32_t)atoi(getenv("OMPI_COMM_WORLD_SIZE")), "%u ranks", engine.ranks);
    bool late = argc > 1 && strcmp(argv[1], "late") == 0;
    if (late) {
        check_late();
    } else {
        for (size_t length = 1; length < 18; length++) {
            check_exchange(length, sequence++);
            check_gather(length, sequence++);
        }
        check_exchange(5000001, sequence++);
        check_gather(5000001, sequence++);
    }
    remat_mpi_destroy(&mpi);
    remat_context_destroy(&ctx);
    return check_exit() ? EXIT_FAILURE : late ? LATE : EXIT_SUCCESS;
}
