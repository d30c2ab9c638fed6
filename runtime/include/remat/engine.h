/* SPDX-License-Identifier: Apache-2.0 */
/* Engines, which move bytes between the ranks that run one plan together (docs/ranks.md).
 *
 * An engine copies and computes nothing; sums over ranks are kernels of the plan. It is a table of
 * functions, one table for each rank: one of those below, for threads of a process and for
 * processes, or the host's. A session is given its rank's at creation. */
#ifndef REMAT_ENGINE_H
#define REMAT_ENGINE_H

#include <remat/status.h>

#ifdef __cplusplus
extern "C" {
#endif

#define REMAT_ENGINE_MESSAGE_BYTES 512

/* A transfer among the ranks of a group, in which a tensor of `whole_bytes` is divided into parts:
 * that of position q is the bytes [q * part_bytes, (q + 1) * part_bytes) as far as they are below
 * whole_bytes. What an exchange sends may be a piece of each part of a larger tensor: then parts
 * lie stride_bytes apart in `from`, and all have part_bytes.
 *
 * A group lies along an axis of the mesh: its ranks are apart by the axis's stride. All
 * ranks make the same transfers in the same order, each of them in the group of the rank. */
typedef struct remat_transfer {
    size_t struct_size;
    const char *name;  /* of the command in the plan, for messages */
    uint64_t sequence; /* how many transfers this session began before */
    const char *axis;  /* of the plan's mesh, for messages; NULL: the group is all ranks */
    uint32_t group;    /* number of that axis, along which the group lies */
    uint32_t size;     /* ranks of the group */
    uint32_t position; /* of this rank among them, in the order of their numbers */
    uint64_t part_bytes, whole_bytes;
    uint64_t stride_bytes; /* of an exchange, at least part_bytes; 0: that */
    const void *from;
    void *to;
    uint64_t timeout_ns; /* the engine gives up when it has waited for so long */
    /* 1: `from` and `to` lie on a GPU whose context is current, and the transfer goes on this
     * CUstream: it is enqueued and not waited for. 0: they are the host's. */
    int on_device;
    void *stream;
    uint32_t rank_stride; /* from the rank of a position to that of the next; 0: 1 */
} remat_transfer;

/* The bytes of a position's part: part_bytes, less or none at the end. */
static inline uint64_t remat_transfer_bytes(const remat_transfer *transfer, uint32_t position)
{
    uint64_t begin = position * transfer->part_bytes;
    uint64_t rest = transfer->whole_bytes > begin ? transfer->whole_bytes - begin : 0;
    return rest < transfer->part_bytes ? rest : transfer->part_bytes;
}

/* The rank of a position, where `rank` is that of the transfer's own. */
static inline uint32_t remat_transfer_rank(const remat_transfer *transfer, uint32_t rank,
                                           uint32_t position)
{
    uint32_t stride = transfer->rank_stride ? transfer->rank_stride : 1;
    return rank - transfer->position * stride + position * stride;
}

/* The part of an exchange for a position. */
static inline const void *remat_transfer_part_for(const remat_transfer *transfer, uint32_t position)
{
    uint64_t stride = transfer->stride_bytes ? transfer->stride_bytes : transfer->part_bytes;
    return (const char *)transfer->from + position * stride;
}

/* For messages, of transfers that are made at once: `at transfer 17 "wte.weight.grad.exchange" of
 * 65536 bytes along dp (4 ranks)`, or `at transfers 17 to 20, first "wte.weight.grad.exchange" of
 * ...`. What does not fit `bytes` is cut off. */
REMAT_API void remat_transfer_describe(const remat_transfer *first, uint32_t count, char *out,
                                       size_t bytes);

/* One call at a time, or if it is `concurrent` one along each axis. On a CPU a session makes
 * transfers that go on beside computation in a thread of its own, or in one for each axis, and
 * calls `fail` when none is under way; between runs no function is called.
 *
 * A call is given `count` transfers, at least 1, of one kind among the same ranks, with sequence
 * numbers in a row. An engine starts all of them before it waits for one, so that latency is paid
 * once; no memory is in two of them, unless both read it. On all ranks the same go together. */
typedef struct remat_engine {
    size_t struct_size;
    const char *name;     /* "local" */
    void *user;           /* first argument of the functions */
    uint32_t rank, ranks; /* this rank, and how many there are in all */
    /* 1: it moves memory of a GPU. 0: it moves the host's, and a session on a GPU copies there and
     * back what it transfers. */
    int on_device;
    /* `from`: a part for each position. `to`: `size` rows of part_bytes; row q receives this
     * position's part of the tensor of position q; what is left of the row stays as it is. */
    remat_status (*exchange)(void *user, const remat_transfer *transfers, uint32_t count,
                             char message[REMAT_ENGINE_MESSAGE_BYTES]);
    /* `from`: this position's part. `to`: whole_bytes, of which part q becomes what position q has.
     */
    remat_status (*gather)(void *user, const remat_transfer *transfers, uint32_t count,
                           char message[REMAT_ENGINE_MESSAGE_BYTES]);
    /* This rank takes part in nothing any more, because of `message`. Other ranks that learn of it
     * end with the same status and a message that names the rank and says why; the rest wait until
     * their deadlines. NULL: all wait. */
    void (*fail)(void *user, remat_status status, const char *message);
    /* Asked while the session waits for its GPU: a failure of this or another rank ends that. NULL:
     * it hears of none. */
    remat_status (*check)(void *user, char message[REMAT_ENGINE_MESSAGE_BYTES]);
    /* 1: transfers along different axes may be under way at once, each in a thread of its own. */
    int concurrent;
} remat_engine;

/* Ranks that are threads of this process. Thread-safe, and outlives their sessions. */
typedef struct remat_local_ranks remat_local_ranks;

/* At least 1 rank. `ctx` is used here and by destroy only. */
REMAT_API remat_status remat_local_create(remat_context *ctx, uint32_t ranks,
                                          remat_local_ranks **out);
REMAT_API void remat_local_destroy(remat_local_ranks **local);
/* The engine of a rank, which is below the number of ranks. A transfer returns when all ranks of
 * its group have what they are to get. With one message for all ranks: REMAT_ERROR_RANK_LOST, some
 * did not come in time; REMAT_ERROR_OTHER, they came with another transfer; the status of a rank
 * that has failed. All later transfers then fail too. */
REMAT_API void remat_local_engine(remat_local_ranks *local, uint32_t rank, remat_engine *out);

/* Ranks that are processes, which Open MPI's mpirun has started. Its library, libmpi.so.40, is
 * opened at run time. Thread-compatible, one in a process, and outlives its sessions. */
typedef struct remat_mpi remat_mpi;

typedef struct remat_mpi_params {
    size_t struct_size;
    uint64_t timeout_ns; /* of create and finish, for the others; 0: 10 minutes */
    /* Asked while a transfer waits, with how long it has: 0 ends it, as its deadline does. NULL:
     * nothing but that does. */
    int (*go_on)(void *user, uint64_t waited_ns);
    void *user;
} remat_mpi_params;

/* All ranks call it. Initializes MPI unless the host has, which asks for MPI_THREAD_SERIALIZED or
 * more: a session's transfers may have threads of their own, of which one at a time calls MPI.
 * REMAT_ERROR_IO: there is no Open MPI, it refused, or it allows calls of one thread alone.
 * REMAT_ERROR_RANK_LOST: some rank did not come in time. */
REMAT_API remat_status remat_mpi_create(remat_context *ctx, const remat_mpi_params *params,
                                        remat_mpi **out);
/* All ranks call it, after their last transfer: MPI is finalized if remat_mpi_create initialized
 * it. REMAT_ERROR_RANK_LOST: some rank did not come in time. Without it, as after a failure, the
 * process should end with a status other than 0, and mpirun then ends the others. */
REMAT_API remat_status remat_mpi_finish(remat_mpi *mpi);
REMAT_API void remat_mpi_destroy(remat_mpi **mpi);
/* The engine of this process. A transfer returns when this rank has what it is to get and its
 * memory may change. REMAT_ERROR_RANK_LOST: some rank did not come in time, or came with another
 * transfer. The first rank that is kept waiting, and one that fails, tell all others, whose
 * transfers end with the same status and message. All later transfers then fail too. */
REMAT_API void remat_mpi_engine(remat_mpi *mpi, remat_engine *out);

/* Ranks that have a GPU each, in one process, in one process each or both, by NVIDIA's NCCL. Its
 * library, libnccl.so.2 of 2.14 or later, is opened at run time. Engines are thread-compatible, one
 * for each session's thread, and outlive their sessions. */
typedef struct remat_nccl remat_nccl;

typedef struct remat_nccl_params {
    size_t struct_size;
    uint32_t ranks;       /* in all */
    uint32_t first, here; /* those of this process: [first, first + here) */
    uint32_t ordinal; /* the GPU of `first`, as the driver counts them; the next have the next */
    const char
        *libraries; /* where libnccl lies, libcuda if it is there; NULL: see cuda_libraries */
    /* Brings NCCL's id from the first process to all: an engine of the host's memory, of which each
     * process is a rank. NULL: all ranks are here, or NCCL's environment says where processes meet
     * (NCCL_COMM_ID is HOST:PORT of rank 0's machine in all of them). Used by create only. */
    const remat_engine *meet;
    uint64_t timeout_ns; /* of create and destroy, for the others; 0: 10 minutes */
} remat_nccl_params;

/* All processes call it, before they make sessions: what NCCL then takes on the GPUs counts in the
 * sessions' checks of reserve and budget. REMAT_ERROR_IO: NCCL or a driver is missing.
 * REMAT_ERROR_OTHER: NCCL failed. REMAT_ERROR_RANK_LOST: some rank did not come in time. */
REMAT_API remat_status remat_nccl_create(remat_context *ctx, const remat_nccl_params *params,
                                         remat_nccl **out);
/* All processes call it, after their last transfer and, with cuda_graph_ranks, after the sessions,
 * as NCCL waits for graphs that have its transfers. After a failure nothing waits for others, and
 * what NCCL and the sessions have on the GPUs stays there until the process ends. */
REMAT_API void remat_nccl_destroy(remat_nccl **nccl);
/* Bytes that NCCL took of the GPU of a rank of this process, counted from its first. */
REMAT_API uint64_t remat_nccl_device_bytes(const remat_nccl *nccl, uint32_t rank);
/* The engine of a rank of this process, counted from its first; its transfers are enqueued on a
 * stream of the session. `gather` takes memory of the host as well, and then waits. NCCL does not
 * notice when ranks come with different transfers. A failure ends the transfers of all ranks of the
 * process at once, with its status; those of others wait until their deadlines, or until NCCL
 * notices: REMAT_ERROR_RANK_LOST. */
REMAT_API void remat_nccl_engine(remat_nccl *nccl, uint32_t rank, remat_engine *out);

/* Any of the above by its name, for hosts whose users choose. */
typedef struct remat_engine_kind {
    size_t struct_size;
    const char *name;    /* "local" */
    int on_device;       /* 1: it moves memory of GPUs, of which each rank has one; 0: the host's */
    int between_threads; /* 1: it may connect the ranks of one process */
    const char *between_processes; /* it may connect those that this launcher has started, as
                                      "mpirun"; "": any; NULL: none */
} remat_engine_kind;

/* Kind `index`, counted from 0, those to be preferred first. 0: there are no more. Set struct_size.
 * Thread-safe. */
REMAT_API int remat_engine_kind_at(uint32_t index, remat_engine_kind *out);

/* Engines of one kind for the ranks of this process. Thread-safe or -compatible as the kind is, and
 * outlives its sessions. */
typedef struct remat_engines remat_engines;

typedef struct remat_engines_params {
    size_t struct_size;
    const char *kind;
    uint32_t ranks;       /* in all */
    uint32_t first, here; /* those of this process: [first, first + here) */
    uint64_t timeout_ns;  /* of open, finish and close, for the others; 0: 10 minutes */
    /* As in remat_mpi_params. */
    int (*go_on)(void *user, uint64_t waited_ns);
    void *user;
    /* As in remat_nccl_params. */
    uint32_t ordinal;
    const char *libraries;
    const remat_engine *meet;
} remat_engines_params;

/* All processes call it. REMAT_ERROR_USAGE: there is no such kind; else as the kind's create. */
REMAT_API remat_status remat_engines_open(remat_context *ctx, const remat_engines_params *params,
                                          remat_engines **out);
/* The engine of a rank of this process, counted from its first. */
REMAT_API void remat_engines_get(remat_engines *engines, uint32_t rank, remat_engine *out);
/* Bytes that they took of the GPU of that rank. */
REMAT_API uint64_t remat_engines_device_bytes(const remat_engines *engines, uint32_t rank);
/* All processes call it, after their last transfer, but not after a failure (remat_mpi_finish). */
REMAT_API remat_status remat_engines_finish(remat_engines *engines);
REMAT_API void remat_engines_close(remat_engines **engines);

#ifdef __cplusplus
}
#endif
#endif
