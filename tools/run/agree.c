/* SPDX-License-Identifier: Apache-2.0 */
#include "agree.h"

#include "options.h"
#include "tool.h"

#include <dlfcn.h>
#include <stdlib.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

static const char *const subjects[] = {"plan", "build of remat", "set of options, or other data,",
                                       "file of --init", "checkpoint of --resume"};
enum { PLAN, BUILD, SETTINGS, INIT, RESUME, SUBJECTS };

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

static uint64_t hash_text(const char *text, uint64_t seed)
{
    return text ? XXH64(text, strlen(text) + 1, seed) : seed + 1;
}

static uint64_t hash_settings(const struct cli_arguments *args, const struct train_settings *s)
{
    uint64_t numbers[] = {s->steps,
                          s->gradients_step,
                          s->seed,
                          s->resumed,
                          s->every,
                          s->rows.count,
                          s->data_hash,
                          s->input_hash,
                          s->schedule.kind,
                          s->schedule.warmup,
                          s->schedule.steps,
                          s->eval,
                          s->eval_every,
                          s->eval_steps,
                          s->eval_rows.count,
                          s->eval_hash,
                          s->hash || s->json,
                          s->gradients_path != NULL,
                          s->initial_path != NULL,
                          s->weights_path != NULL,
                          s->checkpoint != NULL,
                          cli_has(args, OPTION_trace),
                          cli_has(args, OPTION_cuda_graph),
                          cli_has(args, OPTION_profile)};
    const double rates[] = {s->schedule.lr, s->schedule.min_lr};
    uint64_t hash = XXH64(rates, sizeof rates, XXH64(numbers, sizeof numbers, 0));
    hash = hash_text(cli_text(args, OPTION_device, NULL), hash);
    return hash_text(cli_text(args, OPTION_engine, NULL), hash);
}

/* Of each tensor the name, dtype, shape and the first bytes. */
static remat_status hash_tensors(remat_context *ctx, const struct safetensors_file *file,
                                 uint64_t *out)
{
    char begin[64];
    remat_status st = REMAT_OK;
    for (uint32_t i = 0; i < file->count && st == REMAT_OK; i++) {
        const struct safetensors_tensor *t = &file->tensors[i];
        uint64_t bytes = t->bytes < sizeof begin ? t->bytes : sizeof begin;
        st = safetensors_read_part(ctx, file, t, 0, begin, bytes);
        *out = hash_text(t->dtype, hash_text(t->name, *out));
        *out = XXH64(begin, bytes, XXH64(t->shape, t->rank * sizeof *t->shape, *out));
    }
    return st;
}

static remat_status hash_beginning(remat_context *ctx, const struct beginning *from, uint64_t *out)
{
    remat_status st = REMAT_OK;
    for (uint32_t i = 0; i < from->weights.count; i++)
        RUN_TRY(hash_tensors(ctx, &from->weights.files[i].file, &out[INIT]));
    if (from->checkpoint.path)
        RUN_TRY(hash_tensors(ctx, &from->checkpoint.file, &out[RESUME]));
fail:
    return st;
}

remat_status agree(remat_context *ctx, const struct cli_arguments *args,
                   const struct train_settings *settings, const struct beginning *from)
{
    remat_status st = REMAT_OK;
    struct ranks *ranks = settings->ranks;
    uint64_t mine[SUBJECTS] = {0}, *all = NULL;
    if (!ranks || ranks_here(ranks) == ranks_count(ranks) || !ranks_have_met(ranks))
        return REMAT_OK;
    all = calloc(ranks_count(ranks), sizeof mine);
    if (!all)
        RUN_FAIL(ctx, REMAT_ERROR_MEMORY, "out of memory");
    RUN_TRY(hash_file(ctx, args->operands[0], &mine[PLAN]));
    RUN_TRY(hash_build(ctx, &mine[BUILD]));
    mine[SETTINGS] = hash_settings(args, settings);
    RUN_TRY(hash_beginning(ctx, from, mine));
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
