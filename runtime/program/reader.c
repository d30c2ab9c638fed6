/* SPDX-License-Identifier: Apache-2.0 */
/* The container around both formats, and what their readers share. */
#include "reader.h"

#include "show.h"

#include <assert.h>

/* --- files that people give by mistake, by their first bytes --- */

static const struct {
    uint32_t at, length;
    const char *magic, *what;
} magics[] = {
    {4, 4, "TFL3",
     "this is a TensorFlow Lite model; graphs come from remat-graph or export_torch.py"},
    {4, 4, "ET12",
     "this is an ExecuTorch program; graphs come from remat-graph or export_torch.py"},
    {0, 4, "PK\3\4", "this is a zip archive (.pt, .pt2, .npz); export it with export_torch.py"},
    {0, 4, "GGUF", "this is a GGUF file, which holds weights and no graph"},
    {0, 4, "\x89HDF", "this is an HDF5 file, which holds weights and no graph"},
    {0, 4,
     "\x7f"
     "ELF",
     "this is an executable or object file"},
    {0, 2, "\x80\x02", "this is a Python pickle; export it with export_torch.py"},
    {0, 2, "\x1f\x8b", "this is gzip-compressed; unpack it first"},
};

static bool is_text(const unsigned char *data, size_t bytes)
{
    for (size_t i = 0; i < bytes && i < 512; i++)
        if (data[i] < 0x20 && data[i] != '\n' && data[i] != '\r' && data[i] != '\t')
            return false;
    return true;
}

static bool has_word(const unsigned char *data, size_t bytes, const char *word)
{
    size_t length = strlen(word);
    for (size_t i = 0; i + length <= bytes && i < 4096; i++)
        if (memcmp(data + i, word, length) == 0)
            return true;
    return false;
}

static const char *foreign_text(const unsigned char *data, size_t bytes)
{
    size_t i = 0;
    while (i < bytes && strchr(" \t\r\n", data[i]) && data[i])
        i++;
    if (i < bytes && (data[i] == '{' || data[i] == '['))
        return "this is JSON; convert it with flatc --binary schemas/graph.fbs FILE";
    if (has_word(data, bytes, "table ") || has_word(data, bytes, "root_type"))
        return "this is a FlatBuffers schema, not a graph";
    return "this is text";
}

/* 8 bytes of header length, then the header, a JSON object. */
static bool is_safetensors(const unsigned char *data, size_t bytes)
{
    uint64_t length;
    if (bytes < 9)
        return false;
    memcpy(&length, data, sizeof length);
    return data[8] == '{' && length >= 2 && length < 100000000;
}

/* Protobuf: field 1 (ir_version), a small number, then field 2 (producer_name) or 7 or 8. */
static bool is_onnx(const unsigned char *data, size_t bytes)
{
    return bytes >= 8 && data[0] == 0x08 && data[1] > 0 && data[1] < 0x20 &&
           (data[2] == 0x12 || data[2] == 0x3a || data[2] == 0x42);
}

/* What the bytes are when they are neither graph nor plan, "" when unknown. */
static const char *foreign_file(const void *data, size_t bytes)
{
    for (size_t k = 0; k < sizeof magics / sizeof *magics; k++)
        if (bytes >= magics[k].at + magics[k].length &&
            memcmp((const char *)data + magics[k].at, magics[k].magic, magics[k].length) == 0)
            return magics[k].what;
    if (is_safetensors(data, bytes))
        return "this is a safetensors file, which holds weights and no graph";
    if (is_onnx(data, bytes))
        return "this is an ONNX model; graphs come from remat-graph or export_torch.py";
    return bytes && is_text(data, bytes) ? foreign_text(data, bytes) : "";
}

/* --- the container --- */

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
        const char *foreign = foreign_file(data, bytes);
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
    assert(strlen(identifier) == 4);
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
    assert(element_bytes > 0);
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
