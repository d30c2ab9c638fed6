/* What devices share: the object's life, and where its scratch begins. */
#include "device.h"

remat_status remat_device_make(remat_context *ctx, const struct remat_device_vtable *vtable,
                               const struct remat_program *program,
                               const struct remat_device_params *params, size_t bytes,
                               struct remat_device **out)
{
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

uint64_t remat_device_arena_bytes(const struct remat_device *device)
{
    return remat_align_up(device->program->arena_bytes, REMAT_ALIGNMENT);
}
