/* SPDX-License-Identifier: Apache-2.0 */
#include "tokens.h"

#include "file_part.h"
#include "tool.h"

#define PART_BYTES   4096u
#define HEADER_BYTES 1024u
#define LEAST_LOOK   64u /* ids from which it shows that every second one is zero */

static const struct format { /* of llm.c */
    uint32_t magic, version, id_bytes;
} formats[] = {{20240520, 1, 2}, {20240801, 7, 4}};
/* Its files of other kinds have dates of that year for numbers too. As two ids they are 308 after
 * one from 55013 on, which GPT-2's vocabulary does not have. */
enum { FIRST_DATE = 20240101, LAST_DATE = 20241231 };

static const struct other { /* what else people keep ids in */
    const char *begin, *what;
} others[] = {{"\x93NUMPY", "a NumPy array with a header: write its ids with tofile()"},
              {"PAR1", "Parquet"},
              {"PK\x03\x04", "a zip archive"}};

static uint32_t word_at(const unsigned char *bytes)
{
    return bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

static remat_status read_header(remat_context *ctx, const unsigned char *begin,
                                const struct format *format, struct token_file *file)
{
    uint32_t version = word_at(begin + 4), count = word_at(begin + 8);
    if (version != format->version)
        return cli_error(ctx, REMAT_ERROR_INVALID,
                         "%s: version %u of llm.c's token files with magic %u (accepted: %u)",
                         file->path, version, format->magic, format->version);
    if (file->bytes < HEADER_BYTES)
        return cli_error(ctx, REMAT_ERROR_INVALID, "%s: cut off: %llu bytes, its header has %u",
                         file->path, (unsigned long long)file->bytes, HEADER_BYTES);
    file->begin_bytes = HEADER_BYTES;
    file->id_bytes = format->id_bytes;
    file->count = count;
    if (count > INT32_MAX || file->bytes != HEADER_BYTES + count * file->id_bytes)
        return cli_error(ctx, REMAT_ERROR_INVALID,
                         "%s: its header says %d ids of %llu bytes, and %llu bytes follow it",
                         file->path, (int32_t)count, (unsigned long long)file->id_bytes,
                         (unsigned long long)(file->bytes - HEADER_BYTES));
    return REMAT_OK;
}

/* Ids that are all below 65536, in four bytes each: half of what is read as two bytes is zero. */
static bool looks_wider(const unsigned char *ids, uint64_t bytes)
{
    unsigned char even = 0, odd = 0;
    for (uint64_t i = 0; i + 4 <= bytes; i += 4) {
        even |= ids[i] | ids[i + 1];
        odd |= ids[i + 2] | ids[i + 3];
    }
    return bytes >= 2 * (uint64_t)LEAST_LOOK && even && !odd;
}

static remat_status measure_plain(remat_context *ctx, const unsigned char *begin, uint64_t bytes,
                                  int64_t vocabulary, struct token_file *file)
{
    bool narrow = vocabulary <= UINT16_MAX + 1 || vocabulary == INT64_MAX;
    file->id_bytes = narrow ? 2 : 4;
    file->count = file->bytes / file->id_bytes;
    if (file->bytes % file->id_bytes)
        return cli_error(ctx, REMAT_ERROR_INVALID,
                         "%s: %llu bytes are no whole number of ids of %llu bytes", file->path,
                         (unsigned long long)file->bytes, (unsigned long long)file->id_bytes);
    if (narrow && looks_wider(begin, bytes))
        return cli_error(ctx, REMAT_ERROR_INVALID,
                         "%s: read as uint16, every second id is 0: write uint16 ids, or uint32 "
                         "ids after llm.c's header",
                         file->path);
    return REMAT_OK;
}

static remat_status measure(remat_context *ctx, int64_t vocabulary, struct token_file *file)
{
    unsigned char begin[PART_BYTES] = {0};
    uint64_t bytes = file->bytes < sizeof begin ? file->bytes : sizeof begin;
    remat_status st = file_read_part(ctx, file->file, file->path, file->bytes, 0, begin, bytes);
    if (st)
        return st;
    uint32_t magic = word_at(begin);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (memcmp(begin, others[i].begin, strlen(others[i].begin)) == 0)
            return cli_error(ctx, REMAT_ERROR_INVALID, "%s: no token ids: %s", file->path,
                             others[i].what);
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (magic == formats[i].magic)
            return read_header(ctx, begin, &formats[i], file);
    if (magic >= FIRST_DATE && magic <= LAST_DATE)
        return cli_error(ctx, REMAT_ERROR_INVALID,
                         "%s: magic %u is of no token file of llm.c (accepted: %u, %u)", file->path,
                         magic, formats[0].magic, formats[1].magic);
    return measure_plain(ctx, begin, bytes, vocabulary, file);
}

remat_status token_file_open(remat_context *ctx, const char *path, int64_t vocabulary,
                             struct token_file *out)
{
    remat_status st = REMAT_OK;
    *out = (struct token_file){.path = path};
    RUN_TRY(cli_open_file(ctx, path, &out->file, &out->bytes));
    RUN_TRY(measure(ctx, vocabulary, out));
    if (out->count == 0)
        RUN_FAIL(ctx, REMAT_ERROR_INVALID, "%s: it has no ids", path);
fail:
    return st;
}

void token_file_close(struct token_file *file)
{
    if (file->file)
        fclose(file->file);
    file->file = NULL;
}

bool token_file_may_exceed(const struct token_file *file, int64_t vocabulary)
{
    return file->id_bytes == 4 || vocabulary <= UINT16_MAX;
}

static remat_status take_ids(remat_context *ctx, const struct token_file *file, int64_t vocabulary,
                             uint64_t first, uint64_t count, const unsigned char *part,
                             int32_t *ids)
{
    int64_t end = vocabulary <= INT32_MAX ? vocabulary : (int64_t)INT32_MAX + 1;
    for (uint64_t i = 0; i < count; i++) {
        const unsigned char *at = part + i * file->id_bytes;
        uint32_t id = file->id_bytes == 2 ? at[0] | (uint32_t)at[1] << 8 : word_at(at);
        if (id >= end)
            return cli_error(ctx, REMAT_ERROR_INVALID,
                             "%s: id %llu is %u, beyond the model's vocabulary of %lld", file->path,
                             (unsigned long long)(first + i), id, (long long)end);
        ids[i] = (int32_t)id;
    }
    return REMAT_OK;
}

remat_status token_file_read(remat_context *ctx, const struct token_file *file, int64_t vocabulary,
                             uint64_t first, uint64_t count, int32_t *ids)
{
    remat_status st = REMAT_OK;
    unsigned char part[PART_BYTES];
    uint64_t most = PART_BYTES / file->id_bytes, end = first + count;
    for (uint64_t got; first < end; first += got, ids += got) {
        got = end - first < most ? end - first : most;
        RUN_TRY(file_read_part(ctx, file->file, file->path, file->bytes,
                               file->begin_bytes + first * file->id_bytes, part,
                               got * file->id_bytes));
        RUN_TRY(take_ids(ctx, file, vocabulary, first, got, part, ids));
    }
fail:
    return st;
}
