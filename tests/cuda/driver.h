/* Private to the double of libcuda: its state, objects and operations. */
#ifndef REMAT_TESTS_DRIVER_H
#define REMAT_TESTS_DRIVER_H

#include "double.h"

#include "cuda_api.h"
#include "emulator.h"

#define EXPORT                __attribute__((visibility("default")))
#define FUNCTION(symbol, ...) EXPORT int symbol(__VA_ARGS__);
#include "driver.def"
#undef FUNCTION
EXPORT double_enqueue double_enqueue_host;
EXPORT double_check_memory double_check;
EXPORT double_charge_memory double_charge;

enum { /* CUresult */
       SUCCESS = 0,
       INVALID_VALUE = 1,
       INVALID_IMAGE = 200,
       INVALID_CONTEXT = 201,
       NO_BINARY_FOR_GPU = 209,
       NOT_FOUND = 500,
       NOT_READY = 600,
       ILLEGAL_ADDRESS = 700,
       CAPTURE_UNSUPPORTED = 900,
};

enum kind { STREAM, EVENT, MODULE, KERNEL, GRAPH, EXECUTABLE, ALLOCATION };

struct operation {
    enum { LAUNCH, COPY, SET, RECORD, HOST } type;
    union {
        struct {
            emulator_kernel *kernel;
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
        struct object *event;
        struct {
            void (*run)(const void *);
            char data[512];
        } host;
    };
};

struct queue {
    struct operation *items;
    size_t count, capacity;
};

struct object {
    enum kind kind;
    struct object *next;
    struct queue queue;    /* stream, graph, executable */
    struct queue *capture; /* stream: NULL when it captures nothing */
    uint64_t time_ns;      /* event: 0 before it was reached */
    void *stream;          /* event: that it was recorded on, NULL before */
    void *library;         /* module */
    emulator_kernel *kernel;
    unsigned shared_bytes; /* kernel: that a block may have */
    size_t argument_bytes; /* module, kernel: of its one parameter */
    char *begin;           /* allocation */
    size_t bytes;          /* allocation, module, executable */
};

struct driver {
    struct object *objects;
    char *pool;
    size_t pool_bytes, pool_used;
    struct emulator *emulator;
    int depth, retained; /* of contexts: current, and held */
    int broken;          /* what all calls return since a kernel failed */
    long charged;        /* bytes */
    uint64_t clock_ns;   /* of the GPU */
};
extern struct driver driver;

int driver_setting(const char *name, int otherwise); /* of the environment */
/* What REMAT_DOUBLE_FAIL=FUNCTION:RESULT says of the function. */
int driver_failure(const char *function);
/* Says it on standard error. */
int driver_fault(int result, const char *what, const char *detail);
struct object *driver_add(enum kind kind);
struct object *driver_find(const void *handle, enum kind kind); /* NULL, and says so */
int driver_drop(void *handle, enum kind kind);
void driver_push(struct queue *queue, const struct operation *operation);
int driver_enqueue(void *stream, const struct operation *operation);

#define NEEDS_CONTEXT                                                                              \
    if (driver.broken || driver.depth == 0)                                                        \
        return driver.broken ? driver.broken                                                       \
                             : driver_fault(INVALID_CONTEXT, __func__, " without a context");      \
    if (driver_failure(__func__))                                                                  \
        return driver_failure(__func__);

#endif
