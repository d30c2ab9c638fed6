/* SPDX-License-Identifier: Apache-2.0 */
#include "compiled.h"

#include "cubins.h"
#include "cuda_files.h"

struct code_job { /* arguments of a guarded call */
    remat_compiled *c;
    remat_cubins_spec *cubins;
    const remat_code_file **files;
    uint32_t *count;
};

static remat_status make_cubins(void *user)
{
    const struct code_job *job = user;
    remat_compiled *c = job->c;
    remat_cubins_spec spec;
    remat_handle_take(job->cubins, sizeof spec, &spec);
    REMAT_CHECK(remat_cubins_add(c->handle.ctx, &c->handle.arena, &c->planned.asked,
                                 &c->planned.settings.device, &spec, c->planned.program));
    remat_handle_give(&spec, sizeof spec, job->cubins);
    return REMAT_OK;
}

remat_status remat_compiled_make_cubins(remat_context *ctx, remat_compiled *c,
                                        remat_cubins_spec *cubins)
{
    struct code_job job = {.c = c, .cubins = cubins};
    REMAT_CHECK(remat_check_planned(ctx, c));
    if (c->data)
        return remat_error(ctx, REMAT_ERROR_USAGE, "cubins come before the plan's bytes");
    return remat_guard(c->handle.ctx, make_cubins, &job);
}

static remat_status list_code(void *user)
{
    const struct code_job *job = user;
    return remat_cuda_files(&job->c->handle.arena, job->c->planned.program, job->files, job->count);
}

remat_status remat_compiled_code(remat_context *ctx, remat_compiled *c, const remat_code_file **out,
                                 uint32_t *out_count)
{
    struct code_job job = {.c = c, .files = out, .count = out_count};
    REMAT_CHECK(remat_check_planned(ctx, c));
    return remat_guard(c->handle.ctx, list_code, &job);
}
