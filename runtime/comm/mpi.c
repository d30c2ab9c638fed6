/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that are processes, by Open MPI, which is opened when it is needed: nothing here needs its
 * headers, whose types are pointers (tests/unit/comm/mpi_types.c holds them against mpi.h). Every
 * rank sends each other one its part and receives theirs, in pieces that an int can count. Nothing
 * waits in MPI: what is on its way is asked for until it is there or the deadline is over. */
#include "base.h"

#include <remat/engine.h>

#include <dlfcn.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>

#define LIBRARY     "libmpi.so.40" /* Open MPI 4 and 5 */
#define PIECE_BYTES (UINT64_C(1) << 30)
#define TAGS        32768 /* that there are at least */

enum { SERIALIZED = 2 }; /* MPI_THREAD_SERIALIZED: sessions belong to one thread each */

typedef void *MPI_Comm, *MPI_Datatype, *MPI_Errhandler, *MPI_Request, MPI_Status;

struct remat_mpi {
    remat_context *ctx;
    void *library;
#define MPI_FUNCTION(name, ...) int (*name)(__VA_ARGS__);
#include "mpi.def"
#undef MPI_FUNCTION
    MPI_Comm world;
    MPI_Datatype byte;
    MPI_Request done; /* MPI_REQUEST_NULL */
    bool initialized; /* by us, so that we finalize */
    int rank, ranks;
    struct REMAT_LIST(MPI_Request) requests; /* of one transfer: what it receives, then sends */
    bool failed;
    char message[REMAT_ENGINE_MESSAGE_BYTES]; /* why */
};

/* --- a transfer --- */

static bool reserve(remat_mpi *m, const remat_transfer *t)
{
    size_t count = 2 * (size_t)t->size * (size_t)(t->part_bytes / PIECE_BYTES + 1);
    if (count <= m->requests.capacity)
        return count <= INT_MAX;
    void *items = remat_reallocate(m->ctx, m->requests.items, count * sizeof *m->requests.items);
    if (!items)
        return false;
    m->requests.items = items;
    m->requests.capacity = count;
    return count <= INT_MAX;
}

static int receive(remat_mpi *m, char *to, uint64_t bytes, int from, int tag)
{
    int error = 0;
    for (uint64_t at = 0; at < bytes && !error; at += PIECE_BYTES) {
        int piece = (int)(bytes - at < PIECE_BYTES ? bytes - at : PIECE_BYTES);
        error = m->Irecv(to + at, piece, m->byte, from, tag, m->world,
                         &m->requests.items[m->requests.count++]);
    }
    return error;
}

static int send(remat_mpi *m, const char *from, uint64_t bytes, int to, int tag)
{
    int error = 0;
    for (uint64_t at = 0; at < bytes && !error; at += PIECE_BYTES) {
        int piece = (int)(bytes - at < PIECE_BYTES ? bytes - at : PIECE_BYTES);
        error = m->Isend(from + at, piece, m->byte, to, tag, m->world,
                         &m->requests.items[m->requests.count++]);
    }
    return error;
}

/* Ranks are positions: the mesh has one axis. Tags tell transfers and their kinds apart, so that
 * ranks which differ wait. */
static int begin(remat_mpi *m, const remat_transfer *t, bool exchanges)
{
    int tag = (int)((2 * t->sequence + exchanges) % TAGS), error = 0;
    uint64_t mine = remat_transfer_bytes(t, t->position);
    const char *from = t->from;
    char *to = t->to;
    m->requests.count = 0;
    for (uint32_t q = 0; q < t->size && !error; q++)
        if (q != t->position)
            error = receive(m, to + q * t->part_bytes,
                            exchanges ? mine : remat_transfer_bytes(t, q), (int)q, tag);
    for (uint32_t q = 0; q < t->size && !error; q++)
        if (q != t->position)
            error = exchanges
                        ? send(m, from + q * t->part_bytes, remat_transfer_bytes(t, q), (int)q, tag)
                        : send(m, from, mine, (int)q, tag);
    if (mine)
        memcpy(to + t->position * t->part_bytes,
               exchanges ? from + t->position * t->part_bytes : from, mine);
    return error;
}

/* --- waiting --- */

/* *arrived: all did before the deadline. */
static int wait_for_all(remat_mpi *m, uint64_t timeout_ns, bool *arrived)
{
    struct remat_wait wait = {0};
    int all = 0, error = 0;
    while (!all && !error && wait.waited_ns < timeout_ns) {
        error = m->Testall((int)m->requests.count, m->requests.items, &all, NULL);
        if (!all)
            remat_wait_pause(&wait);
    }
    *arrived = all;
    return error;
}

/* "1, 2, 5": the others of which something is missing. */
static void list_missing(remat_mpi *m, const remat_transfer *t, bool exchanges, char *out,
                         size_t bytes)
{
    size_t length = 0;
    MPI_Request *request = m->requests.items;
    *out = 0;
    for (uint32_t q = 0; q < t->size && length + 16 < bytes; q++) {
        uint64_t part = q == t->position ? 0 : remat_transfer_bytes(t, exchanges ? t->position : q);
        bool missing = false;
        for (uint64_t at = 0; at < part; at += PIECE_BYTES, request++) {
            int there = 0;
            missing |= *request != m->done && (m->Test(request, &there, NULL) || !there);
        }
        if (missing)
            length +=
                (size_t)snprintf(out + length, bytes - length, "%s%" PRIu32, length ? ", " : "", q);
    }
}

static void fail_late(remat_mpi *m, const remat_transfer *t, bool exchanges)
{
    char missing[128];
    list_missing(m, t, exchanges, missing, sizeof missing);
    snprintf(m->message, sizeof m->message,
             "rank %d waited %.3g s at transfer %" PRIu64 " \"%.128s\" of %" PRIu64
             " bytes; missing: rank %s",
             m->rank, (double)t->timeout_ns / 1e9, t->sequence, t->name, t->whole_bytes,
             *missing ? missing : "none, but what this one sends is not taken");
    m->failed = true;
}

static remat_status transfer_all(remat_mpi *m, const remat_transfer *t, bool exchanges,
                                 char *message)
{
    bool arrived = false;
    int error = 0;
    if (!m->failed && !reserve(m, t)) {
        snprintf(m->message, sizeof m->message, "rank %d: out of memory", m->rank);
        m->failed = true;
    }
    if (!m->failed) {
        error = begin(m, t, exchanges);
        error = error ? error : wait_for_all(m, t->timeout_ns, &arrived);
    }
    if (error) {
        snprintf(m->message, sizeof m->message,
                 "rank %d: MPI error %d at transfer %" PRIu64 " \"%.128s\" of %" PRIu64 " bytes",
                 m->rank, error, t->sequence, t->name, t->whole_bytes);
        m->failed = true;
    }
    if (!m->failed && !arrived)
        fail_late(m, t, exchanges);
    if (m->failed)
        snprintf(message, REMAT_ENGINE_MESSAGE_BYTES, "%s", m->message);
    return m->failed ? REMAT_ERROR_OTHER : REMAT_OK;
}

static remat_status exchange(void *user, const remat_transfer *transfer,
                             char message[REMAT_ENGINE_MESSAGE_BYTES])
{
    return transfer_all(user, transfer, true, message);
}

static remat_status gather(void *user, const remat_transfer *transfer,
                           char message[REMAT_ENGINE_MESSAGE_BYTES])
{
    return transfer_all(user, transfer, false, message);
}

/* The others learn of it from their deadlines, or when this process ends. */
static void fail(void *user, const char *why)
{
    remat_mpi *m = user;
    if (!m->failed)
        snprintf(m->message, sizeof m->message, "rank %d failed: %.400s", m->rank, why);
    m->failed = true;
}

/* --- life --- */

static remat_status find_symbols(remat_mpi *m)
{
    const struct {
        const char *name;
        void *to; /* a pointer to a function or to data */
    } symbols[] = {
#define MPI_FUNCTION(name, ...) {"MPI_" #name, &m->name},
#include "mpi.def"
#undef MPI_FUNCTION
        {"ompi_mpi_comm_world", &m->world},
        {"ompi_mpi_byte", &m->byte},
        {"ompi_request_null", &m->done},
    };
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *found = dlsym(m->library, symbols[i].name);
        if (!found)
            return remat_error(m->ctx, REMAT_ERROR_IO, LIBRARY " has no %s: it is not Open MPI's",
                               symbols[i].name);
        memcpy(symbols[i].to, &found, sizeof found);
    }
    return REMAT_OK;
}

static remat_status start(remat_mpi *m)
{
    int provided, there = 0;
    void *errors_return = dlsym(m->library, "ompi_mpi_errors_return");
    if (m->Initialized(&there))
        there = 0;
    if (!there && m->Init_thread(NULL, NULL, SERIALIZED, &provided))
        return remat_error(m->ctx, REMAT_ERROR_IO, "MPI cannot be initialized");
    m->initialized = !there;
    if ((errors_return && m->Comm_set_errhandler(m->world, errors_return)) ||
        m->Comm_rank(m->world, &m->rank) || m->Comm_size(m->world, &m->ranks))
        return remat_error(m->ctx, REMAT_ERROR_IO, "MPI does not say which rank this is");
    return REMAT_OK;
}

remat_status remat_mpi_create(remat_context *ctx, remat_mpi **out)
{
    remat_status st;
    remat_mpi *m = *out = remat_reallocate(ctx, NULL, sizeof *m);
    if (!m)
        return REMAT_ERROR_MEMORY;
    *m = (remat_mpi){.ctx = ctx, .library = dlopen(LIBRARY, RTLD_NOW | RTLD_GLOBAL)};
    if (!m->library)
        st = remat_error(ctx, REMAT_ERROR_IO, "Open MPI could not be opened: %s", dlerror());
    else
        st = find_symbols(m);
    st = st ? st : start(m);
    if (st)
        remat_mpi_destroy(out);
    return st;
}

void remat_mpi_destroy(remat_mpi **mpi)
{
    remat_mpi *m = *mpi;
    if (!m)
        return;
    if (m->initialized && !m->failed)
        m->Finalize();
    if (m->requests.items)
        remat_reallocate(m->ctx, m->requests.items, 0);
    remat_reallocate(m->ctx, m, 0); /* the library stays: it has threads */
    *mpi = NULL;
}

void remat_mpi_engine(remat_mpi *mpi, remat_engine *out)
{
    *out = (remat_engine){
        .struct_size = sizeof *out,
        .name = "mpi",
        .user = mpi,
        .rank = (uint32_t)mpi->rank,
        .ranks = (uint32_t)mpi->ranks,
        .exchange = exchange,
        .gather = gather,
        .fail = fail,
    };
}
