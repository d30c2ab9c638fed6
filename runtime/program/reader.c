/* SPDX-License-Identifier: Apache-2.0 */
/* The container around both formats, and what their readers share. */
#include "reader.h"

#include "file_kind.h"
#include "show.h"

static const struct {
    const char *identifier, *what, *maker;
} kinds[] = {
    {REMAT_GRAPH_IDENTIFIER, "a graph", "remat-graph"},
    {REMAT_PLAN_IDENTIFIER, "a plan", "remat-compile"},
};
enum { KIND_COUNT = sizeof kinds / sizeof *kinds };

static uint32_t find_kind(const void *identifier) /* KIND_COUNT: none */
{
    uint32_t k = 0;
    while (k < KIND_COUNT && memcmp(kinds[k].identifier, identifier, 4) != 0)
        k++;
    return k;
}

static uint64_t get_u64(const unsigned char *data)
{
    uint64_t result;
    memcpy(&result, data, sizeof result);
    return result;
}

/* Checks the header: magic[4] identifier[4] total_bytes[8] hash[8] version[4] reserved[4]. */
static remat_status check_container(const struct remat_reader *reader, const unsigned char *data,
                                    size_t bytes)
{
    remat_context *ctx = reader->ctx;
    if (bytes < REMAT_CONTAINER_BYTES)
        return remat_error(ctx, REMAT_ERROR_INVALID,
                           "%s: truncated: it has %zu bytes, its header alone needs %u",
                           reader->name, bytes, REMAT_CONTAINER_BYTES);
    uint64_t total = get_u64(data + 8), hash = get_u64(data + 16), rest = get_u64(data + 24);
    if ((uint32_t)rest != REMAT_FORMAT_VERSION)
        return remat_error(ctx, REMAT_ERROR_INVALID,
                           "%s: container version %u; this reader knows version %u", reader->name,
                           (uint32_t)rest, REMAT_FORMAT_VERSION);
    if (total > bytes)
        return remat_error(ctx, REMAT_ERROR_INVALID,
                           "%s: truncated: it has %zu bytes and needs %llu", reader->name, bytes,
                           (unsigned long long)total);
    if (total < bytes || rest >> 32)
        return remat_error(ctx, REMAT_ERROR_INVALID, "%s: it has %zu bytes, its header says %llu",
                           reader->name, bytes, (unsigned long long)total);
    if (hash != remat_hash(data + REMAT_CONTAINER_BYTES, bytes - REMAT_CONTAINER_BYTES, 0))
        return remat_error(ctx, REMAT_ERROR_INVALID, "%s: damaged: its checksum does not match",
                           reader->name);
    return REMAT_OK;
}

static remat_status recognise(const struct remat_reader *reader, const unsigned char *data,
                              size_t bytes, const char *identifier)
{
    remat_context *ctx = reader->ctx;
    uint32_t wanted = find_kind(identifier), kind = bytes < 8 ? KIND_COUNT : find_kind(data + 4);
    if (bytes == 0)
        return remat_error(ctx, REMAT_ERROR_INVALID, "%s: the file is empty", reader->name);
    if (bytes < 8)
        return remat_error(ctx, REMAT_ERROR_INVALID,
                           "%s: truncated: it has %zu bytes, the least are 8", reader->name, bytes);
    if (kind == KIND_COUNT) {
        const char *foreign = remat_foreign_file(data, bytes);
        return remat_error(ctx, REMAT_ERROR_INVALID, "%s: not %s%s%s", reader->name,
                           kinds[wanted].what, *foreign ? ": " : "", foreign);
    }
    if (kind != wanted)
        return remat_error(ctx, REMAT_ERROR_INVALID, "%s: this is %s; expected %s, as %s writes it",
                           reader->name, kinds[kind].what, kinds[wanted].what, kinds[wanted].maker);
    return REMAT_OK;
}

remat_status remat_reader_open(remat_context *ctx, const char *name, const void *data, size_t bytes,
                               struct remat_arena *arena, const char *identifier,
                               struct remat_reader *out)
{
    remat_status st = REMAT_OK;
    const unsigned char *start = data;
    char *copy;
    *out = (struct remat_reader){.ctx = ctx, .name = name, .arena = arena};
    REMAT_TRY(recognise(out, data, bytes, identifier));
    if (memcmp(data, REMAT_CONTAINER_MAGIC, 4) == 0) {
        REMAT_TRY(check_container(out, data, bytes));
        start += REMAT_CONTAINER_BYTES;
        bytes -= REMAT_CONTAINER_BYTES;
    } else if (strcmp(identifier, REMAT_GRAPH_IDENTIFIER) != 0)
        REMAT_FAIL(ctx, REMAT_ERROR_INVALID,
                   "%s: damaged: it does not start with the bytes of a plan", name);
    if (bytes > REMAT_FB_BYTES_MAX)
        REMAT_FAIL(ctx, REMAT_ERROR_INVALID, "%s: %zu bytes, the limit is %zu", name, bytes,
                   REMAT_FB_BYTES_MAX);
    REMAT_TRY_NEW(arena, copy, bytes);
    memcpy(copy, start, bytes);
    out->data = copy;
    out->bytes = out->unclaimed_bytes = bytes;
fail:
    return st;
}

remat_status remat_reader_result(const struct remat_reader *reader, enum remat_fb_result result)
{
    switch (result) {
    case REMAT_FB_OK:
        return REMAT_OK;
    case REMAT_FB_SIZE:
        return remat_error(reader->ctx, REMAT_ERROR_INVALID,
                           "%s: its FlatBuffer has %zu bytes; 8 to %zu are possible", reader->name,
                           reader->bytes, REMAT_FB_BYTES_MAX);
    case REMAT_FB_IDENTIFIER:
        return remat_error(reader->ctx, REMAT_ERROR_INVALID,
                           "%s: header and contents are of different kinds", reader->name);
    default:
        return remat_error(reader->ctx, REMAT_ERROR_INVALID,
                           "%s: malformed or truncated: its %zu bytes are not a valid FlatBuffer",
                           reader->name, reader->bytes);
    }
}

remat_status remat_reader_versions(const struct remat_reader *reader, struct remat_fb_text producer,
                                   uint32_t format_version, uint32_t min_reader_version,
                                   uint64_t required_features, uint64_t known_features)
{
    const char *who = producer.data ? producer.data : "";
    if (format_version == 0)
        return remat_error(reader->ctx, REMAT_ERROR_INVALID, "%s: it has no format_version",
                           reader->name);
    if (min_reader_version > REMAT_FORMAT_VERSION)
        return remat_error(reader->ctx, REMAT_ERROR_INVALID,
                           "%s: written by \"%.100s\" for readers of version %u or newer; this "
                           "reader has version %u",
                           reader->name, who, min_reader_version, REMAT_FORMAT_VERSION);
    for (uint32_t bit = 0; bit < 64; bit++)
        if ((required_features & ~known_features) >> bit & 1)
            return remat_error(reader->ctx, REMAT_ERROR_INVALID,
                               "%s: written by \"%.100s\"; it requires feature %u, which this "
                               "reader does not know",
                               reader->name, who, bit);
    return REMAT_OK;
}

remat_status remat_reader_claim(struct remat_reader *reader, uint64_t count, uint64_t element_bytes)
{
    uint64_t bytes;
    if (!remat_mul_u64(count, element_bytes, &bytes) || bytes > reader->unclaimed_bytes)
        return remat_error(reader->ctx, REMAT_ERROR_INVALID,
                           "%s: malformed: its tables share data and unfold to more than its %zu "
                           "bytes",
                           reader->name, reader->bytes);
    reader->unclaimed_bytes -= bytes;
    return REMAT_OK;
}

const char *remat_text_fault(const char *text, size_t length, bool lines)
{
    const char *at = text, *end = text + length;
    for (uint32_t bytes; at < end; at += bytes)
        if (!(bytes = lines && *at == '\n' ? 1 : remat_printable(at, (size_t)(end - at))))
            return at;
    return NULL;
}

static remat_status check_characters(const struct remat_reader *reader, struct remat_fb_text text,
                                     const char *table, uint32_t index, bool lines)
{
    const char *fault = remat_text_fault(text.data ? text.data : "", text.length, lines);
    if (!fault)
        return REMAT_OK;
    return remat_error(reader->ctx, REMAT_ERROR_INVALID,
                       "%s: %s[%u]: text with a control character or invalid UTF-8 (byte 0x%02x)",
                       reader->name, table, index, (unsigned char)*fault);
}

remat_status remat_reader_text(struct remat_reader *reader, struct remat_fb_text text,
                               const char *table, uint32_t index, const char **out)
{
    *out = text.data ? text.data : "";
    if (text.length > REMAT_TEXT_BYTES_MAX)
        return remat_error(reader->ctx, REMAT_ERROR_INVALID,
                           "%s: %s[%u]: text of %u bytes, the limit is %u", reader->name, table,
                           index, text.length, REMAT_TEXT_BYTES_MAX);
    if (text.length > REMAT_TEXT_BYTES_SHARED) {
        remat_status st = remat_reader_claim(reader, text.length, 1);
        if (st != REMAT_OK)
            return st;
    }
    return check_characters(reader, text, table, index, false);
}

remat_status remat_reader_lines(struct remat_reader *reader, struct remat_fb_text text,
                                const char *table, uint32_t index, const char **out)
{
    *out = text.data ? text.data : "";
    remat_status st = remat_reader_claim(reader, text.length, 1);
    return st ? st : check_characters(reader, text, table, index, true);
}

remat_status remat_reader_prefix(const struct remat_reader *reader, remat_status status)
{
    if (status == REMAT_OK || status == REMAT_ERROR_MEMORY)
        return status;
    return remat_error(reader->ctx, status, "%s: %s", reader->name, reader->ctx->message);
}
