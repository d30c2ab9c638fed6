/* SPDX-License-Identifier: Apache-2.0 */
/* Private to the double of libcuda: its state, objects and operations. */
#ifndef REMAT_TESTS_DRIVER_H
#define REMAT_TESTS_DRIVER_H

#include "double.h"

#include "cuda_api.h"
#include "emulator.h"

#include <string.h>

#define EXPORT                __attribute__((visibility("default")))
#define FUNCTION(symbol, ...) EXPORT int symbol(__VA_ARGS__);
#include "driver.def"
#undef FUNCTION
EXPORT double_enqueue double_enqueue_host;
EXPORT double_enqueue_try double_enqueue_transfer;
EXPORT double_check_memory double_check;
EXPORT double_charge_memory double_charge;
EXPORT double_refuse_capture double_refuse;
EXPORT double_find_graph double_has_graph;
EXPORT double_end_process double_end;

enum { /* CUresult */
       SUCCESS = 0,
       INVALID_VALUE = 1,
       INVALID_IMAGE = 200,
       INVALID_CONTEXT = 201,
       NO_BINARY_FOR_GPU = 209,
       NOT_FOUND = 500,
       NOT_READY = CUDA_NOT_READY,
       ILLEGAL_ADDRESS = 700,
       CAPTURE_UNSUPPORTED = 900,
       CAPTURE_INVALIDATED = 901,
       CAPTURE_UNJOINED = 904,
       CAPTURE_ISOLATION = 905,
       CAPTURE_IMPLICIT = 906,
       CAPTURED_EVENT = 907,
       CAPTURE_WRONG_THREAD = 908,
};

enum kind { STREAM, EVENT, MODULE, KERNEL, GRAPH, EXECUTABLE, ALLOCATION };

struct place {             /* in a stream: all that was enqueued there before `position` */
    struct object *stream; /* NULL: nowhere */
    uint64_t position;
};

struct operation {
    enum { LAUNCH, COPY, SET, SET_WORDS, RECORD, WAIT, HOST, TRANSFER } type;
    union {
        struct {
            struct object *kernel;
            struct arguments arguments;
            uint32_t blocks, threads, shared_bytes;
        } launch;
        struct {
            void *to;
            const void *from;
            size_t bytes;
        } copy;
        struct {
            void *to;
            unsigned char byte;
            size_t bytes;
        } set;
        struct {
            uint32_t *to;
            uint32_t word;
            size_t count;
        } words;
        struct object *event;
        struct place wait;
        struct {
            void (*run)(const void *); /* HOST */
            bool (*try)(const void *); /* TRANSFER */
            char data[512];
        } host;
    };
    int lane; /* in a graph: of its streams, that of the operation; and of what a WAIT waits for, */
    int waited_lane; /* of which wait.position is a number of operations */
};

struct queue {
    struct operation *items;
    size_t count, capacity;
};

enum { LANES_MAX = 4 };

struct capture {
    struct object *graph;
    unsigned long thread; /* that began it */
    bool invalid;         /* a call that a capture does not allow was made */
    /* That it is of: where it began, and those that waited for an event on one of them. */
    struct object *streams[LANES_MAX];
    int stream_count;
};

struct gpu;

struct object {
    enum kind kind;
    struct gpu *gpu;
    unsigned long thread; /* that made it */
    bool destroyed;       /* kept, so that what is done with it later is known */
    struct object *next;
    struct queue queue; /* stream: what is to be done; graph, executable */
    /* stream */
    bool blocking;           /* the legacy stream waits for it, and it for the legacy stream */
    struct capture *capture; /* NULL when it captures nothing */
    uint64_t begun, done;    /* positions: of the queue's first operation, of the next to do */
    uint64_t transferred,
        seen; /* up to the last transfer, and as far as a query said it was done */
    /* event */
    struct place recorded;
    bool is_captured, is_timed;
    struct object *graph; /* in whose capture it was recorded */
    uint64_t time_ns;     /* 0 before it was reached */
    /* module, kernel */
    void *library;         /* of a module, NULL before it is needed */
    char *text;            /* of a kernel, its name */
    struct object *module; /* kernel */
    emulator_kernel *kernel;
    unsigned threads, shared_bytes; /* that a block may have */
    bool has_run;
    size_t argument_bytes; /* of the one parameter */
    /* graph, executable: its streams; those of an executable are its own, but for the first */
    struct object *lanes[LANES_MAX];
    int lane_count;
    bool hidden; /* a stream of these */
    /* allocation, module, executable */
    char *begin;
    size_t bytes;
};

#define GPUS_MAX 8

struct gpu {                          /* and its context */
    struct object legacy, per_thread; /* streams; not among the objects */
    char *pool;
    size_t pool_used;
    int retained;       /* how often the context is held */
    int current;        /* and how often it is current, in all threads */
    size_t stack_bytes; /* of a thread, while it is */
    long charged;       /* bytes */
};

struct driver {
    struct object *objects;
    struct gpu gpus[GPUS_MAX];
    int gpu_count;
    size_t pool_bytes; /* of each GPU */
    struct emulator *emulator;
    int broken;        /* what all calls return since a kernel failed */
    uint64_t clock_ns; /* of the GPUs */
};
extern struct driver driver;

struct current { /* contexts of a thread */
    struct gpu **gpus;
    int depth, capacity;
};
extern _Thread_local struct current driver_current;
struct gpu *driver_gpu(void); /* that is current, else the first */

/* Calls of several threads come one after the other; the lock is free at the end of the block. */
int driver_lock(void);
void driver_unlock(const int *locked);
#define LOCKED_AT_(line)                                                                           \
    __attribute__((cleanup(driver_unlock))) const int locked_##line = driver_lock();               \
    (void)locked_##line;
#define LOCKED_AT(line) LOCKED_AT_(line)
#define LOCKED          LOCKED_AT(__LINE__)

int driver_setting(const char *name, int otherwise); /* of the environment */
/* What REMAT_DOUBLE_FAIL=FUNCTION:RESULT says of the function; a failure spoils captures. */
int driver_failure(const char *function);
/* A line to the file of REMAT_DOUBLE_DRY; false without one. */
bool driver_only_says(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Says it on standard error. */
int driver_fault(int result, const char *what, const char *detail);
/* Ends the process: hardware would be used in a way of which nothing is defined. */
_Noreturn void driver_end(int code, const char *call, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
struct object *driver_add(enum kind kind);
/* End the process for a handle that is unknown, destroyed or of another kind. */
struct object *driver_find(const void *handle, enum kind kind, const char *call);
struct object *driver_stream(void *handle, const char *call); /* the default streams too */
int driver_drop(void *handle, enum kind kind, const char *call);
void driver_push(struct queue *queue, const struct operation *operation);
int driver_enqueue(void *stream, const struct operation *operation, const char *call);
struct place driver_end_of(struct object *stream); /* after all that was enqueued */
/* It waits for all that is before the place, other ranks too. */
void driver_follow(struct object *stream, struct place place);
void driver_drain(struct object *stream); /* as far as it may go */
int driver_lane(const struct capture *capture, const struct object *stream);
uint64_t driver_lane_length(const struct object *graph, int lane); /* operations */
bool driver_is_queued(const struct object *module); /* a launch of one of its kernels */
/* Ends the process where `stream`, or with NULL any of the GPU's, has a transfer of which no query
 * said that it is done: a call that waits for it could wait for ever. */
void driver_refuse_transfers(const struct object *stream, const char *call);
/* CAPTURE_UNSUPPORTED where the thread captures: the call does not go through a stream, so no graph
 * would have it. The capture is lost then, as with the real one. */
int driver_refuse(const char *call);

#define NEEDS_CURRENT                                                                              \
    LOCKED                                                                                         \
    if (driver.broken || driver_current.depth == 0)                                                \
        return driver.broken ? driver.broken                                                       \
                             : driver_fault(INVALID_CONTEXT, __func__, " without a context");
#define NEEDS_CONTEXT                                                                              \
    NEEDS_CURRENT                                                                                  \
    if (driver_failure(__func__))                                                                  \
        return driver_failure(__func__);

/* Not while the thread captures. */
#define NEEDS_NO_CAPTURE                                                                           \
    NEEDS_CONTEXT                                                                                  \
    if (driver_refuse(__func__))                                                                   \
        return CAPTURE_UNSUPPORTED;

#endif
