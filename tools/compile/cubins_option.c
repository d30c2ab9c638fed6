/* SPDX-License-Identifier: Apache-2.0 */
#include "cubins_option.h"

#include "codegen.h"
#include "cubin_cache.h"
#include "notes.h"
#include "options.h"
#include "size.h"
#include "tool.h"
#include "watch.h"

#include <inttypes.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define THREADS_MAX 64

bool cubins_asked(const struct cli_arguments *args)
{
    return strcmp(cli_text(args, OPTION_arch, "none"), "none") != 0;
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

remat_status cubins_check(remat_context *ctx, const struct cli_arguments *args)
{
    bool cache = cli_has(args, OPTION_cache);
    if ((cache || cli_has(args, OPTION_nvrtc)) && !cubins_asked(args))
        return remat_error(ctx, REMAT_ERROR_USAGE,
                           "--%s is about cubins, and none are made: --arch names architectures",
                           cache ? "cache" : "nvrtc");
    return cubins_asked(args) ? check_list(ctx, cli_text(args, OPTION_arch, "")) : REMAT_OK;
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

/* `folder` "": nothing is kept. */
static remat_status open_cache(remat_context *ctx, const struct cli_arguments *args, char *folder,
                               size_t bytes)
{
    remat_status st = REMAT_OK;
    REMAT_TRY(cli_cache_folder(ctx, cli_text(args, OPTION_cache, NULL), folder, bytes));
    if (*folder)
        st = remat_cubin_cache_open(ctx, folder);
    if (st == REMAT_ERROR_IO && !cli_has(args, OPTION_cache)) {
        remat_log(ctx, REMAT_SEVERITY_WARNING, "%s; cubins are not kept",
                  remat_context_message(ctx));
        *folder = 0;
        st = REMAT_OK;
    }
fail:
    return st;
}

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

struct compilation {
    struct cli_watch watch;
    uint32_t begun, of; /* cubins */
};

static void tell(void *user, double elapsed)
{
    const struct compilation *c = user;
    fprintf(stderr, "remat-compile: %.0f s, cubins: %" PRIu32 " of %" PRIu32 " begun\n", elapsed,
            c->begun, c->of);
}

static bool is_over(void *user, uint32_t begun, uint32_t of)
{
    struct compilation *c = user;
    c->begun = begun;
    c->of = of;
    return cli_watch_over(&c->watch);
}

static remat_status make(remat_context *ctx, struct remat_arena *arena,
                         const struct cli_arguments *args, const struct remat_nvrtc *nvrtc,
                         const char *const *architectures, struct remat_program *program)
{
    remat_status st = REMAT_OK;
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    struct compilation compilation = {.watch = {.tell = tell, .user = &compilation}};
    struct remat_cubin_settings settings = {.architectures = architectures,
                                            .threads = 1,
                                            .is_over = is_over,
                                            .is_over_user = &compilation};
    struct remat_cubin_counts counts;
    uint64_t begin = now_ns();
    char cache[4096];
    if (processors > 1)
        settings.threads = processors < THREADS_MAX ? (uint32_t)processors : THREADS_MAX;
    REMAT_TRY(open_cache(ctx, args, cache, sizeof cache));
    settings.cache = *cache ? cache : NULL;
    REMAT_TRY(cli_watch_start(ctx, NULL, &compilation.watch));
    REMAT_TRY(remat_cubins_make(ctx, arena, nvrtc, &settings, &program->cuda, &counts));
    if (cli_has(args, OPTION_verbose))
        fprintf(stderr, "%-20s %s elapsed, %" PRIu32 " compiled, %" PRIu32 " from the cache\n",
                "cubins", remat_time_text(now_ns() - begin).text, counts.compiled, counts.cached);
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

remat_status cubins_add(remat_context *ctx, struct remat_arena *arena,
                        const struct cli_arguments *args,
                        const struct remat_device_description *target,
                        struct remat_program *program)
{
    remat_status st = REMAT_OK;
    struct remat_nvrtc *nvrtc = NULL;
    const char **architectures;
    if (program->cuda.kernel_count == 0)
        return REMAT_OK;
    if (program->plan_only && *program->plan_only)
        return cubins_asked(args)
                   ? remat_notes_add(arena, program, "no cubins: the plan does not run")
                   : REMAT_OK;
    if (!cubins_asked(args))
        return target->cuda_arch && !cli_has(args, OPTION_arch) ? note_text(arena, target, program)
                                                                : REMAT_OK;
    REMAT_TRY(split(arena, cli_text(args, OPTION_arch, ""), &architectures));
    REMAT_TRY(remat_nvrtc_open(ctx, cli_text(args, OPTION_nvrtc, NULL), 0, &nvrtc));
    REMAT_TRY(make(ctx, arena, args, nvrtc, architectures, program));
fail:
    remat_nvrtc_close(&nvrtc);
    return st;
}
