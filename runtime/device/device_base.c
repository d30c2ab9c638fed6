/* SPDX-License-Identifier: Apache-2.0 */
#include "device_base.h"

#include <assert.h>

remat_status remat_device_make(remat_context *ctx, const struct remat_device_vtable *vtable,
                               const struct remat_program *program,
                               const struct remat_device_params *params, size_t bytes,
                               struct remat_device **out)
{
    assert(bytes >= sizeof(struct remat_device));
    struct remat_device *device = *out = remat_reallocate(ctx, NULL, bytes);
    if (!device)
        return REMAT_ERROR_MEMORY;
    memset(device, 0, bytes);
    device->vtable = vtable;
    device->ctx = ctx;
    device->program = program;
    device->params = *params;
    remat_arena_init(&device->arena, ctx);
    return REMAT_OK;
}

void remat_device_free(struct remat_device **device)
{
    remat_arena_release(&(*device)->arena);
    remat_reallocate((*device)->ctx, *device, 0);
    *device = NULL;
}

remat_status remat_device_add_scratch(struct remat_device *device, uint64_t threads,
                                      uint64_t bytes_of_each)
{
    uint64_t scratch, total;
    if (!remat_mul_u64(threads, bytes_of_each, &scratch) ||
        !remat_add_u64(device->program->arena_bytes, scratch, &device->memory_bytes) ||
        !remat_add_u64(device->memory_bytes, REMAT_ALIGNMENT, &total))
        return remat_error(device->ctx, REMAT_ERROR_MEMORY,
                           "out of memory: an arena of %llu bytes and %llu times %llu bytes of "
                           "scratch",
                           (unsigned long long)device->program->arena_bytes,
                           (unsigned long long)threads, (unsigned long long)bytes_of_each);
    return REMAT_OK;
}
