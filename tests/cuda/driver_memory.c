/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of libcuda's double: allocations in the pool, copies, and who may access what. */
#include "driver.h"

#define CONTEXT_BYTES (1u << 20) /* what the context is said to take, beside stacks */
#define THREADS       1024       /* that the GPU can hold */
#define GAP_BYTES     4096       /* between allocations: nobody may access it */

static struct object *allocation_of(const char *begin, size_t bytes)
{
    for (struct object *o = driver.objects; o; o = o->next)
        if (o->kind == ALLOCATION && !o->destroyed && o->gpu == driver_gpu() && begin >= o->begin &&
            begin + bytes <= o->begin + o->bytes)
            return o;
    return NULL;
}

void double_check(const void *begin, size_t bytes, const char *what)
{
    LOCKED
    if (bytes && !allocation_of(begin, bytes))
        driver_end(DOUBLE_OUTSIDE, what, "outside live allocations");
}

static size_t used_bytes(void)
{
    const struct gpu *gpu = driver_gpu();
    size_t context = gpu->retained ? CONTEXT_BYTES + gpu->stack_bytes * THREADS : 0;
    size_t bytes = context + (size_t)gpu->charged;
    for (struct object *o = driver.objects; o; o = o->next)
        bytes += o->destroyed || o->gpu != gpu ? 0 : o->bytes;
    return bytes;
}

bool double_charge(long bytes)
{
    LOCKED
    if (bytes > (long)(driver.pool_bytes - used_bytes()))
        return false;
    driver_gpu()->charged += bytes;
    return true;
}

int cuMemGetInfo_v2(size_t *available, size_t *total)
{
    NEEDS_CONTEXT
    *total = driver.pool_bytes;
    *available = driver.pool_bytes - used_bytes();
    return SUCCESS;
}

static bool says(const char *what, uint64_t address, size_t bytes)
{
    return driver_only_says("%s %llx %llu\n", what, (unsigned long long)address,
                            (unsigned long long)bytes);
}

int cuMemAlloc_v2(uint64_t *out, size_t bytes)
{
    NEEDS_NO_CAPTURE
    struct gpu *gpu = driver_gpu();
    size_t taken = (bytes + GAP_BYTES + 255) / 256 * 256;
    if (bytes == 0 || bytes > driver.pool_bytes - used_bytes() ||
        gpu->pool_used + taken > 2 * driver.pool_bytes)
        return bytes ? CUDA_OUT_OF_MEMORY : INVALID_VALUE;
    struct object *object = driver_add(ALLOCATION);
    object->begin = gpu->pool + gpu->pool_used;
    object->bytes = bytes;
    gpu->pool_used += taken;
    if (!says("allocation", (uintptr_t)object->begin, bytes))
        memset(object->begin, 0xff, bytes);
    *out = (uintptr_t)object->begin;
    return SUCCESS;
}

int cuMemFree_v2(uint64_t address)
{
    NEEDS_NO_CAPTURE
    struct object *o = driver.objects;
    while (o && !(o->kind == ALLOCATION && (uintptr_t)o->begin == address))
        o = o->next;
    driver_refuse_transfers(NULL, __func__);
    return driver_drop(o, ALLOCATION, __func__);
}

int cuMemsetD8Async(uint64_t address, unsigned char byte, size_t bytes, void *stream)
{
    LOCKED
    struct operation o = {.type = SET, .set = {(void *)(uintptr_t)address, byte, bytes}};
    double_check(o.set.to, bytes, __func__);
    return says("fill", address, bytes) ? SUCCESS : driver_enqueue(stream, &o, __func__);
}

int cuMemsetD32Async(uint64_t address, unsigned word, size_t count, void *stream)
{
    LOCKED
    struct operation o = {.type = SET_WORDS, .words = {(void *)(uintptr_t)address, word, count}};
    double_check(o.words.to, count * sizeof word, __func__);
    return says("set", address, word) ? SUCCESS : driver_enqueue(stream, &o, __func__);
}

/* Of memory of the host that is not pinned, this and the next wait for what is on the stream. */
int cuMemcpyHtoDAsync_v2(uint64_t address, const void *from, size_t bytes, void *stream)
{
    LOCKED
    struct operation o = {.type = COPY, .copy = {(void *)(uintptr_t)address, from, bytes}};
    driver_refuse_transfers(driver_stream(stream, __func__), __func__);
    double_check(o.copy.to, bytes, __func__);
    return says("write", address, bytes) ? SUCCESS : driver_enqueue(stream, &o, __func__);
}

int cuMemcpyDtoHAsync_v2(void *to, uint64_t address, size_t bytes, void *stream)
{
    LOCKED
    struct operation o = {.type = COPY, .copy = {to, (const void *)(uintptr_t)address, bytes}};
    driver_refuse_transfers(driver_stream(stream, __func__), __func__);
    double_check(o.copy.from, bytes, __func__);
    return says("read", address, bytes) ? SUCCESS : driver_enqueue(stream, &o, __func__);
}

/* Of tests alone; remat copies by kernels. */
EXPORT int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void *stream);
int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void *stream)
{
    LOCKED
    struct operation o = {.type = COPY,
                          .copy = {(void *)(uintptr_t)to, (const void *)(uintptr_t)from, bytes}};
    double_check(o.copy.to, bytes, __func__);
    double_check(o.copy.from, bytes, __func__);
    return driver_enqueue(stream, &o, __func__);
}
