/* SPDX-License-Identifier: Apache-2.0 */
#include "cubins_option.h"

#include "cubins.h"
#include "file.h"
#include "notes.h"
#include "options.h"
#include "size.h"
#include "watch.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define THREADS_MAX 64

/* NULL: none are wanted. */
static const char *wanted(const struct cli_arguments *args,
                          const struct remat_device_description *target)
{
    const char *list = cli_text(args, OPTION_arch, target->cuda_arch);
    return list && strcmp(list, "none") != 0 ? list : NULL;
}

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

remat_status cubins_check(remat_context *ctx, const struct cli_arguments *args,
                          const struct remat_device_description *target)
{
    bool cache = cli_has(args, OPTION_cache);
    if ((cache || cli_has(args, OPTION_nvrtc)) && !wanted(args, target))
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

static remat_status make_folders(remat_context *ctx, struct remat_arena *arena, const char *path)
{
    char *copy = remat_arena_string(arena, path, strlen(path));
    if (!copy)
        return REMAT_ERROR_MEMORY;
    for (char *slash = strchr(copy + (*copy == '/'), '/');; slash = strchr(slash + 1, '/')) {
        if (slash)
            *slash = 0;
        if (mkdir(copy, 0777) != 0 && errno != EEXIST)
            return remat_file_error(ctx, path, "", errno);
        if (!slash)
            return REMAT_OK;
        *slash = '/';
    }
}

/* `*out` NULL: nothing is kept. */
static remat_status open_cache(remat_context *ctx, struct remat_arena *arena,
                               const struct cli_arguments *args, const char **out)
{
    remat_status st = REMAT_OK;
    const char *given = cli_text(args, OPTION_cache, NULL), *path = given;
    const char *folder = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    *out = NULL;
    if (given && strcmp(given, "none") == 0)
        return REMAT_OK;
    if (!given && folder && *folder)
        path = remat_arena_format(arena, "%s/remat", folder);
    else if (!given && home && *home)
        path = remat_arena_format(arena, "%s/.cache/remat", home);
    else if (!given)
        return REMAT_OK;
    if (!path)
        return REMAT_ERROR_MEMORY;
    st = make_folders(ctx, arena, path);
    if (st == REMAT_OK)
        *out = path;
    else if (!given && st == REMAT_ERROR_IO) {
        remat_log(ctx, REMAT_SEVERITY_WARNING, "%s; cubins are not kept",
                  remat_context_message(ctx));
        st = REMAT_OK;
    }
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
    if (processors > 1)
        settings.threads = processors < THREADS_MAX ? (uint32_t)processors : THREADS_MAX;
    REMAT_TRY(open_cache(ctx, arena, args, &settings.cache));
    REMAT_TRY(cli_watch_start(ctx, NULL, &compilation.watch));
    REMAT_TRY(remat_cubins_make(ctx, arena, nvrtc, &settings, &program->cuda, &counts));
    if (cli_has(args, OPTION_verbose))
        fprintf(stderr, "%-20s %s elapsed, %" PRIu32 " compiled, %" PRIu32 " from the cache\n",
                "cubins", cli_time(now_ns() - begin).text, counts.compiled, counts.cached);
    if (counts.cut_short)
        REMAT_TRY(notes_add(arena, program, "no cubins: interrupted while they were compiled"));
    if (counts.unwritten)
        remat_log(ctx, REMAT_SEVERITY_WARNING, "%s; cubins are not kept", counts.unwritten);
fail:
    return st;
}

remat_status cubins_add(remat_context *ctx, struct remat_arena *arena,
                        const struct cli_arguments *args,
                        const struct remat_device_description *target,
                        struct remat_program *program)
{
    remat_status st = REMAT_OK;
    struct remat_nvrtc *nvrtc = NULL;
    const char **architectures, *list = wanted(args, target);
    bool given = cli_has(args, OPTION_arch);
    if (!list || program->cuda.kernel_count == 0)
        return REMAT_OK;
    if (!given && strtol(list + 3, NULL, 10) < REMAT_LEAST_ARCH)
        return notes_add(arena, program, "no cubins: %s is %s, and kernels need sm_%d",
                         target->name, list, REMAT_LEAST_ARCH);
    REMAT_TRY(split(arena, list, &architectures));
    st = remat_nvrtc_open(ctx, cli_text(args, OPTION_nvrtc, NULL), 0, &nvrtc);
    if (st == REMAT_OK && !given)
        st = remat_nvrtc_check(nvrtc, list);
    if (st == REMAT_OK)
        st = make(ctx, arena, args, nvrtc, architectures, program);
    else if (!given && st != REMAT_ERROR_MEMORY && !cli_has(args, OPTION_nvrtc))
        st = notes_add(arena, program, "no cubins: %s", remat_context_message(ctx));
fail:
    remat_nvrtc_close(&nvrtc);
    return st;
}
