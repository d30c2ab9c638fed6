/* SPDX-License-Identifier: Apache-2.0 */
#include "writer.h"

#define BLOCK_BYTES_FIRST (UINT64_C(1) << 16)
#define BLOCK_BYTES_MAX   (UINT64_C(1) << 32)

struct remat_writer_text {
    const char *text;
    uint32_t id;
};

static remat_status attempt(remat_context *ctx, remat_write_function *function, const void *what,
                            struct remat_arena *scratch, uint64_t block_bytes,
                            enum remat_fb_result *result, const void **data, size_t *bytes)
{
    remat_status st = REMAT_OK;
    struct remat_writer writer = {.ctx = ctx, .scratch = scratch};
    char *block;
    REMAT_TRY_NEW(scratch, block, block_bytes);
    writer.builder = remat_fb_begin(block, block_bytes);
    *result = REMAT_FB_FULL;
    if (writer.builder)
        REMAT_TRY(function(&writer, what, result, data, bytes));
fail:
    return st;
}

/* The header of check_container in reader.c, then the FlatBuffer. */
static remat_status pack(const char *identifier, const void *data, size_t bytes,
                         struct remat_arena *arena, const void **out_data, size_t *out_bytes)
{
    remat_status st = REMAT_OK;
    unsigned char *file;
    uint64_t total = REMAT_CONTAINER_BYTES + (uint64_t)bytes, hash = remat_hash(data, bytes, 0);
    uint64_t version = REMAT_FORMAT_VERSION;
    REMAT_TRY_NEW(arena, file, total);
    memcpy(file, REMAT_CONTAINER_MAGIC, 4);
    memcpy(file + 4, identifier, 4);
    memcpy(file + 8, &total, 8);
    memcpy(file + 16, &hash, 8);
    memcpy(file + 24, &version, 8);
    memcpy(file + REMAT_CONTAINER_BYTES, data, bytes);
    *out_data = file;
    *out_bytes = total;
fail:
    return st;
}

remat_status remat_writer_run(remat_context *ctx, const char *identifier,
                              remat_write_function *function, const void *what,
                              struct remat_arena *arena, const void **out_data, size_t *out_bytes)
{
    remat_status st = REMAT_OK;
    enum remat_fb_result result = REMAT_FB_FULL;
    struct remat_arena scratch;
    const void *data = NULL;
    size_t bytes = 0;
    remat_arena_init(&scratch, ctx);
    for (uint64_t block = BLOCK_BYTES_FIRST; result == REMAT_FB_FULL && block <= BLOCK_BYTES_MAX;
         block *= 2) {
        remat_arena_release(&scratch);
        REMAT_TRY(attempt(ctx, function, what, &scratch, block, &result, &data, &bytes));
    }
    if (result != REMAT_FB_OK)
        REMAT_FAIL(ctx, REMAT_ERROR_INVALID, "the file would be larger than %zu bytes",
                   REMAT_FB_BYTES_MAX);
    REMAT_TRY(pack(identifier, data, bytes, arena, out_data, out_bytes));
fail:
    remat_arena_release(&scratch);
    return st;
}

static struct remat_writer_text *find(struct remat_writer_text *texts, size_t capacity,
                                      const char *text)
{
    size_t at = remat_hash_string(text, 0) & (capacity - 1);
    while (texts[at].text && strcmp(texts[at].text, text) != 0)
        at = (at + 1) & (capacity - 1);
    return &texts[at];
}

static remat_status grow(struct remat_writer *writer)
{
    remat_status st = REMAT_OK;
    size_t capacity = writer->text_capacity ? writer->text_capacity * 2 : 256;
    struct remat_writer_text *texts;
    REMAT_TRY_NEW(writer->scratch, texts, capacity);
    for (size_t k = 0; k < writer->text_capacity; k++)
        if (writer->texts[k].text)
            *find(texts, capacity, writer->texts[k].text) = writer->texts[k];
    writer->texts = texts;
    writer->text_capacity = capacity;
fail:
    return st;
}

static remat_status check(const struct remat_writer *writer, const char *text, bool lines)
{
    size_t length = strlen(text);
    const char *fault = remat_text_fault(text, length, lines);
    if (!lines && length > REMAT_TEXT_BYTES_MAX)
        return remat_error(writer->ctx, REMAT_ERROR_INVALID,
                           "\"%.60s...\": text of %zu bytes, the limit of a file is %u", text,
                           length, REMAT_TEXT_BYTES_MAX);
    if (fault)
        return remat_error(writer->ctx, REMAT_ERROR_INVALID,
                           "\"%.100s\": text with a control character or invalid UTF-8 (byte "
                           "0x%02x) cannot be written to a file",
                           text, (unsigned char)*fault);
    return REMAT_OK;
}

static remat_status write_text(struct remat_writer *writer, const char *text, bool lines,
                               struct remat_fb_text *out)
{
    remat_status st = REMAT_OK;
    *out = (struct remat_fb_text){0};
    if (!text || !*text)
        return REMAT_OK;
    if (2 * (writer->text_count + 1) > writer->text_capacity)
        REMAT_TRY(grow(writer));
    struct remat_writer_text *entry = find(writer->texts, writer->text_capacity, text);
    if (entry->text) {
        out->id = entry->id;
        return REMAT_OK;
    }
    REMAT_TRY(check(writer, text, lines));
    size_t length = strlen(text);
    out->id = remat_fb_write_text(writer->builder, text, length);
    if (length <= REMAT_TEXT_BYTES_SHARED) {
        *entry = (struct remat_writer_text){.text = text, .id = out->id};
        writer->text_count++;
    }
fail:
    return st;
}

remat_status remat_writer_text(struct remat_writer *writer, const char *text,
                               struct remat_fb_text *out)
{
    return write_text(writer, text, false, out);
}

remat_status remat_writer_lines(struct remat_writer *writer, const char *text,
                                struct remat_fb_text *out)
{
    return write_text(writer, text, true, out);
}

remat_status remat_writer_texts(struct remat_writer *writer, const char *const *texts,
                                uint32_t count, bool lines, struct remat_fb_tables *out)
{
    remat_status st = REMAT_OK;
    uint32_t *ids;
    REMAT_TRY_NEW(writer->scratch, ids, count);
    for (uint32_t i = 0; i < count; i++) {
        REMAT_TRY(check(writer, texts[i], lines));
        ids[i] = remat_fb_write_text(writer->builder, texts[i], strlen(texts[i]));
    }
    *out = (struct remat_fb_tables){ids, count};
fail:
    return st;
}
