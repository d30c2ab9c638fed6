/* SPDX-License-Identifier: Apache-2.0 */
/* A sum over ranks as plans make it (exchange, add the rows in rank order, gather) against Open
 * MPI's own MPI_Allreduce, of 4 MiB of f32; in turns, so that noise meets both.
 *
 *     mpirun -n 4 bench_exchange [REPETITIONS] */
#include "check.h"

#include <dlfcn.h>
#include <remat/engine.h>
#include <stdlib.h>
#include <time.h>

enum { ELEMENTS = 1 << 20, REPETITIONS = 200 };

struct bench {
    remat_engine engine;
    uint64_t sequence;
    float *own, *rows, *part, *sum, *reference;
    int (*allreduce)(const void *from, void *to, int count, void *type, void *op, void *comm);
    void *type, *op, *world;
};

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

static remat_transfer transfer(struct bench *b, const void *from, void *to)
{
    uint32_t ranks = b->engine.ranks;
    return (remat_transfer){.struct_size = sizeof(remat_transfer),
                            .name = "sum",
                            .sequence = b->sequence++,
                            .size = ranks,
                            .position = b->engine.rank,
                            .part_bytes = ELEMENTS / ranks * sizeof(float),
                            .whole_bytes = ELEMENTS * sizeof(float),
                            .from = from,
                            .to = to,
                            .timeout_ns = UINT64_C(60000000000)};
}

static uint64_t time_ours(struct bench *b)
{
    char message[REMAT_ENGINE_MESSAGE_BYTES];
    size_t part = ELEMENTS / b->engine.ranks;
    uint64_t begin_ns = now_ns();
    remat_transfer exchange = transfer(b, b->own, b->rows);
    MUST(b->engine.exchange(b->engine.user, &exchange, 1, message) == REMAT_OK);
    memcpy(b->part, b->rows, part * sizeof(float));
    for (uint32_t q = 1; q < b->engine.ranks; q++)
        for (size_t i = 0; i < part; i++)
            b->part[i] += b->rows[q * part + i];
    remat_transfer gather = transfer(b, b->part, b->sum);
    MUST(b->engine.gather(b->engine.user, &gather, 1, message) == REMAT_OK);
    return now_ns() - begin_ns;
}

static uint64_t time_theirs(struct bench *b)
{
    uint64_t begin_ns = now_ns();
    MUST(b->allreduce(b->own, b->reference, ELEMENTS, b->type, b->op, b->world) == 0);
    return now_ns() - begin_ns;
}

static void open_library(struct bench *b)
{
    void *library = dlopen("libmpi.so.40", RTLD_NOW | RTLD_GLOBAL);
    MUST(library);
    *(void **)&b->allreduce = dlsym(library, "MPI_Allreduce");
    b->type = dlsym(library, "ompi_mpi_float");
    b->op = dlsym(library, "ompi_mpi_op_sum");
    b->world = dlsym(library, "ompi_mpi_comm_world");
    MUST(b->allreduce && b->type && b->op && b->world);
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

int main(int argc, char **argv)
{
    uint32_t repetitions = argc > 1 ? (uint32_t)atoi(argv[1]) : REPETITIONS;
    remat_context *ctx = remat_context_create(NULL, NULL);
    remat_mpi_params params = {.struct_size = sizeof params};
    remat_mpi *mpi;
    struct bench b = {0};
    MUST_OK(ctx, remat_mpi_create(ctx, &params, &mpi));
    remat_mpi_engine(mpi, &b.engine);
    MUST(ELEMENTS % b.engine.ranks == 0 && repetitions > 0);
    open_library(&b);
    float **buffers[] = {&b.own, &b.rows, &b.part, &b.sum, &b.reference};
    for (size_t k = 0; k < sizeof buffers / sizeof *buffers; k++)
        MUST(*buffers[k] = calloc(ELEMENTS, sizeof(float)));
    for (size_t i = 0; i < ELEMENTS; i++)
        b.own[i] = (float)((i * 7 + b.engine.rank * 13) % 101);
    uint64_t *ours = calloc(repetitions, sizeof *ours), *theirs = calloc(repetitions, sizeof *ours);
    MUST(ours && theirs);
    for (uint32_t r = 0; r < repetitions; r++) {
        ours[r] = time_ours(&b);
        theirs[r] = time_theirs(&b);
    }
    CHECK(memcmp(b.sum, b.reference, ELEMENTS * sizeof(float)) == 0, "sums of integers differ");
    qsort(ours, repetitions, sizeof *ours, compare);
    qsort(theirs, repetitions, sizeof *theirs, compare);
    double our_ms = (double)ours[repetitions / 2] / 1e6;
    double their_ms = (double)theirs[repetitions / 2] / 1e6;
    if (b.engine.rank == 0)
        printf("| %u | %.2f ms | %.2f ms | %.2f |\n", b.engine.ranks, our_ms, their_ms,
               our_ms / their_ms);
    for (size_t k = 0; k < sizeof buffers / sizeof *buffers; k++)
        free(*buffers[k]);
    free(ours);
    free(theirs);
    MUST_OK(ctx, remat_mpi_finish(mpi));
    remat_mpi_destroy(&mpi);
    remat_context_destroy(&ctx);
    return check_exit();
}
