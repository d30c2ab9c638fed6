/* SPDX-License-Identifier: Apache-2.0 */
/* libnccl.so.2: bytes go from rank to rank as files, so threads and processes are one to it. A
 * group of sends and receives is one operation of its stream (double.h): when the stream reaches it
 * what it sends is written, and it stands until what it receives is there. Communicators do not
 * block: each call is under way until it was asked for twice, and no other call may be made
 * meanwhile. */
#include "double.h"

#include "nccl_api.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define EXPORT                           __attribute__((visibility("default")))
#define NCCL_FUNCTION(result, name, ...) EXPORT result nccl##name(__VA_ARGS__);
#include "nccl.def"
#undef NCCL_FUNCTION

enum { INVALID_ARGUMENT = 4, REMOTE_ERROR = 6 };
enum { RANKS_MAX = 16, LOOKS = 2, STREAMS_MAX = 4, VERSION = 22809 };

struct comm {
    enum { JOINING, THERE, ENDING, ENDED, GONE } state;
    char folder[112];
    int rank, ranks, looks; /* looks: for how many it is still under way */
    unsigned sent[RANKS_MAX], received[RANKS_MAX], groups, performed;
    bool aborted;
    void *context;
    void *streams[STREAMS_MAX]; /* that it was used on */
    long charged;
};

struct part { /* one send, or receive */
    bool sends, done;
    char *data;
    size_t bytes;
    int peer;
    unsigned number; /* of those between the two, once it began */
};

struct group { /* of one communicator */
    struct comm *comm;
    void *stream;
    bool begun;
    bool captured; /* it is in a graph, and performed with each launch of that */
    int count;
    struct part *parts;
};

static _Thread_local struct group groups[RANKS_MAX];
static _Thread_local int depth, group_count;

static struct {
    double_enqueue_try *enqueue;
    double_check_memory *check;
    double_charge_memory *charge;
    double_end_process *end;
    double_find_graph *has_graph;
    int (*push)(void *), (*pop)(void **), (*query)(void *), (*capturing)(void *, int *);
} driver;

/* --- the driver's double, which is in the global scope --- */

static bool find_driver(void)
{
    const struct {
        const char *name;
        void *to;
    } symbols[] = {{"double_enqueue_transfer", &driver.enqueue},
                   {"double_check", &driver.check},
                   {"double_charge", &driver.charge},
                   {"double_end", &driver.end},
                   {"double_has_graph", &driver.has_graph},
                   {"cuCtxPushCurrent_v2", &driver.push},
                   {"cuCtxPopCurrent_v2", &driver.pop},
                   {"cuStreamIsCapturing", &driver.capturing},
                   {"cuStreamQuery", &driver.query}};
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *found = dlsym(RTLD_DEFAULT, symbols[i].name);
        if (!found)
            return false;
        memcpy(symbols[i].to, &found, sizeof found);
    }
    return true;
}

static int failure(const char *function)
{
    const char *set = getenv("REMAT_DOUBLE_FAIL");
    size_t length = strlen(function);
    return set && strncmp(set, function, length) == 0 && set[length] == ':' ? atoi(set + length + 1)
                                                                            : 0;
}

/* --- files --- */

static void path_of(const struct comm *comm, char out[200], const char *what, int a, int b,
                    unsigned number)
{
    snprintf(out, 200, "%s/%s-%d-%d-%u", comm->folder, what, a, b, number);
}

/* Whole or not at all. */
static void put(const struct comm *comm, const char *path, const void *data, size_t bytes)
{
    char made[220];
    snprintf(made, sizeof made, "%s.%d", path, comm->rank);
    FILE *file = fopen(made, "wb");
    if (!file || fwrite(data, 1, bytes, file) != bytes || fclose(file) || rename(made, path))
        driver.end(__func__, path);
}

static bool take(const char *path, char *data, size_t bytes)
{
    struct stat info;
    FILE *file = fopen(path, "rb");
    if (!file)
        return false;
    if (fstat(fileno(file), &info) || (size_t)info.st_size != bytes ||
        fread(data, 1, bytes, file) != bytes)
        driver.end("ncclRecv", "another size than was sent");
    fclose(file);
    unlink(path);
    return true;
}

static void sign(const struct comm *comm, const char *what)
{
    char path[200];
    path_of(comm, path, what, comm->rank, 0, 0);
    if (access(path, F_OK) == 0)
        driver.end(what, "a rank twice");
    put(comm, path, what, 1);
}

static bool all_signed(const struct comm *comm, const char *what)
{
    bool all = true;
    char path[200];
    for (int r = 0; r < comm->ranks; r++) {
        path_of(comm, path, what, r, 0, 0);
        all &= access(path, F_OK) == 0;
    }
    return all;
}

/* --- what calls may assume --- */

static struct comm *live(void *handle, const char *call)
{
    struct comm *comm = handle;
    if (!comm || comm->state == GONE)
        driver.end(call, "no communicator, or one that is gone");
    return comm;
}

static struct comm *idle(void *handle, const char *call)
{
    struct comm *comm = live(handle, call);
    if (comm->state != THERE || comm->looks > 0)
        driver.end(call, "a communicator that is still at work");
    return comm;
}

/* --- operations on streams --- */

static bool step(struct group *group, struct part *part)
{
    struct comm *comm = group->comm;
    char path[200];
    int from = part->sends ? comm->rank : part->peer, to = part->sends ? part->peer : comm->rank;
    path_of(comm, path, "part", from, to, part->number);
    if (!part->sends)
        return take(path, part->data, part->bytes);
    put(comm, path, part->data, part->bytes);
    return true;
}

/* As REMAT_DOUBLE_NCCL_STOP says. */
static bool stands(const struct comm *comm)
{
    const char *stop = getenv("REMAT_DOUBLE_NCCL_STOP");
    int rank = 0;
    unsigned after = 0;
    return stop && sscanf(stop, "%d:%u", &rank, &after) == 2 && rank == comm->rank &&
           comm->performed >= after && !comm->aborted;
}

static bool try(const void *data)
{
    struct group *group;
    bool all = true;
    memcpy(&group, data, sizeof group);
    struct comm *comm = group->comm;
    if (stands(comm))
        return false;
    for (int i = 0; i < group->count && !group->begun; i++) {
        struct part *part = &group->parts[i];
        part->number = part->sends ? comm->sent[part->peer]++ : comm->received[part->peer]++;
    }
    group->begun = true;
    for (int i = 0; i < group->count && !comm->aborted; i++) {
        struct part *part = &group->parts[i];
        part->done = part->done || step(group, part);
        all &= part->done;
    }
    if (!all && !comm->aborted)
        return false;
    comm->performed++;
    group->begun = false;
    for (int i = 0; i < group->count; i++)
        group->parts[i].done = false;
    if (!group->captured) {
        free(group->parts);
        free(group);
    }
    return true;
}

/* Takes the parts. */
static int enqueue(const struct group *group)
{
    void *context;
    struct group *kept = malloc(sizeof *kept);
    *kept = *group;
    int s = 0;
    while (group->comm->streams[s] && group->comm->streams[s] != group->stream)
        if (++s == STREAMS_MAX)
            driver.end("a group", "more streams than the double knows");
    group->comm->streams[s] = group->stream;
    driver.push(group->comm->context);
    for (int i = 0; i < kept->count; i++)
        driver.check(kept->parts[i].data, kept->parts[i].bytes, "a transfer");
    const char *set = getenv("REMAT_DOUBLE_NCCL_BYTES");
    long bytes = set ? atol(set) : 1 << 18;
    if (!group->comm->charged && driver.charge(bytes))
        group->comm->charged = bytes;
    int state = 0, result = driver.capturing(group->stream, &state);
    kept->captured = state != 0;
    if (!result)
        result = driver.enqueue(group->stream, try, &kept, sizeof kept);
    driver.pop(&context);
    group->comm->looks = LOOKS;
    group->comm->groups++;
    return result;
}

/* --- calls --- */

int ncclGetVersion(int *version)
{
    const char *set = getenv("REMAT_DOUBLE_NCCL_VERSION");
    *version = set ? atoi(set) : VERSION;
    return 0;
}

const char *ncclGetErrorString(int result)
{
    return result == REMOTE_ERROR ? "remote process exited or there was a network error"
                                  : "an error of the double";
}

const char *ncclGetLastError(void *comm)
{
    (void)comm;
    return "";
}

/* A folder: from the environment, as the real one has a socket then, or a new one. */
int ncclGetUniqueId(struct nccl_id *out)
{
    const char *base = getenv("REMAT_DOUBLE_NCCL"), *named = getenv("NCCL_COMM_ID");
    base = base ? base : "/tmp";
    memset(out, 0, sizeof *out);
    if (failure(__func__))
        return failure(__func__);
    snprintf(out->data, sizeof out->data, "%.80s/nccl-%.30s", base, named ? named : "XXXXXX");
    if (named)
        mkdir(out->data, 0700);
    else if (!mkdtemp(out->data))
        return 2;
    return 0;
}

int ncclCommInitRankConfig(void **out, int ranks, struct nccl_id id, int rank,
                           struct nccl_config *config)
{
    struct comm *comm = calloc(1, sizeof *comm);
    if (!find_driver() || failure(__func__))
        return failure(__func__) ? failure(__func__) : 1;
    if (config->magic != NCCL_CONFIG_MAGIC || config->size != sizeof *config ||
        config->version > VERSION || ranks > RANKS_MAX || rank < 0 || rank >= ranks)
        return INVALID_ARGUMENT;
    if (config->blocking)
        driver.end(__func__, "a communicator that blocks");
    if (driver.pop(&comm->context) || driver.push(comm->context))
        return 1;
    memcpy(comm->folder, id.data, sizeof comm->folder - 1);
    comm->rank = rank;
    comm->ranks = ranks;
    sign(comm, "join");
    *out = comm;
    return NCCL_IN_PROGRESS;
}

int ncclCommGetAsyncError(void *handle, int *state)
{
    struct comm *comm = live(handle, __func__);
    const char *breaks = getenv("REMAT_DOUBLE_NCCL_BREAK");
    int rank = 0;
    unsigned after = 0;
    if (comm->state == JOINING && all_signed(comm, "join"))
        comm->state = THERE;
    if (comm->state == ENDING && all_signed(comm, "end"))
        comm->state = ENDED;
    *state =
        comm->state == JOINING || comm->state == ENDING || comm->looks > 0 ? NCCL_IN_PROGRESS : 0;
    comm->looks -= comm->looks > 0;
    if (breaks && sscanf(breaks, "%d:%u", &rank, &after) == 2 && rank == comm->rank &&
        comm->groups >= after)
        *state = REMOTE_ERROR;
    return 0;
}

/* The real one waits until no graph has captured it. */
static void leave(struct comm *comm)
{
    void *context;
    comm->state = GONE;
    driver.push(comm->context);
    if (!comm->aborted && driver.has_graph())
        driver.end("ncclCommDestroy", "a communicator that a graph has captured");
    driver.charge(-comm->charged);
    driver.pop(&context);
}

int ncclCommAbort(void *handle)
{
    struct comm *comm = live(handle, __func__);
    if (failure(__func__)) /* it hangs, as the real one may */
        pause();
    comm->aborted = true;
    leave(comm);
    driver.push(comm->context);
    for (int s = 0; s < STREAMS_MAX && comm->streams[s]; s++)
        driver.query(comm->streams[s]); /* what stood goes on */
    driver.pop(&comm->context);
    return 0;
}

int ncclCommFinalize(void *handle)
{
    struct comm *comm = idle(handle, __func__);
    comm->state = ENDING;
    sign(comm, "end");
    return NCCL_IN_PROGRESS;
}

int ncclCommDestroy(void *handle)
{
    struct comm *comm = live(handle, __func__);
    if (comm->state != ENDED)
        driver.end(__func__, "a communicator that was not finalized");
    leave(comm);
    return 0;
}

int ncclGroupStart(void)
{
    if (depth++ == 0)
        group_count = 0;
    return 0;
}

int ncclGroupEnd(void)
{
    int result = failure(__func__);
    if (depth == 0)
        driver.end(__func__, "without a beginning");
    if (--depth > 0)
        return 0;
    for (int g = 0; g < group_count && !result; g++)
        result = enqueue(&groups[g]);
    return result ? result : group_count ? NCCL_IN_PROGRESS : 0;
}

static int add(struct part part, void *handle, void *stream, const char *call)
{
    struct comm *comm = idle(handle, call);
    struct group *group = groups;
    if (depth == 0)
        driver.end(call, "outside a group");
    if (part.peer < 0 || part.peer >= comm->ranks)
        return INVALID_ARGUMENT;
    while (group < groups + group_count && group->comm != comm)
        group++;
    if (group == groups + group_count)
        groups[group_count++] = (struct group){.comm = comm, .stream = stream};
    if (group->stream != stream)
        driver.end(call, "a group of several streams");
    group->parts = realloc(group->parts, (size_t)(group->count + 1) * sizeof part);
    group->parts[group->count++] = part;
    return 0;
}

int ncclSend(const void *data, size_t count, int type, int peer, void *comm, void *stream)
{
    if (type != NCCL_CHAR || failure(__func__))
        return type != NCCL_CHAR ? INVALID_ARGUMENT : failure(__func__);
    return add((struct part){.sends = true, .data = (char *)data, .bytes = count, .peer = peer},
               comm, stream, __func__);
}

int ncclRecv(void *data, size_t count, int type, int peer, void *comm, void *stream)
{
    if (type != NCCL_CHAR)
        return INVALID_ARGUMENT;
    return add((struct part){.data = data, .bytes = count, .peer = peer}, comm, stream, __func__);
}

int ncclAllGather(const void *from, void *to, size_t count, int type, void *comm, void *stream)
{
    int result = 0;
    for (int q = 0; q < live(comm, __func__)->ranks && !result; q++) {
        result = ncclSend(from, count, type, q, comm, stream);
        if (!result)
            result = ncclRecv((char *)to + (size_t)q * count, count, type, q, comm, stream);
    }
    return result;
}
