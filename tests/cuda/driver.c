/* libcuda.so.1: memory is a part of one pool, so that device addresses are host addresses; streams
 * are queues of operations; a graph is a queue kept. */
#include "double.h"

#include "cuda_api.h"
#include "emulator.h"

#include <dlfcn.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

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

#define CONTEXT_BYTES (1u << 20) /* what the context is said to take */
#define GAP_BYTES     4096       /* between allocations: nobody may access it */
#define WORDS         64

/* --- operations and objects --- */

enum kind { STREAM, EVENT, MODULE, KERNEL, GRAPH, EXECUTABLE, ALLOCATION };
static const char *const kind_names[] = {
    "stream", "event", "module", "function", "graph", "executable graph", "allocation"};

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
    void *library;         /* module */
    emulator_kernel *kernel;
    char *begin;  /* allocation */
    size_t bytes; /* allocation, module, executable */
};

static struct object *objects;
static char *pool;
static size_t pool_bytes, pool_used;
static struct emulator *emulator;
static int depth, retained, broken;
static long charged;          /* bytes */
static uint64_t clock_ns = 1; /* of the GPU */

static int setting(const char *name, int otherwise)
{
    const char *text = getenv(name);
    return text ? atoi(text) : otherwise;
}

static int fault(int result, const char *what, const char *detail)
{
    fprintf(stderr, "libcuda double: %s%s\n", what, detail);
    return result;
}

static struct object *add(enum kind kind)
{
    struct object *object = calloc(1, sizeof *object);
    object->kind = kind;
    object->next = objects;
    objects = object;
    return object;
}

static struct object *find(const void *handle, enum kind kind)
{
    struct object *o = objects;
    while (o && !(o == handle && o->kind == kind))
        o = o->next;
    if (!o)
        fault(0, "no such ", kind_names[kind]);
    return o;
}

static int drop(void *handle, enum kind kind)
{
    struct object *object = find(handle, kind);
    if (!object)
        return INVALID_VALUE;
    struct object **at = &objects;
    while (*at != object)
        at = &(*at)->next;
    *at = object->next;
    free(object->queue.items);
    free(object);
    return SUCCESS;
}

static void push(struct queue *queue, const struct operation *operation)
{
    if (queue->count == queue->capacity) {
        queue->capacity = 2 * queue->capacity + 16;
        queue->items = realloc(queue->items, queue->capacity * sizeof *queue->items);
    }
    queue->items[queue->count++] = *operation;
}

/* REMAT_DOUBLE_FAIL=FUNCTION:RESULT */
static int failure(const char *function)
{
    const char *set = getenv("REMAT_DOUBLE_FAIL");
    size_t length = strlen(function);
    return set && strncmp(set, function, length) == 0 && set[length] == ':' ? atoi(set + length + 1)
                                                                            : SUCCESS;
}

#define NEEDS_CONTEXT                                                                              \
    if (broken || depth == 0)                                                                      \
        return broken ? broken : fault(INVALID_CONTEXT, __func__, " without a context");           \
    if (failure(__func__))                                                                         \
        return failure(__func__);

static int enqueue(void *handle, const struct operation *operation)
{
    NEEDS_CONTEXT
    struct object *stream = find(handle, STREAM);
    if (!stream)
        return INVALID_VALUE;
    push(stream->capture ? stream->capture : &stream->queue, operation);
    return SUCCESS;
}

/* --- memory --- */

static struct object *allocation_of(const char *begin, size_t bytes)
{
    for (struct object *o = objects; o; o = o->next)
        if (o->kind == ALLOCATION && begin >= o->begin && begin + bytes <= o->begin + o->bytes)
            return o;
    return NULL;
}

void double_check(const void *begin, size_t bytes, const char *what)
{
    if (bytes && !allocation_of(begin, bytes)) {
        fault(0, "outside live allocations: ", what);
        exit(98);
    }
}

static size_t used_bytes(void)
{
    size_t bytes = (retained ? CONTEXT_BYTES : 0) + (size_t)charged;
    for (struct object *o = objects; o; o = o->next)
        bytes += o->bytes;
    return bytes;
}

bool double_charge(long bytes)
{
    if (bytes > (long)(pool_bytes - used_bytes()))
        return false;
    charged += bytes;
    return true;
}

int cuMemGetInfo_v2(size_t *available, size_t *total)
{
    NEEDS_CONTEXT
    *total = pool_bytes;
    *available = pool_bytes - used_bytes();
    return SUCCESS;
}

int cuMemAlloc_v2(uint64_t *out, size_t bytes)
{
    NEEDS_CONTEXT
    size_t taken = (bytes + GAP_BYTES + 255) / 256 * 256;
    if (bytes == 0 || bytes > pool_bytes - used_bytes() || pool_used + taken > 2 * pool_bytes)
        return bytes ? CUDA_OUT_OF_MEMORY : INVALID_VALUE;
    struct object *object = add(ALLOCATION);
    object->begin = pool + pool_used;
    object->bytes = bytes;
    pool_used += taken;
    memset(object->begin, 0xff, bytes);
    *out = (uintptr_t)object->begin;
    return SUCCESS;
}

int cuMemFree_v2(uint64_t address)
{
    NEEDS_CONTEXT
    for (struct object *o = objects; o; o = o->next)
        if (o->kind == ALLOCATION && (uintptr_t)o->begin == address)
            return drop(o, ALLOCATION);
    return fault(INVALID_VALUE, "free of what is not allocated", "");
}

int cuMemsetD8Async(uint64_t address, unsigned char byte, size_t bytes, void *stream)
{
    struct operation o = {.type = SET, .set = {(void *)(uintptr_t)address, byte, bytes}};
    double_check(o.set.to, bytes, __func__);
    return enqueue(stream, &o);
}

int cuMemcpyHtoDAsync_v2(uint64_t address, const void *from, size_t bytes, void *stream)
{
    struct operation o = {.type = COPY, .copy = {(void *)(uintptr_t)address, from, bytes}};
    double_check(o.copy.to, bytes, __func__);
    return enqueue(stream, &o);
}

int cuMemcpyDtoHAsync_v2(void *to, uint64_t address, size_t bytes, void *stream)
{
    struct operation o = {.type = COPY, .copy = {to, (const void *)(uintptr_t)address, bytes}};
    double_check(o.copy.from, bytes, __func__);
    return enqueue(stream, &o);
}

/* --- the machine --- */

int cuInit(unsigned flags)
{
    Dl_info self;
    (void)flags;
    if (failure(__func__))
        return failure(__func__);
    if (setting("REMAT_DOUBLE_CAPABILITY", 90) == 0)
        return CUDA_NO_DEVICE;
    if (pool)
        return SUCCESS;
    /* Kernels and the other doubles find what they call in the global scope. */
    if (!dladdr((void *)(uintptr_t)cuInit, &self) ||
        !dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL))
        return fault(INVALID_VALUE, "dlopen: ", dlerror());
    mallopt(M_PERTURB, 0); /* the emulator's memory is large and mostly never touched */
    pool_bytes = (size_t)setting("REMAT_DOUBLE_MEMORY", 128 << 20);
    pool = mmap(NULL, 2 * pool_bytes, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    emulator = pool == MAP_FAILED ? NULL : emulator_create(pool, 2 * pool_bytes);
    return emulator ? SUCCESS : CUDA_OUT_OF_MEMORY;
}

int cuDriverGetVersion(int *version)
{
    *version = setting("REMAT_DOUBLE_DRIVER", 13000);
    return SUCCESS;
}

int cuGetErrorName(int result, const char **name)
{
    *name = result == CUDA_OUT_OF_MEMORY  ? "CUDA_ERROR_OUT_OF_MEMORY"
            : result == INVALID_IMAGE     ? "CUDA_ERROR_INVALID_IMAGE"
            : result == NO_BINARY_FOR_GPU ? "CUDA_ERROR_NO_BINARY_FOR_GPU"
            : result == ILLEGAL_ADDRESS   ? "CUDA_ERROR_ILLEGAL_ADDRESS"
                                          : "an error of the double";
    return SUCCESS;
}

int cuGetErrorString(int result, const char **text)
{
    static char number[16];
    snprintf(number, sizeof number, "%d", result);
    *text = number;
    return SUCCESS;
}

int cuDeviceGetCount(int *count)
{
    *count = 1;
    return SUCCESS;
}

int cuDeviceGet(int *device, int ordinal)
{
    *device = 0;
    return ordinal == 0 ? SUCCESS : INVALID_VALUE;
}

int cuDeviceGetName(char *name, int bytes, int device)
{
    const char *set = getenv("REMAT_DOUBLE_NAME");
    (void)device;
    snprintf(name, (size_t)bytes, "%s", set ? set : "NVIDIA H200");
    return SUCCESS;
}

int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    int capability = setting("REMAT_DOUBLE_CAPABILITY", 90);
    (void)device;
    *value = attribute == CUDA_DEVICE_COMPUTE_CAPABILITY_MAJOR   ? capability / 10
             : attribute == CUDA_DEVICE_COMPUTE_CAPABILITY_MINOR ? capability % 10
                                                                 : 1;
    return SUCCESS;
}

int cuDevicePrimaryCtxRetain(void **context, int device)
{
    (void)device;
    if (failure(__func__))
        return failure(__func__);
    retained++;
    *context = pool;
    return SUCCESS;
}

int cuDevicePrimaryCtxRelease_v2(int device)
{
    (void)device;
    if (--retained > 0)
        return SUCCESS;
    for (struct object *o = objects; o; o = o->next)
        if (o->kind != KERNEL)
            fault(0, "leaked: ", kind_names[o->kind]);
    for (struct object *o = objects; o; o = o->next)
        if (o->kind != KERNEL)
            _exit(99);
    if (depth != 0)
        _exit(fault(99, "the context is still current", ""));
    return SUCCESS;
}

int cuCtxPushCurrent_v2(void *context)
{
    depth += context != NULL;
    return context && retained ? SUCCESS : INVALID_CONTEXT;
}

int cuCtxPopCurrent_v2(void **context)
{
    *context = pool;
    return depth-- > 0 ? SUCCESS : INVALID_CONTEXT;
}

/* --- modules --- */

static uint64_t hash(const char *text)
{
    uint64_t h = 14695981039346656037u;
    for (; *text; text++)
        h = (h ^ (unsigned char)*text) * 1099511628211u;
    return h;
}

static void *compile(const char *text)
{
    const char *compiler = getenv("REMAT_DOUBLE_COMPILER"), *cache = getenv("REMAT_DOUBLE_CACHE");
    char library[512], mine[600], command[4096];
    snprintf(library, sizeof library, "%s/%016llx.so", cache ? cache : "/tmp",
             (unsigned long long)hash(text));
    void *handle = cache ? dlopen(library, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (handle)
        return handle;
    snprintf(mine, sizeof mine, "%s.%d", library, (int)getpid());
    snprintf(command, sizeof command,
             "%s -x c -std=c11 -O1 -w -fPIC -shared -ffp-contract=off -fno-math-errno -include "
             "%s/primitives.h -o %s -",
             compiler ? compiler : "cc", EMULATOR_FOLDER, mine);
    FILE *pipe = popen(command, "w");
    if (!pipe || fputs(text, pipe) < 0 || pclose(pipe) != 0 || rename(mine, library) != 0)
        return NULL;
    handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (!cache)
        unlink(library);
    return handle;
}

int cuModuleLoadData(void **module, const void *image)
{
    int arch = 0, version = 0, length = 0, capability = setting("REMAT_DOUBLE_CAPABILITY", 90);
    NEEDS_CONTEXT
    if (sscanf(image, DOUBLE_CUBIN "%n", &version, &arch, &length) != 2 || length == 0 ||
        version > setting("REMAT_DOUBLE_DRIVER", 13000) / 1000)
        return INVALID_IMAGE;
    if (arch / 10 != capability / 10 || arch > capability)
        return NO_BINARY_FOR_GPU;
    void *library = compile((const char *)image + length);
    if (!library)
        return fault(INVALID_VALUE, "a kernel does not compile: ", dlerror());
    struct object *object = add(MODULE);
    object->library = library;
    object->bytes = 4096;
    *module = object;
    return SUCCESS;
}

int cuModuleUnload(void *handle)
{
    NEEDS_CONTEXT
    return drop(handle, MODULE); /* its functions stay mapped: a late launch would be seen */
}

int cuModuleGetFunction(void **function, void *handle, const char *name)
{
    NEEDS_CONTEXT
    struct object *module = find(handle, MODULE);
    void *address = module ? dlsym(module->library, name) : NULL;
    if (!address)
        return NOT_FOUND;
    struct object *object = add(KERNEL);
    memcpy(&object->kernel, &address, sizeof address);
    *function = object;
    return SUCCESS;
}

int cuFuncSetAttribute(void *function, int attribute, int value)
{
    NEEDS_CONTEXT
    return find(function, KERNEL) && attribute == CUDA_FUNC_MAX_DYNAMIC_SHARED_SIZE_BYTES &&
                   value <= 227 * 1024
               ? SUCCESS
               : INVALID_VALUE;
}

int cuLaunchKernel(void *function, unsigned x, unsigned y, unsigned z, unsigned threads,
                   unsigned threads_y, unsigned threads_z, unsigned shared_bytes, void *stream,
                   void **arguments, void **extra)
{
    struct object *kernel = find(function, KERNEL);
    if (!kernel || x == 0 || y != 1 || z != 1 || threads == 0 || threads > 1024 || threads_y != 1 ||
        threads_z != 1 || extra)
        return fault(INVALID_VALUE, __func__, ": arguments");
    struct operation o = {.type = LAUNCH,
                          .launch = {.kernel = kernel->kernel,
                                     .blocks = x,
                                     .threads = threads,
                                     .shared_bytes = shared_bytes}};
    memcpy(&o.launch.arguments, arguments[0], sizeof o.launch.arguments);
    return enqueue(stream, &o);
}

/* --- streams, events, graphs --- */

static const char *launch(const struct operation *o)
{
    struct emulator_range ranges[64];
    struct emulator_launch launch = {.kernel = o->launch.kernel,
                                     .arguments = o->launch.arguments,
                                     .blocks = o->launch.blocks,
                                     .threads = o->launch.threads,
                                     .shared_bytes = o->launch.shared_bytes,
                                     .ranges = ranges};
    for (struct object *a = objects; a && launch.range_count < 64; a = a->next)
        if (a->kind == ALLOCATION)
            ranges[launch.range_count++] =
                (struct emulator_range){a->begin, a->begin + a->bytes, true, true};
    return emulator_run(emulator, &launch);
}

static const char *perform(const struct operation *o)
{
    clock_ns += o->type == RECORD ? 0 : DOUBLE_OPERATION_NS;
    switch (o->type) {
    case LAUNCH:
        return launch(o);
    case COPY:
        memcpy(o->copy.to, o->copy.from, o->copy.bytes);
        return NULL;
    case SET:
        memset(o->set.to, o->set.byte, o->set.bytes);
        return NULL;
    case RECORD:
        o->event->time_ns = clock_ns;
        return NULL;
    case HOST:
        o->host.run(o->host.data);
        return NULL;
    }
    return "unknown operation";
}

static int drain(struct object *stream)
{
    /* A GPU flushes subnormals; so do kernels compiled with --ftz=true. */
    unsigned state = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr(state | 0x8040u);
    for (size_t i = 0; i < stream->queue.count && !broken; i++) {
        const char *problem = perform(&stream->queue.items[i]);
        if (problem)
            broken = fault(ILLEGAL_ADDRESS, "", problem);
    }
    __builtin_ia32_ldmxcsr(state);
    stream->queue.count = 0;
    return broken;
}

int cuStreamCreate(void **stream, unsigned flags)
{
    NEEDS_CONTEXT(void) flags;
    *stream = add(STREAM);
    return SUCCESS;
}

int cuStreamDestroy_v2(void *handle)
{
    NEEDS_CONTEXT
    struct object *stream = find(handle, STREAM);
    if (!stream || stream->capture)
        return INVALID_VALUE;
    drain(stream);
    return drop(handle, STREAM);
}

int cuStreamSynchronize(void *handle)
{
    NEEDS_CONTEXT
    struct object *stream = find(handle, STREAM);
    if (!stream || stream->capture)
        return fault(CAPTURE_UNSUPPORTED, __func__, " while capturing");
    return drain(stream);
}

int double_enqueue_host(void *stream, void (*run)(const void *data), const void *data, size_t bytes)
{
    struct operation o = {.type = HOST, .host = {.run = run}};
    if (bytes > sizeof o.host.data)
        return INVALID_VALUE;
    memcpy(o.host.data, data, bytes);
    return enqueue(stream, &o);
}

int cuStreamIsCapturing(void *handle, int *state)
{
    NEEDS_CONTEXT
    struct object *stream = find(handle, STREAM);
    *state = stream && stream->capture;
    return stream ? SUCCESS : INVALID_VALUE;
}

int cuStreamBeginCapture_v2(void *handle, int mode)
{
    NEEDS_CONTEXT
    struct object *stream = find(handle, STREAM);
    if (!stream || stream->capture || mode != CUDA_STREAM_CAPTURE_MODE_THREAD_LOCAL)
        return INVALID_VALUE;
    stream->capture = &add(GRAPH)->queue;
    return SUCCESS;
}

int cuStreamEndCapture(void *handle, void **graph)
{
    NEEDS_CONTEXT
    struct object *stream = find(handle, STREAM);
    if (!stream || !stream->capture)
        return INVALID_VALUE;
    *graph = (char *)stream->capture - offsetof(struct object, queue);
    stream->capture = NULL;
    return SUCCESS;
}

int cuGraphInstantiateWithFlags(void **out, void *handle, unsigned long long flags)
{
    NEEDS_CONTEXT
    struct object *graph = find(handle, GRAPH);
    if (!graph || flags)
        return INVALID_VALUE;
    long bytes = setting("REMAT_DOUBLE_GRAPH", 1 << 16);
    if (!double_charge(bytes))
        return CUDA_OUT_OF_MEMORY;
    double_charge(-bytes);
    struct object *executable = add(EXECUTABLE);
    executable->bytes = (size_t)bytes;
    for (size_t i = 0; i < graph->queue.count; i++)
        push(&executable->queue, &graph->queue.items[i]);
    *out = executable;
    return SUCCESS;
}

int cuGraphLaunch(void *handle, void *stream)
{
    const char *log = getenv("REMAT_DOUBLE_LOG");
    struct object *executable = find(handle, EXECUTABLE);
    int result = executable ? SUCCESS : INVALID_VALUE;
    double_charge(setting("REMAT_DOUBLE_LEAK", 0));
    for (size_t i = 0; !result && i < executable->queue.count; i++)
        result = enqueue(stream, &executable->queue.items[i]);
    FILE *file = log && executable ? fopen(log, "a") : NULL;
    if (file) {
        fprintf(file, "graph of %zu\n", executable->queue.count);
        fclose(file);
    }
    return result;
}

int cuGraphDestroy(void *graph)
{
    return drop(graph, GRAPH);
}

int cuGraphExecDestroy(void *executable)
{
    return drop(executable, EXECUTABLE);
}

int cuEventCreate(void **event, unsigned flags)
{
    NEEDS_CONTEXT(void) flags;
    *event = add(EVENT);
    return SUCCESS;
}

int cuEventDestroy_v2(void *event)
{
    return drop(event, EVENT);
}

int cuEventRecord(void *event, void *stream)
{
    struct operation o = {.type = RECORD, .event = find(event, EVENT)};
    if (!o.event)
        return INVALID_VALUE;
    o.event->time_ns = 0;
    return enqueue(stream, &o);
}

int cuEventSynchronize(void *handle)
{
    NEEDS_CONTEXT
    struct object *event = find(handle, EVENT);
    for (struct object *o = objects; o && event && !event->time_ns; o = o->next)
        if (o->kind == STREAM && !o->capture)
            drain(o);
    return broken ? broken : event && event->time_ns ? SUCCESS : NOT_READY;
}

int cuEventElapsedTime(float *ms, void *begin, void *end)
{
    NEEDS_CONTEXT
    struct object *from = find(begin, EVENT), *to = find(end, EVENT);
    if (!from || !to || !from->time_ns || !to->time_ns)
        return NOT_READY;
    *ms = (float)((double)(int64_t)(to->time_ns - from->time_ns) * 1e-6);
    return SUCCESS;
}
