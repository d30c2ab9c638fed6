/* SPDX-License-Identifier: Apache-2.0 */
/* Engines by name. ENGINES, from meson.build, names the kinds. */
#include "comm.h"

#include <assert.h>

#define ENGINE(name) extern const struct comm_kind comm_kind_##name;
ENGINES
#undef ENGINE

static const struct comm_kind *const kinds[] = {
#define ENGINE(name) &comm_kind_##name,
    ENGINES
#undef ENGINE
};
enum { KINDS = sizeof kinds / sizeof *kinds };

struct remat_engines {
    remat_context *ctx;
    const struct comm_kind *kind;
    void *opened;
};

int remat_engine_kind_at(uint32_t index, remat_engine_kind *out)
{
    size_t bytes = out->struct_size;
    if (index >= KINDS)
        return 0;
    memcpy(out, &kinds[index]->kind, bytes < sizeof *out ? bytes : sizeof *out);
    out->struct_size = bytes;
    return 1;
}

static const struct comm_kind *find_kind(const char *name)
{
    for (size_t k = 0; k < KINDS; k++)
        if (strcmp(kinds[k]->kind.name, name) == 0)
            return kinds[k];
    return NULL;
}

remat_status remat_engines_open(remat_context *ctx, const remat_engines_params *params,
                                remat_engines **out)
{
    *out = NULL;
    if (params->struct_size < sizeof *params)
        return remat_error(ctx, REMAT_ERROR_USAGE, "parameters of %zu bytes, expected %zu",
                           params->struct_size, sizeof *params);
    const struct comm_kind *kind = find_kind(params->kind);
    if (!kind)
        return remat_error(ctx, REMAT_ERROR_USAGE, "there is no engine \"%s\"", params->kind);
    remat_engines *engines = remat_reallocate(ctx, NULL, sizeof *engines);
    if (!engines)
        return REMAT_ERROR_MEMORY;
    *engines = (remat_engines){.ctx = ctx, .kind = kind};
    remat_status st = kind->open(ctx, params, &engines->opened);
    if (st)
        remat_reallocate(ctx, engines, 0);
    else
        *out = engines;
    return st;
}

void remat_engines_get(remat_engines *engines, uint32_t rank, remat_engine *out)
{
    assert(engines);
    engines->kind->get(engines->opened, rank, out);
}

uint64_t remat_engines_device_bytes(const remat_engines *engines, uint32_t rank)
{
    return engines->kind->device_bytes ? engines->kind->device_bytes(engines->opened, rank) : 0;
}

remat_status remat_engines_finish(remat_engines *engines)
{
    return engines->kind->finish ? engines->kind->finish(engines->opened) : REMAT_OK;
}

void remat_engines_close(remat_engines **engines)
{
    remat_engines *all = *engines;
    if (!all)
        return;
    all->kind->close(all->opened);
    remat_reallocate(all->ctx, all, 0);
    *engines = NULL;
}
