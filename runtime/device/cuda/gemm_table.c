/* SPDX-License-Identifier: Apache-2.0 */
/* A row is found by how its line begins, so lines of other devices and versions are kept as they
 * are and nothing has to be parsed but the algorithm: digits of a fixed number, up to the row's
 * end.
 */
#include "gemm_table.h"

#include "file.h"
#include "files.h"

#include <assert.h>
#include <inttypes.h>
#include <unistd.h>

#define BEGIN     "{\"schema\": \"remat-gemm/1\", \"rows\": ["
#define END       "]}"
#define ALGORITHM "\", \"algorithm\": \"" /* after the shape */
#define ROW_END   "\"}"

enum { WORDS = 8, DIGITS = 16 }; /* of an algorithm; of a word */

/* A name within JSON's quotes. */
static const char *plain(struct remat_arena *arena, const char *text)
{
    char *copy = remat_arena_format(arena, "%s", text);
    for (char *c = copy; c && *c; c++)
        if (*c == '"' || *c == '\\' || (unsigned char)*c < ' ')
            *c = '_';
    return copy;
}

static remat_status read_rows(struct gemm_table *table, char *data, size_t bytes)
{
    remat_status st = REMAT_OK;
    bool ended = false;
    char *rest = NULL, *line = strlen(data) == bytes ? strtok_r(data, "\n", &rest) : NULL;
    if (!line || strcmp(line, BEGIN) != 0)
        REMAT_FAIL(table->ctx, REMAT_ERROR_INVALID,
                   "%s is no table of matrix products: move it away", table->path);
    while (!ended && (line = strtok_r(NULL, "\n", &rest))) {
        size_t length = strlen(line);
        ended = strcmp(line, END) == 0;
        if (line[length - 1] == ',')
            line[length - 1] = 0;
        if (!ended)
            REMAT_TRY_PUSH(table->arena, &table->rows, line);
    }
    if (!ended)
        REMAT_FAIL(table->ctx, REMAT_ERROR_INVALID, "%s ends early: delete it", table->path);
    if (strtok_r(NULL, "\n", &rest))
        REMAT_FAIL(table->ctx, REMAT_ERROR_INVALID, "%s goes on after the table: move it away",
                   table->path);
fail:
    return st;
}

remat_status gemm_table_open(remat_context *ctx, struct remat_arena *arena, const char *path,
                             const char *device, uint64_t library_version, uint64_t workspace_bytes,
                             struct gemm_table *out)
{
    remat_status st = REMAT_OK;
    char *data;
    size_t bytes;
    const char *name = plain(arena, device);
    *out = (struct gemm_table){.ctx = ctx, .arena = arena, .path = path};
    if (name)
        out->row_begin = remat_arena_format(
            arena,
            "{\"device\": \"%s\", \"cublaslt\": %llu, \"workspace_bytes\": %llu, \"gemm\": \"",
            name, (unsigned long long)library_version, (unsigned long long)workspace_bytes);
    if (!out->row_begin)
        return REMAT_ERROR_MEMORY;
    if (!path || access(path, F_OK) != 0)
        return REMAT_OK;
    REMAT_TRY(remat_file_read(ctx, path, arena, &data, &bytes));
    REMAT_TRY(read_rows(out, data, bytes));
fail:
    return st;
}

/* The text after a key in the row, or NULL. */
static const char *row_of(const struct gemm_table *table, size_t index, const char *key)
{
    const char *row = table->rows.items[index];
    size_t begin = strlen(table->row_begin), length = strlen(key);
    bool found = strncmp(row, table->row_begin, begin) == 0 &&
                 strncmp(row + begin, key, length) == 0 && row[begin + length] == '"';
    return found ? row + begin + length : NULL;
}

/* What follows the shape, whole and as gemm_table_add writes it. */
static bool read_algorithm(const char *text, struct cublaslt_algorithm *out)
{
    if (strncmp(text, ALGORITHM, strlen(ALGORITHM)) != 0)
        return false;
    text += strlen(ALGORITHM);
    if (strspn(text, "0123456789abcdef") != WORDS * DIGITS ||
        strcmp(text + WORDS * DIGITS, ROW_END) != 0)
        return false;
    for (uint32_t k = 0; k < WORDS; k++)
        sscanf(text + k * DIGITS, "%16" SCNx64, &out->data[k]);
    return true;
}

remat_status gemm_table_find(const struct gemm_table *table, const char *key,
                             struct cublaslt_algorithm *out, bool *found)
{
    assert(key && *key);
    remat_status st = REMAT_OK;
    *found = false;
    for (size_t r = 0; r < table->rows.count; r++) {
        const char *rest = row_of(table, r, key);
        if (!rest)
            continue;
        if (*found)
            REMAT_FAIL(table->ctx, REMAT_ERROR_INVALID, "%s: two rows for %s: delete one",
                       table->path, key);
        if (!read_algorithm(rest, out))
            REMAT_FAIL(table->ctx, REMAT_ERROR_INVALID,
                       "%s: the row for %s has no algorithm of %d digits: delete the row",
                       table->path, key, WORDS * DIGITS);
        *found = true;
    }
fail:
    return st;
}

remat_status gemm_table_add(struct gemm_table *table, const char *key,
                            const struct cublaslt_algorithm *algorithm)
{
    remat_status st = REMAT_OK;
    struct remat_text row = {.arena = table->arena};
    remat_text_append(&row, "%s%s" ALGORITHM, table->row_begin, key);
    for (uint32_t k = 0; k < WORDS; k++)
        remat_text_append(&row, "%016" PRIx64, algorithm->data[k]);
    remat_text_append(&row, ROW_END);
    if (row.failed)
        return REMAT_ERROR_MEMORY;
    table->changed = true;
    for (size_t r = 0; r < table->rows.count; r++)
        if (row_of(table, r, key)) {
            table->rows.items[r] = row.items;
            return REMAT_OK;
        }
    REMAT_TRY_PUSH(table->arena, &table->rows, row.items);
fail:
    return st;
}

remat_status gemm_table_save(const struct gemm_table *table)
{
    struct remat_text text = {.arena = table->arena};
    if (!table->path || !table->changed)
        return REMAT_OK;
    remat_text_append(&text, "%s\n", BEGIN);
    for (size_t r = 0; r < table->rows.count; r++)
        remat_text_append(&text, "%s%s\n", table->rows.items[r],
                          r + 1 < table->rows.count ? "," : "");
    remat_text_append(&text, "%s\n", END);
    if (text.failed)
        return REMAT_ERROR_MEMORY;
    if (remat_file_write(table->ctx, table->path, text.items, text.count) != REMAT_OK)
        remat_log(table->ctx, REMAT_SEVERITY_WARNING,
                  "the algorithms of matrix products are not kept: %s",
                  remat_context_message(table->ctx));
    return REMAT_OK;
}
