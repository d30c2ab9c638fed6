/* SPDX-License-Identifier: Apache-2.0 */
#include "agree.h"

#include "tool.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <stdlib.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

static const char *const subjects[] = {"plan", "build of remat", "set of options, or other data,"};
enum { PLAN, BUILD, SETTINGS, SUBJECTS };

static remat_status hash_file(remat_context *ctx, const char *path, uint64_t *out)
{
    remat_status st = REMAT_OK;
    FILE *file = NULL;
    uint64_t bytes;
    char part[4096];
    RUN_TRY(cli_open_file(ctx, path, &file, &bytes));
    *out = bytes;
    for (size_t count; (count = fread(part, 1, sizeof part, file)) > 0;)
        *out = XXH64(part, count, *out);
    if (ferror(file))
        RUN_FAIL(ctx, REMAT_ERROR_IO, "%s: cannot be read", path);
fail:
    if (file)
        fclose(file);
    return st;
}

/* The file that the library's code is in: libremat.so, or a program that it is linked into. */
static remat_status hash_build(remat_context *ctx, uint64_t *out)
{
    Dl_info found;
    void *code;
    remat_status (*const function)(remat_session *, const char *) = remat_session_run;
    memcpy(&code, &function, sizeof code);
    if (!dladdr(code, &found) || !found.dli_fname)
        return cli_error(ctx, REMAT_ERROR_IO, "cannot find the file of libremat");
    return hash_file(ctx, found.dli_fname, out);
}

static uint64_t hash_settings(const struct train_settings *s)
{
    uint64_t numbers[] = {s->steps,
                          s->gradients_step,
                          s->seed,
                          s->resumed,
                          s->every,
                          s->rows.count,
                          s->data_hash,
                          s->schedule.kind,
                          s->schedule.warmup,
                          s->schedule.steps,
                          s->eval,
                          s->eval_every,
                          s->eval_steps,
                          s->eval_rows.count,
                          s->hash || s->json,
                          s->gradients_path != NULL,
                          s->initial_path != NULL,
                          s->weights_path != NULL,
                          s->checkpoint != NULL};
    const double rates[] = {s->schedule.lr, s->schedule.min_lr};
    return XXH64(rates, sizeof rates, XXH64(numbers, sizeof numbers, 0));
}

remat_status agree(remat_context *ctx, struct ranks *ranks, const char *plan_path,
                   const struct train_settings *settings)
{
    remat_status st = REMAT_OK;
    uint64_t mine[SUBJECTS] = {0}, *all = NULL;
    if (!ranks || ranks_here(ranks) == ranks_count(ranks))
        return REMAT_OK;
    all = calloc(ranks_count(ranks), sizeof mine);
    if (!all)
        RUN_FAIL(ctx, REMAT_ERROR_MEMORY, "out of memory");
    RUN_TRY(hash_file(ctx, plan_path, &mine[PLAN]));
    RUN_TRY(hash_build(ctx, &mine[BUILD]));
    mine[SETTINGS] = hash_settings(settings);
    RUN_TRY(ranks_gather(ranks, "plan, build and options", mine, sizeof mine, all));
    for (uint32_t r = 1; r < ranks_count(ranks); r++)
        for (int i = 0; i < SUBJECTS; i++)
            if (all[r * SUBJECTS + i] != all[i])
                RUN_FAIL(ctx, REMAT_ERROR_USAGE, "rank %" PRIu32 " has another %s than rank 0", r,
                         subjects[i]);
fail:
    free(all);
    return st;
}
