/* SPDX-License-Identifier: Apache-2.0 */
#include "writer.h"

#include <assert.h>

struct remat_writer_text {
    const char *text; /* NULL: the place is free */
    uint32_t hash, id;
};

static void *reallocate(void *user, void *block, size_t bytes)
{
    return remat_reallocate(user, block, bytes);
}

/* The header of check_container in reader.c, then the FlatBuffer. */
static remat_status pack(const char *identifier, const void *data, size_t bytes,
                         struct remat_arena *arena, const void **out_data, size_t *out_bytes)
{
    unsigned char *file;
    uint64_t total = REMAT_CONTAINER_BYTES + (uint64_t)bytes, hash = remat_hash(data, bytes, 0);
    uint64_t version = REMAT_FORMAT_VERSION;
    if (!(file = remat_arena_uninitialized(arena, total, 1)))
        return REMAT_ERROR_MEMORY;
    memcpy(file, REMAT_CONTAINER_MAGIC, 4);
    memcpy(file + 4, identifier, 4);
    memcpy(file + 8, &total, 8);
    memcpy(file + 16, &hash, 8);
    memcpy(file + 24, &version, 8);
    memcpy(file + REMAT_CONTAINER_BYTES, data, bytes);
    *out_data = file;
    *out_bytes = total;
    return REMAT_OK;
}

remat_status remat_writer_run(remat_context *ctx, const char *identifier,
                              remat_write_function *function, const void *what,
                              struct remat_arena *arena, const void **out_data, size_t *out_bytes)
{
    assert(strlen(identifier) == 4);
    remat_status st = REMAT_OK;
    enum remat_fb_result result;
    struct remat_arena scratch;
    struct remat_writer writer = {.ctx = ctx, .scratch = &scratch};
    const void *data = NULL;
    size_t bytes = 0;
    remat_arena_init(&scratch, ctx);
    if (!(writer.builder = remat_fb_begin(reallocate, ctx)))
        REMAT_TRY(REMAT_ERROR_MEMORY);
    REMAT_TRY(function(&writer, what, &result, &data, &bytes));
    if (result == REMAT_FB_MEMORY)
        REMAT_TRY(REMAT_ERROR_MEMORY);
    if (result != REMAT_FB_OK)
        REMAT_FAIL(ctx, REMAT_ERROR_INVALID, "the file would be larger than %zu bytes",
                   REMAT_FB_BYTES_MAX);
    REMAT_TRY(pack(identifier, data, bytes, arena, out_data, out_bytes));
fail:
    remat_fb_end(writer.builder);
    remat_arena_release(&scratch);
    return st;
}

static struct remat_writer_text *find(struct remat_writer_text *texts, size_t capacity,
                                      const char *text, uint32_t hash)
{
    size_t at = hash & (capacity - 1);
    while (texts[at].text && (texts[at].hash != hash || strcmp(texts[at].text, text) != 0))
        at = (at + 1) & (capacity - 1);
    return &texts[at];
}

static remat_status grow(struct remat_writer *writer)
{
    remat_status st = REMAT_OK;
    size_t capacity = writer->text_capacity ? writer->text_capacity * 2 : 256;
    struct remat_writer_text *texts;
    REMAT_TRY_NEW(writer->scratch, texts, capacity);
    for (size_t k = 0; k < writer->text_capacity; k++) {
        const struct remat_writer_text *old = &writer->texts[k];
        if (old->text)
            *find(texts, capacity, old->text, old->hash) = *old;
    }
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
    size_t length = strlen(text);
    uint32_t hash = (uint32_t)remat_hash(text, length, 0);
    struct remat_writer_text *entry = find(writer->texts, writer->text_capacity, text, hash);
    if (entry->text) {
        out->id = entry->id;
        return REMAT_OK;
    }
    REMAT_TRY(check(writer, text, lines));
    out->id = remat_fb_write_text(writer->builder, text, length);
    if (length <= REMAT_TEXT_BYTES_SHARED) {
        *entry = (struct remat_writer_text){text, hash, out->id};
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
