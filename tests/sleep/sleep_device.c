/* SPDX-License-Identifier: Apache-2.0 */
/* The two devices. Neither costs what it does not do: without computation there are no kernels, and
 * only those pages of the arena that something writes. */
#include "clock.h"
#include "device_base.h"
#include "host.h"

#include <sys/mman.h>

struct sleeper {
    struct remat_device base;
    struct remat_device *inner; /* that computes; NULL: nothing does */
    void *mapped;
    struct sleep_rank *rank;
    uint64_t marks_ns[REMAT_DEVICE_MARKS];
};

static struct sleeper *sleeper_of(const struct remat_device *device)
{
    return (struct sleeper *)device;
}

static remat_status present(remat_context *ctx, const struct remat_device_params *params)
{
    (void)ctx, (void)params;
    return REMAT_OK;
}

static uint32_t default_threads(void)
{
    return 1;
}

static void destroy(struct remat_device **device)
{
    if (!*device)
        return;
    struct sleeper *sleeper = sleeper_of(*device);
    if (sleeper->inner)
        sleeper->inner->vtable->destroy(&sleeper->inner);
    if (sleeper->mapped)
        munmap(sleeper->mapped, sleeper->base.memory_bytes);
    remat_device_free(device);
}

static remat_status create(remat_context *ctx, const struct remat_program *program,
                           const struct remat_device_params *params, struct remat_device **out)
{
    remat_status st =
        remat_device_make(ctx, &sleep_device, program, params, sizeof(struct sleeper), out);
    if (st)
        return st;
    (*out)->name = (*out)->arch = "";
    (*out)->memory_bytes = remat_align_up(program->arena_bytes, REMAT_ALIGNMENT) + REMAT_ALIGNMENT;
    return REMAT_OK;
}

static remat_status create_on_cpus(remat_context *ctx, const struct remat_program *program,
                                   const struct remat_device_params *params,
                                   struct remat_device **out)
{
    remat_status st = create(ctx, program, params, out);
    if (st)
        return st;
    (*out)->vtable = &sleep_device_on_cpus;
    st = remat_cpu_device.create(ctx, program, params, &sleeper_of(*out)->inner);
    if (st)
        destroy(out);
    else
        (*out)->memory_bytes = sleeper_of(*out)->inner->memory_bytes;
    return st;
}

static uint64_t no_bytes(const struct remat_device *device)
{
    (void)device;
    return 0;
}

static remat_status bind_memory(struct remat_device *device, void *memory)
{
    struct sleeper *sleeper = sleeper_of(device);
    struct remat_device *inner = sleeper->inner;
    if (inner) {
        remat_status st = inner->vtable->bind(inner, memory);
        device->memory = inner->memory;
        return st;
    }
    if (!memory) {
        sleeper->mapped = memory = mmap(NULL, device->memory_bytes, PROT_READ | PROT_WRITE,
                                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED) {
            sleeper->mapped = NULL;
            return remat_error(device->ctx, REMAT_ERROR_MEMORY, "no address space");
        }
    }
    device->memory = memory;
    return REMAT_OK;
}

static remat_status begin(struct remat_device *device)
{
    struct remat_device *inner = sleeper_of(device)->inner;
    return inner ? inner->vtable->begin(inner) : REMAT_OK;
}

static remat_status end(struct remat_device *device)
{
    struct remat_device *inner = sleeper_of(device)->inner;
    return inner ? inner->vtable->end(inner) : REMAT_OK;
}

static remat_status execute(struct remat_device *device, uint32_t command)
{
    struct sleeper *sleeper = sleeper_of(device);
    struct sleep_rank *rank = sleeper->rank;
    uint64_t begin_ns = sleep_now(rank);
    accesses_begin(rank->accesses, command);
    remat_status st =
        sleeper->inner ? sleeper->inner->vtable->execute(sleeper->inner, command) : REMAT_OK;
    sleep_compute(rank, command, begin_ns);
    accesses_end(rank->accesses, command);
    return st;
}

static remat_status mark(struct remat_device *device, uint32_t slot)
{
    sleeper_of(device)->marks_ns[slot] = remat_now_ns();
    return REMAT_OK;
}

static remat_status elapsed(struct remat_device *device, uint32_t from, uint32_t to, uint64_t *ns)
{
    *ns = sleeper_of(device)->marks_ns[to] - sleeper_of(device)->marks_ns[from];
    return REMAT_OK;
}

static remat_status write_memory(struct remat_device *device, uint64_t offset, const void *data,
                                 uint64_t bytes)
{
    memcpy(device->memory + offset, data, bytes);
    return REMAT_OK;
}

static remat_status read_memory(struct remat_device *device, uint64_t offset, void *data,
                                uint64_t bytes)
{
    memcpy(data, device->memory + offset, bytes);
    return REMAT_OK;
}

#define SLEEP_FUNCTIONS                                                                            \
    .present = present, .default_threads = default_threads, .destroy = destroy,                    \
    .base_bytes = no_bytes, .thread_bytes = no_bytes, .bind = bind_memory, .begin = begin,         \
    .execute = execute, .end = end, .mark = mark, .elapsed = elapsed, .write = write_memory,       \
    .read = read_memory

const struct remat_device_vtable sleep_device = {
    .name = SLEEP_DEVICE, .create = create, SLEEP_FUNCTIONS};
const struct remat_device_vtable sleep_device_on_cpus = {
    .name = SLEEP_DEVICE_ON_CPUS, .create = create_on_cpus, SLEEP_FUNCTIONS};

void sleep_device_attach(struct remat_device *device, struct sleep_rank *rank)
{
    sleeper_of(device)->rank = rank;
    rank->computes = sleeper_of(device)->inner != NULL;
}

/* The linker puts it in the place of the product's (--wrap). */
const struct remat_device_vtable *__real_remat_device_find(const char *name);
const struct remat_device_vtable *__wrap_remat_device_find(const char *name);
const struct remat_device_vtable *__wrap_remat_device_find(const char *name)
{
    return strcmp(name, SLEEP_DEVICE) == 0           ? &sleep_device
           : strcmp(name, SLEEP_DEVICE_ON_CPUS) == 0 ? &sleep_device_on_cpus
                                                     : __real_remat_device_find(name);
}
