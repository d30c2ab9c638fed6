/* SPDX-License-Identifier: Apache-2.0 */
#include "cubins.h"

#include "codegen.h"
#include "cubin_cache.h"
#include "notes.h"

#include <stdlib.h>

bool remat_cubins_asked(const struct remat_asked *asked)
{
    return strcmp(remat_asked_text(asked, "arch", "none"), "none") != 0;
}

/* "sm_80,sm_90": nothing empty and no spaces. Which there are, NVRTC knows. */
static remat_status check_list(remat_context *ctx, const char *list)
{
    size_t length = strcspn(list, ",");
    for (const char *at = list;; at += length + 1, length = strcspn(at, ",")) {
        if (length == 0 || strcspn(at, " \t") < length)
            return remat_error(ctx, REMAT_ERROR_USAGE,
                               "--arch \"%s\": '%.*s' is no architecture: a list is written as "
                               "sm_80,sm_90",
                               list, (int)length, at);
        if (!at[length])
            return REMAT_OK;
    }
}

remat_status remat_cubins_check(remat_context *ctx, const struct remat_asked *asked)
{
    bool cache = remat_asks(asked, "cache");
    if ((cache || remat_asks(asked, "nvrtc")) && !remat_cubins_asked(asked))
        return remat_error(ctx, REMAT_ERROR_USAGE,
                           "--%s is about cubins, and none are made: --arch names architectures",
                           cache ? "cache" : "nvrtc");
    return remat_cubins_asked(asked) ? check_list(ctx, remat_asked_text(asked, "arch", ""))
                                     : REMAT_OK;
}

/* "sm_80,sm_90" as an array that NULL ends. */
static remat_status split(struct remat_arena *arena, const char *list, const char ***out)
{
    remat_status st = REMAT_OK;
    uint32_t count = 0;
    REMAT_TRY_NEW(arena, *out, strlen(list) + 2);
    while (*list) {
        size_t length = strcspn(list, ",");
        if (!((*out)[count++] = remat_arena_string(arena, list, length)))
            return REMAT_ERROR_MEMORY;
        list += length + (list[length] == ',');
    }
fail:
    return st;
}

static remat_status make(remat_context *ctx, struct remat_arena *arena,
                         const struct remat_nvrtc *nvrtc, const char *const *architectures,
                         remat_cubins_spec *spec, struct remat_program *program)
{
    remat_status st = REMAT_OK;
    struct remat_cubin_settings settings = {.architectures = architectures,
                                            .threads = spec->threads,
                                            .is_over = spec->is_over,
                                            .is_over_user = spec->user};
    struct remat_cubin_counts counts;
    if (spec->cache) {
        st = remat_cubin_cache_open(ctx, spec->cache);
        settings.cache = st == REMAT_OK ? spec->cache : NULL;
    }
    if (st == REMAT_ERROR_IO && !spec->needs_cache) {
        remat_log(ctx, REMAT_SEVERITY_WARNING, "%s; cubins are not kept",
                  remat_context_message(ctx));
        st = REMAT_OK;
    }
    REMAT_TRY(st);
    REMAT_TRY(remat_cubins_make(ctx, arena, nvrtc, &settings, &program->cuda, &counts));
    spec->compiled_count = counts.compiled;
    spec->cached_count = counts.cached;
    if (counts.cut_short)
        REMAT_TRY(
            remat_notes_add(arena, program, "no cubins: interrupted while they were compiled"));
    if (counts.unwritten)
        remat_log(ctx, REMAT_SEVERITY_WARNING, "%s; cubins are not kept", counts.unwritten);
fail:
    return st;
}

/* What becomes of a GPU's plan that has text alone. */
static remat_status note_text(struct remat_arena *arena,
                              const struct remat_device_description *target,
                              struct remat_program *program)
{
    const char *arch = target->cuda_arch;
    if (strtol(arch + 3, NULL, 10) < REMAT_LEAST_ARCH)
        return remat_notes_add(arena, program, "no cubins: %s is %s, and kernels need sm_%d",
                               target->name, arch, REMAT_LEAST_ARCH);
    return remat_notes_add(
        arena, program,
        "no cubins: kernels are compiled at the first run, and kept; --arch %s makes "
        "them now",
        arch);
}

remat_status remat_cubins_add(remat_context *ctx, struct remat_arena *arena,
                              const struct remat_asked *asked,
                              const struct remat_device_description *target,
                              remat_cubins_spec *spec, struct remat_program *program)
{
    remat_status st = REMAT_OK;
    struct remat_nvrtc *nvrtc = NULL;
    const char **architectures;
    if (program->cuda.kernel_count == 0)
        return REMAT_OK;
    if (program->plan_only && *program->plan_only)
        return remat_cubins_asked(asked)
                   ? remat_notes_add(arena, program, "no cubins: the plan does not run")
                   : REMAT_OK;
    if (!remat_cubins_asked(asked))
        return target->cuda_arch && !remat_asks(asked, "arch") ? note_text(arena, target, program)
                                                               : REMAT_OK;
    REMAT_TRY(split(arena, remat_asked_text(asked, "arch", ""), &architectures));
    REMAT_TRY(remat_nvrtc_open(ctx, remat_asked_text(asked, "nvrtc", NULL), 0, &nvrtc));
    REMAT_TRY(make(ctx, arena, nvrtc, architectures, spec, program));
fail:
    remat_nvrtc_close(&nvrtc);
    return st;
}
