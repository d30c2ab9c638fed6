/* SPDX-License-Identifier: Apache-2.0 */
#include "tokens.h"

#include "file_part.h"
#include "known_file.h"
#include "tool.h"

#include <assert.h>

#define PART_BYTES    4096u
#define HEADER_BYTES  1024u
#define LEAST_ASCII   128u /* bytes from which a text shows */
#define LEAST_TEXT    512u
#define LEAST_LETTERS 8u  /* not a few ids again and again */
#define LEAST_ROWS    64u /* ids, not 0, from which it shows that they have twice the size */

static const struct token_format { /* of llm.c */
    uint32_t magic, version, id_bytes;
} formats[] = {{20240520, 1, 2}, {20240801, 7, 4}};
/* Its files of other kinds have dates of that year for numbers too. As two ids they are 308 after
 * one from 55013 on, which GPT-2's vocabulary does not have. */
enum { FIRST_DATE = 20240101, LAST_DATE = 20241231 };

static uint32_t word_at(const unsigned char *bytes)
{
    return bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

static remat_status read_header(remat_context *ctx, const unsigned char *begin,
                                const struct token_format *format, struct token_file *file)
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

/* --- the beginning, the middle and the end --- */

enum { WINDOWS = 3 };
struct window {
    uint64_t first, count; /* ids */
    unsigned char bytes[PART_BYTES];
};

static remat_status read_window(remat_context *ctx, const struct token_file *file, int number,
                                struct window *out)
{
    uint64_t most = PART_BYTES / file->id_bytes;
    out->count = file->count < most ? file->count : most;
    out->first = (file->count - out->count) / (WINDOWS - 1) * (uint64_t)number;
    if (number == WINDOWS - 1)
        out->first = file->count - out->count;
    return file_read_part(ctx, file->file, file->path, file->bytes,
                          file->begin_bytes + out->first * file->id_bytes, out->bytes,
                          out->count * file->id_bytes);
}

static bool is_number_list(const unsigned char *data, uint64_t bytes)
{
    static const char accepted[] = "0123456789 ,;[]\t\r\n";
    for (uint64_t i = 0; i < bytes; i++)
        if (!memchr(accepted, data[i], sizeof accepted - 1))
            return false;
    return true;
}

static remat_status check_no_text(remat_context *ctx, const struct token_file *file)
{
    remat_status st = REMAT_OK;
    bool ascii = file->bytes >= LEAST_ASCII, text = file->bytes >= LEAST_TEXT, numbers = true;
    bool seen[256] = {false};
    uint32_t letters = 0;
    struct window window;
    for (int w = 0; w < WINDOWS && (ascii || text); w++) {
        RUN_TRY(read_window(ctx, file, w, &window));
        uint64_t bytes = window.count * file->id_bytes;
        ascii = ascii && is_ascii(window.bytes, bytes);
        text = text && is_text(window.bytes, bytes);
        numbers = numbers && is_number_list(window.bytes, bytes);
        for (uint64_t i = 0; i < bytes; i++) {
            letters += !seen[window.bytes[i]];
            seen[window.bytes[i]] = true;
        }
    }
    if ((ascii || text) && letters >= LEAST_LETTERS)
        RUN_FAIL(ctx, REMAT_ERROR_INVALID, "%s: no token ids: %s", file->path,
                 numbers ? "numbers in a text: write them as uint16, with NumPy's tofile()"
                         : "a text: --text trains on its bytes; for --tokens write the ids that a "
                           "tokenizer gives");
fail:
    return st;
}

/* Rows of two ids each, of which half of the columns are zero, next to each other: ids of twice the
 * size. They may begin in any column, after a header of any length. */
static bool looks_wider(const struct window *window, uint64_t id_bytes)
{
    unsigned char columns[8] = {0};
    uint64_t row_bytes = 2 * id_bytes, rows = 0;
    for (uint64_t row = 0; row < window->count / 2; row++) {
        unsigned char any = 0;
        for (uint64_t c = 0; c < row_bytes; c++) {
            unsigned char byte = window->bytes[row * row_bytes + c];
            columns[c] |= byte;
            any |= byte;
        }
        rows += any != 0;
    }
    for (uint64_t c = 0, zeros = 0; c < row_bytes + id_bytes; c++) {
        zeros = columns[c % row_bytes] ? 0 : zeros + 1;
        if (zeros >= id_bytes)
            return rows >= LEAST_ROWS;
    }
    return false;
}

static remat_status take_ids(remat_context *ctx, const struct token_file *file, int64_t vocabulary,
                             uint64_t first, uint64_t count, const unsigned char *part,
                             int32_t *ids)
{
    int64_t end = vocabulary <= INT32_MAX ? vocabulary : (int64_t)INT32_MAX + 1;
    bool plain_wide = !file->begin_bytes && file->id_bytes == 4;
    const char *read_as = plain_wide ? ", which is read as uint32" : "";
    for (uint64_t i = 0; i < count; i++) {
        const unsigned char *at = part + i * file->id_bytes;
        uint32_t id = file->id_bytes == 2 ? at[0] | (uint32_t)at[1] << 8 : word_at(at);
        if (id >= end)
            return cli_error(ctx, REMAT_ERROR_INVALID,
                             "%s: id %llu is %u, beyond the model's vocabulary of %lld%s",
                             file->path, (unsigned long long)(first + i), id, (long long)end,
                             read_as);
        ids[i] = (int32_t)id;
    }
    return REMAT_OK;
}

static remat_status check_windows(remat_context *ctx, const struct token_file *file,
                                  int64_t vocabulary)
{
    remat_status st = REMAT_OK;
    struct window window;
    int32_t ids[PART_BYTES / 2];
    bool narrow = file->id_bytes == 2;
    for (int w = 0; w < WINDOWS; w++) {
        RUN_TRY(read_window(ctx, file, w, &window));
        if (looks_wider(&window, file->id_bytes))
            RUN_FAIL(ctx, REMAT_ERROR_INVALID,
                     "%s: read as %s, every second id from id %llu on is 0: write %s", file->path,
                     narrow ? "uint16" : "uint32", (unsigned long long)window.first,
                     narrow ? "uint16 ids, or uint32 ids after llm.c's header" : "uint32 ids");
        RUN_TRY(take_ids(ctx, file, vocabulary, window.first, window.count, window.bytes, ids));
    }
fail:
    return st;
}

static remat_status measure_plain(remat_context *ctx, int64_t vocabulary, struct token_file *file)
{
    remat_status st = REMAT_OK;
    file->id_bytes = vocabulary <= UINT16_MAX + 1 || vocabulary == INT64_MAX ? 2 : 4;
    file->count = file->bytes / file->id_bytes;
    RUN_TRY(check_no_text(ctx, file));
    if (file->bytes % file->id_bytes)
        RUN_FAIL(ctx, REMAT_ERROR_INVALID,
                 "%s: %llu bytes are no whole number of ids of %llu bytes", file->path,
                 (unsigned long long)file->bytes, (unsigned long long)file->id_bytes);
fail:
    return st;
}

static remat_status measure(remat_context *ctx, int64_t vocabulary, struct token_file *file)
{
    unsigned char begin[KNOWN_FILE_BYTES] = {0};
    uint64_t bytes = file->bytes < sizeof begin ? file->bytes : sizeof begin;
    remat_status st = file_read_part(ctx, file->file, file->path, file->bytes, 0, begin, bytes);
    if (st)
        return st;
    uint32_t magic = word_at(begin);
    const struct known_file *known = known_file_of(begin, bytes);
    if (known)
        return cli_error(ctx, REMAT_ERROR_INVALID, "%s: no token ids: %s: %s", file->path,
                         known->name, known->for_ids);
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (magic == formats[i].magic)
            return read_header(ctx, begin, &formats[i], file);
    if (magic >= FIRST_DATE && magic <= LAST_DATE)
        return cli_error(ctx, REMAT_ERROR_INVALID,
                         "%s: magic %u is of no token file of llm.c (accepted: %u, %u)", file->path,
                         magic, formats[0].magic, formats[1].magic);
    return measure_plain(ctx, vocabulary, file);
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
    RUN_TRY(check_windows(ctx, out, vocabulary));
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

remat_status token_file_read(remat_context *ctx, const struct token_file *file, int64_t vocabulary,
                             uint64_t first, uint64_t count, int32_t *ids)
{
    assert(first + count <= file->count);
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
