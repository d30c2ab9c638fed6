/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that are processes, by Open MPI, which is opened when it is needed: nothing here needs its
 * headers, whose types are pointers (tests/unit/comm/mpi_types.c holds them against mpi.h). Every
 * rank sends each other one its part and receives theirs, in pieces that an int can count. Nothing
 * waits in MPI: what is on its way is asked for until it is there, the deadline is over, or a rank
 * says that it has failed. Transfers along two axes may be under way in two threads, of which one
 * at a time asks: MPI's own locks, which calls at once would need, are never taken. */
#include "comm.h"
#include "host.h"

#include <assert.h>
#include <dlfcn.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>

#define LIBRARY     "libmpi.so.40" /* Open MPI 4 and 5 */
#define PIECE_BYTES (UINT64_C(1) << 30)
#define TIMEOUT_NS  UINT64_C(600000000000)
#define TELL_NS     UINT64_C(100000000) /* for a failure to reach the others */

enum {
    AXES_MAX = 2,      /* of a mesh */
    SERIALIZED = 2,    /* MPI_THREAD_SERIALIZED: one thread at a time, whichever */
    ANY_SOURCE = -1,   /* MPI_ANY_SOURCE */
    TAGS = 32766,      /* of transfers; there are 32768 at least */
    BYTE_TAGS = 10007, /* from a size to the next, a prime */
    FAILURE_TAG = TAGS,
};

typedef void *MPI_Comm, *MPI_Datatype, *MPI_Errhandler, *MPI_Request, MPI_Status;

struct failure { /* as ranks tell it */
    int32_t status;
    char message[REMAT_ENGINE_MESSAGE_BYTES];
};

struct requests {
    MPI_Request *items;
    size_t count, capacity;
};

struct axis_requests {        /* what is under way along an axis */
    struct requests requests; /* what is received, then sent */
    size_t send_begin;
};

struct remat_mpi {
    remat_context *ctx;
    remat_mpi_params params;
    void *library;
#define MPI_FUNCTION(name, ...) int (*name)(__VA_ARGS__);
#include "mpi.def"
#undef MPI_FUNCTION
    MPI_Comm world;
    MPI_Datatype byte;
    MPI_Request done;      /* MPI_REQUEST_NULL */
    bool initialized;      /* by us, so that we finalize */
    struct comm_call call; /* of these two, which wait for all ranks */
    bool hangs;            /* it does not return */
    int rank, ranks;
    char host[REMAT_HOST_BYTES], (*hosts)[REMAT_HOST_BYTES]; /* of this rank; of all, or NULL */
    pthread_mutex_t mutex; /* of all calls of MPI, and of what follows */
    struct axis_requests axes[AXES_MAX];
    struct requests told; /* failures */
    bool failed;
    struct failure failure; /* why */
};

static bool reserve(const remat_mpi *m, struct requests *requests, size_t count)
{
    if (count <= requests->capacity)
        return count <= INT_MAX;
    void *items = remat_reallocate(m->ctx, requests->items, count * sizeof *requests->items);
    if (!items)
        return false;
    requests->items = items;
    requests->capacity = count;
    return count <= INT_MAX;
}

/* --- failure: the first one that this rank has or hears of --- */

static void set_failure(remat_mpi *m, remat_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void set_failure(remat_mpi *m, remat_status status, const char *format, ...)
{
    va_list arguments;
    if (m->failed)
        return;
    va_start(arguments, format);
    vsnprintf(m->failure.message, sizeof m->failure.message, format, arguments);
    va_end(arguments);
    m->failure.status = (int32_t)status;
    m->failed = true;
}

static void hear(remat_mpi *m)
{
    struct failure heard;
    int there = 0;
    if (m->Iprobe(ANY_SOURCE, FAILURE_TAG, m->world, &there, NULL) || !there ||
        m->Recv(&heard, sizeof heard, m->byte, ANY_SOURCE, FAILURE_TAG, m->world, NULL))
        return;
    heard.message[sizeof heard.message - 1] = 0;
    set_failure(m, (remat_status)heard.status, "%s", heard.message);
}

/* What it sends may stay on its way: this process ends. */
static void tell(remat_mpi *m)
{
    struct remat_wait wait = {0};
    int all = 0, error = !reserve(m, &m->told, (size_t)m->ranks);
    m->told.count = 0;
    for (int q = 0; q < m->ranks && !error; q++)
        if (q != m->rank)
            error = m->Isend(&m->failure, sizeof m->failure, m->byte, q, FAILURE_TAG, m->world,
                             &m->told.items[m->told.count++]);
    while (!all && !error && wait.waited_ns < TELL_NS) {
        error = m->Testall((int)m->told.count, m->told.items, &all, NULL);
        remat_wait_pause(&wait);
    }
}

/* --- a transfer --- */

static int receive(remat_mpi *m, struct requests *out, char *to, uint64_t bytes, int from, int tag)
{
    int error = 0;
    for (uint64_t at = 0; at < bytes && !error; at += PIECE_BYTES) {
        int piece = (int)(bytes - at < PIECE_BYTES ? bytes - at : PIECE_BYTES);
        error = m->Irecv(to + at, piece, m->byte, from, tag, m->world, &out->items[out->count++]);
    }
    return error;
}

static int send(remat_mpi *m, struct requests *out, const char *from, uint64_t bytes, int to,
                int tag)
{
    int error = 0;
    for (uint64_t at = 0; at < bytes && !error; at += PIECE_BYTES) {
        int piece = (int)(bytes - at < PIECE_BYTES ? bytes - at : PIECE_BYTES);
        error = m->Isend(from + at, piece, m->byte, to, tag, m->world, &out->items[out->count++]);
    }
    return error;
}

static int rank_at(const remat_mpi *m, const remat_transfer *t, uint32_t position)
{
    return (int)remat_transfer_rank(t, (uint32_t)m->rank, position);
}

struct together { /* transfers that are made at once */
    const remat_transfer *transfers;
    uint32_t count;
    bool exchanges;
};

/* Tags tell transfers, their kinds and sizes apart, so that ranks which differ wait. As there are
 * more sizes than tags, one in TAGS of those that differ is not noticed. */
static int tag_of(const remat_transfer *t, bool exchanges, uint64_t bytes)
{
    return (int)((2 * t->sequence + exchanges + BYTE_TAGS * (bytes % TAGS)) % TAGS);
}

static int receive_parts(remat_mpi *m, struct requests *out, const remat_transfer *t,
                         bool exchanges)
{
    int error = 0;
    for (uint32_t q = 0; q < t->size && !error; q++) {
        uint64_t bytes = remat_transfer_bytes(t, exchanges ? t->position : q);
        if (q != t->position)
            error = receive(m, out, (char *)t->to + q * t->part_bytes, bytes, rank_at(m, t, q),
                            tag_of(t, exchanges, bytes));
    }
    return error;
}

static int send_parts(remat_mpi *m, struct requests *out, const remat_transfer *t, bool exchanges)
{
    int error = 0;
    for (uint32_t q = 0; q < t->size && !error; q++) {
        uint64_t bytes = remat_transfer_bytes(t, exchanges ? q : t->position);
        if (q != t->position)
            error = send(m, out, exchanges ? remat_transfer_part_for(t, q) : t->from, bytes,
                         rank_at(m, t, q), tag_of(t, exchanges, bytes));
    }
    return error;
}

static void keep_own(const remat_transfer *t, bool exchanges)
{
    uint64_t mine = remat_transfer_bytes(t, t->position);
    if (mine)
        memcpy((char *)t->to + t->position * t->part_bytes,
               exchanges ? remat_transfer_part_for(t, t->position) : t->from, mine);
}

static int begin(remat_mpi *m, struct axis_requests *axis, const struct together *g)
{
    int error = 0;
    axis->requests.count = 0;
    for (uint32_t k = 0; k < g->count && !error; k++)
        error = receive_parts(m, &axis->requests, &g->transfers[k], g->exchanges);
    axis->send_begin = axis->requests.count;
    for (uint32_t k = 0; k < g->count && !error; k++)
        error = send_parts(m, &axis->requests, &g->transfers[k], g->exchanges);
    return error;
}

/* --- waiting --- */

static bool goes_on(remat_mpi *m, uint64_t waited_ns, uint64_t timeout_ns)
{
    return waited_ns < timeout_ns && !m->failed &&
           (!m->params.go_on || m->params.go_on(m->params.user, waited_ns));
}

/* *arrived: all did before the deadline. */
static int wait_for_all(remat_mpi *m, struct requests *requests, uint64_t timeout_ns, bool *arrived,
                        uint64_t *waited_ns)
{
    struct remat_wait wait = {0};
    int all = 0, error = 0;
    while (!all && !error && goes_on(m, wait.waited_ns, timeout_ns)) {
        error = m->Testall((int)requests->count, requests->items, &all, NULL);
        if (!all) {
            hear(m);
            pthread_mutex_unlock(&m->mutex);
            remat_wait_pause(&wait);
            pthread_mutex_lock(&m->mutex);
        }
    }
    *arrived = all;
    *waited_ns = wait.waited_ns;
    return error;
}

/* Adds "2 on b" to a list, or "..." where it ends for want of room. */
static void list_rank(const remat_mpi *m, uint32_t rank, char *out, size_t bytes)
{
    size_t length = strlen(out);
    const char *before = length ? ", " : "";
    bool fits = length + 24 + REMAT_HOST_BYTES < bytes, ended = strstr(out, "...");
    if (fits && m->hosts)
        snprintf(out + length, bytes - length, "%s%" PRIu32 " on %s", before, rank, m->hosts[rank]);
    else if (fits)
        snprintf(out + length, bytes - length, "%s%" PRIu32, before, rank);
    else if (!ended)
        snprintf(out + length, bytes - length, "%s...", before);
}

/* With a transfer's requests, of which the first is *request; moves it past them. */
static bool is_missing(remat_mpi *m, const remat_transfer *t, uint32_t position, bool own_parts,
                       MPI_Request **request)
{
    bool missing = false;
    for (uint32_t q = 0; q < t->size; q++) {
        uint64_t part = q == t->position ? 0 : remat_transfer_bytes(t, own_parts ? t->position : q);
        for (uint64_t at = 0; at < part; at += PIECE_BYTES, ++*request) {
            int there = 0;
            if (q == position && **request != m->done)
                missing |= m->Test(*request, &there, NULL) || !there;
        }
    }
    return missing;
}

/* "1 on a, 2 on b": the others of which something is missing or, with `sends`, who did not take
 * what they were sent. */
static void list_missing(remat_mpi *m, const struct axis_requests *axis, const struct together *g,
                         bool sends, char *out, size_t bytes)
{
    *out = 0;
    for (uint32_t q = 0; q < g->transfers->size; q++) {
        MPI_Request *request = axis->requests.items + (sends ? axis->send_begin : 0);
        bool missing = false;
        for (uint32_t k = 0; k < g->count; k++)
            missing |= is_missing(m, &g->transfers[k], q, g->exchanges != sends, &request);
        if (missing)
            list_rank(m, (uint32_t)rank_at(m, g->transfers, q), out, bytes);
    }
}

static void fail_late(remat_mpi *m, const struct axis_requests *axis, const struct together *g,
                      uint64_t waited_ns)
{
    char missing[160], where[DESCRIPTION_BYTES];
    bool told = waited_ns < g->transfers->timeout_ns;
    list_missing(m, axis, g, false, missing, sizeof missing);
    if (!*missing)
        list_missing(m, axis, g, true, missing, sizeof missing);
    remat_transfer_describe(g->transfers, g->count, where, sizeof where);
    set_failure(m, REMAT_ERROR_RANK_LOST, "rank %d on %s%s waited %.3g s %s; missing: rank %s",
                m->rank, m->host, told ? " is told to end, and" : "", (double)waited_ns / 1e9,
                where, missing);
    tell(m);
}

static void fail_in_mpi(remat_mpi *m, const struct together *g, int error)
{
    char where[DESCRIPTION_BYTES];
    remat_transfer_describe(g->transfers, g->count, where, sizeof where);
    set_failure(m, REMAT_ERROR_OTHER, "rank %d on %s: MPI error %d %s", m->rank, m->host, error,
                where);
    tell(m);
}

static bool reserve_requests(const remat_mpi *m, struct requests *requests,
                             const struct together *g)
{
    size_t count = 0;
    for (uint32_t k = 0; k < g->count; k++)
        count += 2 * (size_t)g->transfers[k].size *
                 (size_t)(g->transfers[k].part_bytes / PIECE_BYTES + 1);
    return reserve(m, requests, count);
}

static void move(remat_mpi *m, const struct together *g)
{
    bool arrived = false;
    uint64_t waited_ns = 0;
    struct axis_requests *axis = &m->axes[g->transfers->group];
    if (!reserve_requests(m, &axis->requests, g)) {
        set_failure(m, REMAT_ERROR_MEMORY, "rank %d on %s: out of memory", m->rank, m->host);
        tell(m);
        return;
    }
    int error = begin(m, axis, g);
    error = error
                ? error
                : wait_for_all(m, &axis->requests, g->transfers->timeout_ns, &arrived, &waited_ns);
    if (error)
        fail_in_mpi(m, g, error);
    else if (!arrived && !m->failed)
        fail_late(m, axis, g, waited_ns);
}

static remat_status transfer_all(remat_mpi *m, const remat_transfer *transfers, uint32_t count,
                                 bool exchanges, char *message)
{
    assert(transfers->group < AXES_MAX);
    for (uint32_t k = 0; k < count; k++)
        keep_own(&transfers[k], exchanges);
    pthread_mutex_lock(&m->mutex);
    if (!m->failed)
        move(m, &(struct together){transfers, count, exchanges});
    remat_status st = m->failed ? (remat_status)m->failure.status : REMAT_OK;
    if (st)
        snprintf(message, REMAT_ENGINE_MESSAGE_BYTES, "%s", m->failure.message);
    pthread_mutex_unlock(&m->mutex);
    return st;
}

static remat_status exchange(void *user, const remat_transfer *transfers, uint32_t count,
                             char message[REMAT_ENGINE_MESSAGE_BYTES])
{
    return transfer_all(user, transfers, count, true, message);
}

static remat_status gather(void *user, const remat_transfer *transfers, uint32_t count,
                           char message[REMAT_ENGINE_MESSAGE_BYTES])
{
    return transfer_all(user, transfers, count, false, message);
}

static void fail(void *user, remat_status status, const char *why)
{
    remat_mpi *m = user;
    pthread_mutex_lock(&m->mutex);
    if (!m->failed) {
        set_failure(m, status, "rank %d on %s failed: %.400s", m->rank, m->host, why);
        tell(m);
    }
    pthread_mutex_unlock(&m->mutex);
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

static remat_status report(const remat_mpi *m)
{
    return m->failed
               ? remat_error(m->ctx, (remat_status)m->failure.status, "%s", m->failure.message)
               : REMAT_OK;
}

/* A function of MPI that waits for all ranks. */
static remat_status call_all(remat_mpi *m, int (*function)(void *), const char *what)
{
    m->call.function = function;
    m->call.argument = m;
    remat_status st = comm_call_within(&m->call, m->params.timeout_ns);
    m->hangs = st == REMAT_ERROR_RANK_LOST;
    if (m->hangs)
        set_failure(m, st, "a process on %s waited %.3g s for all others to %s MPI", m->host,
                    (double)m->params.timeout_ns / 1e9, what);
    else if (st)
        set_failure(m, st, "out of memory, or of threads: cannot %s MPI", what);
    else if (m->call.result)
        set_failure(m, REMAT_ERROR_IO, "MPI cannot %s: error %d", what, m->call.result);
    return report(m);
}

static int initialize(void *user)
{
    int provided;
    return ((remat_mpi *)user)->Init_thread(NULL, NULL, SERIALIZED, &provided);
}

static int finalize(void *user)
{
    return ((remat_mpi *)user)->Finalize();
}

/* So that messages say where a missing rank is. */
static remat_status gather_hosts(remat_mpi *m)
{
    char message[REMAT_ENGINE_MESSAGE_BYTES], (*hosts)[REMAT_HOST_BYTES];
    uint64_t bytes = (uint64_t)m->ranks * sizeof *hosts;
    hosts = remat_reallocate(m->ctx, NULL, bytes);
    if (!hosts)
        return REMAT_ERROR_MEMORY;
    const remat_transfer transfer = {.struct_size = sizeof transfer,
                                     .name = "hosts",
                                     .size = (uint32_t)m->ranks,
                                     .position = (uint32_t)m->rank,
                                     .part_bytes = sizeof *hosts,
                                     .whole_bytes = bytes,
                                     .from = m->host,
                                     .to = hosts,
                                     .timeout_ns = m->params.timeout_ns};
    remat_status st = gather(m, &transfer, 1, message);
    m->hosts = hosts;
    return st ? remat_error(m->ctx, st, "%s", message) : REMAT_OK;
}

static remat_status start(remat_mpi *m)
{
    remat_status st = REMAT_OK;
    int there = 0, level = 0;
    void *errors_return = dlsym(m->library, "ompi_mpi_errors_return");
    if (m->Initialized(&there))
        there = 0;
    if (!there)
        REMAT_TRY(call_all(m, initialize, "initialize"));
    m->initialized = !there;
    if (m->Query_thread(&level) || level < SERIALIZED)
        REMAT_FAIL(m->ctx, REMAT_ERROR_IO,
                   "MPI allows calls of one thread alone (level %d): initialize it with "
                   "MPI_THREAD_SERIALIZED or more",
                   level);
    if ((errors_return && m->Comm_set_errhandler(m->world, errors_return)) ||
        m->Comm_rank(m->world, &m->rank) || m->Comm_size(m->world, &m->ranks))
        REMAT_FAIL(m->ctx, REMAT_ERROR_IO, "MPI does not say which rank this is");
    REMAT_TRY(gather_hosts(m));
fail:
    return st;
}

remat_status remat_mpi_create(remat_context *ctx, const remat_mpi_params *params, remat_mpi **out)
{
    remat_status st;
    *out = NULL;
    if (params->struct_size < sizeof *params)
        return remat_error(ctx, REMAT_ERROR_USAGE, "parameters of %zu bytes, expected %zu",
                           params->struct_size, sizeof *params);
    remat_mpi *m = *out = remat_reallocate(ctx, NULL, sizeof *m);
    if (!m)
        return REMAT_ERROR_MEMORY;
    *m = (remat_mpi){
        .ctx = ctx, .params = *params, .library = dlopen(LIBRARY, RTLD_NOW | RTLD_GLOBAL)};
    pthread_mutex_init(&m->mutex, NULL);
    m->params.timeout_ns = params->timeout_ns ? params->timeout_ns : TIMEOUT_NS;
    remat_host_name(m->host);
    if (!m->library)
        st = remat_error(ctx, REMAT_ERROR_IO, "Open MPI could not be opened: %s", dlerror());
    else
        st = find_symbols(m);
    st = st ? st : start(m);
    if (st)
        remat_mpi_destroy(out);
    return st;
}

remat_status remat_mpi_finish(remat_mpi *m)
{
    if (m->failed || !m->initialized)
        return report(m);
    m->initialized = false;
    return call_all(m, finalize, "finalize");
}

/* What hangs keeps what it uses, and the library stays: it has threads. */
void remat_mpi_destroy(remat_mpi **mpi)
{
    remat_mpi *m = *mpi;
    *mpi = NULL;
    if (!m || m->hangs)
        return;
    pthread_mutex_destroy(&m->mutex);
    for (uint32_t l = 0; l < AXES_MAX; l++)
        remat_reallocate(m->ctx, m->axes[l].requests.items, 0);
    remat_reallocate(m->ctx, m->told.items, 0);
    if (m->hosts)
        remat_reallocate(m->ctx, m->hosts, 0);
    remat_reallocate(m->ctx, m, 0);
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
        .concurrent = 1,
    };
}

/* --- by name --- */

static remat_status open_kind(remat_context *ctx, const remat_engines_params *params, void **out)
{
    remat_mpi *mpi;
    const remat_mpi_params own = {.struct_size = sizeof own,
                                  .timeout_ns = params->timeout_ns,
                                  .go_on = params->go_on,
                                  .user = params->user};
    remat_status st = remat_mpi_create(ctx, &own, &mpi);
    *out = mpi;
    return st;
}

static void get_engine(void *opened, uint32_t rank, remat_engine *out)
{
    (void)rank;
    remat_mpi_engine(opened, out);
}

static remat_status finish_kind(void *opened)
{
    return remat_mpi_finish(opened);
}

static void close_kind(void *opened)
{
    remat_mpi_destroy(&(remat_mpi *){opened});
}

const struct comm_kind comm_kind_mpi = {
    .kind = {.name = "mpi", .between_processes = "mpirun"},
    .open = open_kind,
    .get = get_engine,
    .finish = finish_kind,
    .close = close_kind,
};
