/* SPDX-License-Identifier: Apache-2.0 */
#include "data.h"

#include "file_part.h"
#include "shuffle.h"

#include <assert.h>
#include <stdlib.h>
#include <sys/resource.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

enum { CHECKED = 1024, HASHED_BYTES = 4096, OTHER_FILES = 64 };

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* --- of token files: sequences --- */

static bool is_masked(const struct model *model)
{
    return model->feeding == FEED_MASKED;
}

/* From one to the next. */
static uint64_t stride(const struct model *model)
{
    return model->source_seq + model->seq;
}

/* Ids that one has. */
static uint64_t span(const struct model *model)
{
    return stride(model) + !is_masked(model);
}

/* --- opening --- */

remat_status data_open_text(remat_context *ctx, const char *path, const struct model *model,
                            struct data *out)
{
    out->model = model;
    return text_open(ctx, path, model->vocabulary, &out->text);
}

remat_status data_draw(remat_context *ctx, const struct model *model, struct data *out)
{
    if (model->vocabulary > INT32_MAX)
        return cli_error(ctx, REMAT_ERROR_INVALID,
                         "--ids: the plan does not say how many ids its inputs accept: train on a "
                         "--text");
    out->model = model;
    text_draw(model->vocabulary, &out->text);
    return REMAT_OK;
}

/* Each stays open: what replaces it later is another file. */
static void allow_files(uint32_t count)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max &&
        limit.rlim_cur < (rlim_t)count + OTHER_FILES) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
}

remat_status data_open_tokens(remat_context *ctx, const char *const *paths, uint32_t count,
                              const struct model *model, struct data *out)
{
    remat_status st = REMAT_OK;
    out->model = model;
    out->files = calloc(count + 1, sizeof *out->files); /* with an end for data_release */
    out->ends = calloc(count, sizeof *out->ends);
    if (!out->files || !out->ends)
        RUN_FAIL(ctx, REMAT_ERROR_MEMORY, "out of memory");
    allow_files(count);
    for (; out->file_count < count; out->file_count++) {
        struct token_file *file = &out->files[out->file_count];
        uint64_t before = out->file_count ? out->ends[out->file_count - 1] : 0;
        RUN_TRY(token_file_open(ctx, paths[out->file_count], model->vocabulary, file));
        if (file->count < span(model))
            RUN_FAIL(ctx, REMAT_ERROR_INVALID, "%s: %llu ids, and a sequence of the plan has %llu",
                     file->path, (unsigned long long)file->count, (unsigned long long)span(model));
        out->ends[out->file_count] =
            before + (file->count - (span(model) - stride(model))) / stride(model);
    }
fail:
    return st;
}

void data_release(struct data *data)
{
    text_release(&data->text);
    for (uint32_t f = 0; data->files && f <= data->file_count; f++)
        token_file_close(&data->files[f]);
    free(data->files);
    free(data->ends);
    *data = (struct data){0};
}

static remat_status hash_file(remat_context *ctx, FILE *file, const char *path, uint64_t total,
                              uint64_t *hash)
{
    char begin[HASHED_BYTES];
    uint64_t bytes = least(total, sizeof begin);
    remat_status st = file_read_part(ctx, file, path, total, 0, begin, bytes);
    *hash = XXH64(begin, bytes, XXH64(&total, sizeof total, *hash));
    return st;
}

remat_status data_hash(remat_context *ctx, const struct data *data, uint64_t *out)
{
    remat_status st = REMAT_OK;
    const struct text *text = &data->text;
    *out = data->file_count;
    if (text->file)
        RUN_TRY(hash_file(ctx, text->file, text->path, text->length, out));
    for (uint32_t f = 0; f < data->file_count; f++)
        RUN_TRY(
            hash_file(ctx, data->files[f].file, data->files[f].path, data->files[f].bytes, out));
fail:
    return st;
}

/* --- parts --- */

struct rows data_rows(const struct data *data)
{
    return (struct rows){.data = data,
                         .count = data->file_count ? data->ends[data->file_count - 1]
                                                   : data->text.length};
}

uint64_t rows_tokens_offset(const struct rows *rows)
{
    const struct model *model = rows->data->model;
    return rows->data->file_count || !model->source_seq ? model->source_seq
                                                        : model->batch * model->seq;
}

/* Ids after the beginning of a text's row that are read with it. */
static uint64_t window_bytes(const struct rows *rows)
{
    const struct model *model = rows->data->model;
    return rows_tokens_offset(rows) + model_longest_row(model) + !is_masked(model);
}

remat_status rows_hold_out(remat_context *ctx, uint64_t count, struct rows *from,
                           struct rows *held_out)
{
    assert(count > 0);
    bool is_text = !from->data->file_count;
    uint64_t held = is_text ? (count - 1) * from->data->model->seq + window_bytes(from) : count;
    if (held >= from->count)
        return cli_error(ctx, REMAT_ERROR_USAGE,
                         "--eval-every: %llu of the %llu %s are to be held out for it: take fewer "
                         "--eval-steps, or --eval-tokens",
                         (unsigned long long)held, (unsigned long long)from->count,
                         is_text ? "bytes" : "sequences");
    *held_out = *from;
    from->count -= held;
    held_out->begin += from->count;
    held_out->count = held;
    return REMAT_OK;
}

/* --- reading --- */

static remat_status read_text(remat_context *ctx, const struct rows *rows, uint64_t row,
                              uint64_t offset, uint64_t count, int32_t *ids)
{
    remat_status st = REMAT_OK;
    uint64_t at = (row * rows->data->model->seq + offset) % rows->count;
    for (uint64_t got; count; count -= got, ids += got, at = 0) {
        got = least(count, rows->count - at);
        RUN_TRY(text_read(ctx, &rows->data->text, rows->begin + at, got, ids));
    }
fail:
    return st;
}

static uint64_t sequence_of(const struct rows *rows, uint64_t row)
{
    uint64_t at = row % rows->count;
    return rows->begin +
           (rows->shuffled ? shuffle(rows->seed, row / rows->count, rows->count, at) : at);
}

static remat_status read_sequence(remat_context *ctx, const struct data *data, uint64_t sequence,
                                  uint64_t offset, uint64_t count, int32_t *ids)
{
    uint32_t low = 0, high = data->file_count - 1; /* the first file that ends after it */
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (data->ends[middle] > sequence)
            high = middle;
        else
            low = middle + 1;
    }
    uint64_t before = low ? data->ends[low - 1] : 0;
    return token_file_read(ctx, &data->files[low], data->model->vocabulary,
                           (sequence - before) * stride(data->model) + offset, count, ids);
}

remat_status rows_read(remat_context *ctx, const struct rows *rows, uint64_t row, uint64_t offset,
                       uint64_t count, int32_t *ids)
{
    return rows->data->file_count
               ? read_sequence(ctx, rows->data, sequence_of(rows, row), offset, count, ids)
               : read_text(ctx, rows, row, offset, count, ids);
}

/* --- before the first step --- */

static remat_status check_text(remat_context *ctx, const struct rows *rows, uint64_t begin,
                               uint64_t end)
{
    remat_status st = REMAT_OK;
    const struct text *text = &rows->data->text;
    uint64_t seq = rows->data->model->seq, from, to;
    int32_t ids[CHECKED];
    if (!text->file || text->vocabulary > UINT8_MAX)
        return REMAT_OK;
    if (__builtin_mul_overflow(begin, seq, &from) || __builtin_mul_overflow(end - 1, seq, &to) ||
        __builtin_add_overflow(to, window_bytes(rows), &to) || to > rows->count) {
        from = 0;
        to = rows->count;
    }
    for (; from < to; from += CHECKED)
        RUN_TRY(text_read(ctx, text, rows->begin + from, least(to - from, CHECKED), ids));
fail:
    return st;
}

static remat_status check_row(remat_context *ctx, const struct rows *rows, uint64_t row)
{
    remat_status st = REMAT_OK;
    uint64_t count = span(rows->data->model);
    int32_t ids[CHECKED];
    for (uint64_t at = 0; at < count; at += CHECKED)
        RUN_TRY(rows_read(ctx, rows, row, at, least(count - at, CHECKED), ids));
fail:
    return st;
}

remat_status rows_check(remat_context *ctx, const struct rows *rows, uint64_t begin, uint64_t end)
{
    assert(begin <= end);
    remat_status st = REMAT_OK;
    struct rows checked = *rows;
    bool needed = false;
    if (!rows->data->file_count)
        return check_text(ctx, rows, begin, end);
    for (uint32_t f = 0; f < rows->data->file_count; f++)
        needed |= token_file_may_exceed(&rows->data->files[f], rows->data->model->vocabulary);
    if (end - begin >= rows->count) { /* all, as they lie on the disk */
        checked.shuffled = false;
        begin = 0;
        end = rows->count;
    }
    for (uint64_t row = begin; row < end && needed; row++)
        RUN_TRY(check_row(ctx, &checked, row));
fail:
    return st;
}
