/* SPDX-License-Identifier: Apache-2.0 */
#include "safetensors_reader.h"

#include "known_file.h"
#include "tool.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

static const struct dtype {
    const char *name;
    uint32_t bytes;
} dtypes[] = {
#define DTYPE(NAME, name, number, bytes, infinity, file, ...) {file, bytes},
#include <remat/dtypes.def>
    {"F64", 8}, {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"I64", 8}, {"I16", 2}, {"I8", 1},
    {"U64", 8}, {"U32", 4},     {"U16", 2},     {"U8", 1},  {"BOOL", 1}};

struct shape_text shape_text(const int64_t *shape, uint32_t rank)
{
    struct shape_text out = {"["};
    size_t length = 1;
    for (uint32_t i = 0; i < rank; i++)
        length += (size_t)snprintf(out.text + length, sizeof out.text - length, "%s%lld",
                                   i ? ", " : "", (long long)shape[i]);
    snprintf(out.text + length, sizeof out.text - length, "]");
    return out;
}

static const struct dtype *find_dtype(const char *name)
{
    for (size_t i = 0; name && i < sizeof dtypes / sizeof *dtypes; i++)
        if (strcmp(dtypes[i].name, name) == 0)
            return &dtypes[i];
    return NULL;
}

/* A non-negative integer, or -1. */
static int64_t natural(const json_t *value)
{
    return json_is_integer(value) && json_integer_value(value) >= 0 ? json_integer_value(value)
                                                                    : -1;
}

static remat_status parse_shape(remat_context *ctx, const char *path, const json_t *shape,
                                uint32_t element_bytes, struct safetensors_tensor *out)
{
    uint64_t bytes = element_bytes;
    size_t rank = json_array_size(shape);
    if (!json_is_array(shape) || rank > REMAT_TENSOR_RANK_MAX)
        return cli_error(ctx, REMAT_ERROR_INVALID,
                         "%s: tensor \"%s\": \"shape\" is not an array of at most %d numbers", path,
                         out->name, REMAT_TENSOR_RANK_MAX);
    for (size_t i = 0; i < rank; i++) {
        out->shape[i] = natural(json_array_get(shape, i));
        if (out->shape[i] < 0 || __builtin_mul_overflow(bytes, (uint64_t)out->shape[i], &bytes))
            return cli_error(ctx, REMAT_ERROR_INVALID,
                             "%s: tensor \"%s\": axis %zu of its shape is out of range", path,
                             out->name, i);
    }
    out->rank = (uint32_t)rank;
    out->bytes = bytes;
    return REMAT_OK;
}

static remat_status parse_offsets(remat_context *ctx, const char *path, const json_t *offsets,
                                  uint64_t data_bytes, struct safetensors_tensor *out)
{
    int64_t begin = natural(json_array_get(offsets, 0)), end = natural(json_array_get(offsets, 1));
    if (json_array_size(offsets) != 2 || begin < 0 || end < begin)
        return cli_error(ctx, REMAT_ERROR_INVALID,
                         "%s: tensor \"%s\": \"data_offsets\" is not an interval", path, out->name);
    if ((uint64_t)end > data_bytes)
        return cli_error(ctx, REMAT_ERROR_INVALID,
                         "%s: tensor \"%s\": its data ends at %lld of %llu bytes", path, out->name,
                         (long long)end, (unsigned long long)data_bytes);
    if ((uint64_t)(end - begin) != out->bytes)
        return cli_error(ctx, REMAT_ERROR_INVALID,
                         "%s: tensor \"%s\": %lld bytes of data, but %s %s takes %llu", path,
                         out->name, (long long)(end - begin), out->dtype,
                         shape_text(out->shape, out->rank).text, (unsigned long long)out->bytes);
    out->begin = (uint64_t)begin;
    return REMAT_OK;
}

static bool is_printable(const char *name)
{
    for (; *name; name++)
        if ((unsigned char)*name < ' ' || *name == 0x7f)
            return false;
    return true;
}

static remat_status parse_tensor(remat_context *ctx, const char *path, const char *name,
                                 const json_t *entry, uint64_t data_bytes,
                                 struct safetensors_tensor *out)
{
    remat_status st = REMAT_OK;
    if (!is_printable(name))
        RUN_FAIL(ctx, REMAT_ERROR_INVALID, "%s: a tensor's name has control characters", path);
    const char *dtype_name = json_string_value(json_object_get(entry, "dtype"));
    const struct dtype *dtype = find_dtype(dtype_name);
    *out = (struct safetensors_tensor){.name = name};
    if (!dtype)
        RUN_FAIL(ctx, REMAT_ERROR_INVALID, "%s: tensor \"%s\": \"dtype\" is missing or unknown",
                 path, name);
    out->dtype = dtype->name;
    RUN_TRY(parse_shape(ctx, path, json_object_get(entry, "shape"), dtype->bytes, out));
    RUN_TRY(parse_offsets(ctx, path, json_object_get(entry, "data_offsets"), data_bytes, out));
fail:
    return st;
}

/* By place; of equal places the empty ones first. */
static int compare_places(const void *a, const void *b)
{
    const struct safetensors_tensor *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

static remat_status check_cover(remat_context *ctx, const struct safetensors_file *file,
                                uint64_t data_bytes)
{
    uint64_t end = 0;
    for (uint32_t i = 0; i < file->count; i++) {
        const struct safetensors_tensor *tensor = &file->tensors[i];
        if (tensor->begin < end)
            return cli_error(ctx, REMAT_ERROR_INVALID, "%s: tensors \"%s\" and \"%s\" overlap",
                             file->path, file->tensors[i - 1].name, tensor->name);
        if (tensor->begin > end)
            return cli_error(ctx, REMAT_ERROR_INVALID,
                             "%s: %llu bytes of data before tensor \"%s\" belong to no tensor",
                             file->path, (unsigned long long)(tensor->begin - end), tensor->name);
        end += tensor->bytes;
    }
    if (end != data_bytes)
        return cli_error(ctx, REMAT_ERROR_INVALID,
                         "%s: %llu bytes of data at its end belong to no tensor", file->path,
                         (unsigned long long)(data_bytes - end));
    return REMAT_OK;
}

/* Every value of the JSON but the first stands after one of these. */
static uint64_t count_values(const char *text, uint64_t length)
{
    uint64_t count = 1;
    bool in_string = false;
    for (uint64_t i = 0; i < length; i++) {
        char c = text[i];
        i += in_string && c == '\\';
        in_string ^= c == '"';
        count += !in_string && (c == ',' || c == '[' || c == '{');
    }
    return count;
}

static remat_status parse_header(remat_context *ctx, struct safetensors_file *file,
                                 const char *text, uint64_t length, uint64_t data_bytes)
{
    remat_status st = REMAT_OK;
    json_error_t error;
    if (count_values(text, length) > SAFETENSORS_VALUES_MAX)
        RUN_FAIL(ctx, REMAT_ERROR_INVALID,
                 "%s: a header of more than %u values: no file of a model's weights", file->path,
                 SAFETENSORS_VALUES_MAX);
    file->header = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error);
    if (!file->header && json_error_code(&error) == json_error_out_of_memory)
        RUN_FAIL(ctx, REMAT_ERROR_MEMORY, "%s: out of memory", file->path);
    if (!file->header)
        RUN_FAIL(ctx, REMAT_ERROR_INVALID, "%s: header, byte %d: %s", file->path, error.position,
                 is_printable(error.text) ? error.text : "bad JSON");
    if (!json_is_object(file->header))
        RUN_FAIL(ctx, REMAT_ERROR_INVALID, "%s: the header is not a JSON object", file->path);
    file->tensors = calloc(json_object_size(file->header) + 1, sizeof *file->tensors);
    if (!file->tensors)
        RUN_FAIL(ctx, REMAT_ERROR_MEMORY, "%s: out of memory", file->path);
    const char *name;
    json_t *entry;
    json_object_foreach(file->header, name, entry) if (strcmp(name, "__metadata__") != 0) RUN_TRY(
        parse_tensor(ctx, file->path, name, entry, data_bytes, &file->tensors[file->count++]));
    qsort(file->tensors, file->count, sizeof *file->tensors, compare_places);
    RUN_TRY(check_cover(ctx, file, data_bytes));
fail:
    return st;
}

static remat_status fail_read(remat_context *ctx, const struct safetensors_file *file)
{
    if (ferror(file->stream))
        return cli_file_error(ctx, file->path, "cannot read: ", errno);
    return cli_error(ctx, REMAT_ERROR_IO, "%s: cannot read: it ends too early", file->path);
}

/* Of a file that does not begin with the length of a header that it has. */
static remat_status fail_kind(remat_context *ctx, struct safetensors_file *file, uint64_t bytes,
                              uint64_t header_bytes)
{
    unsigned char begin[KNOWN_FILE_BYTES];
    rewind(file->stream);
    size_t count = fread(begin, 1, sizeof begin, file->stream);
    const struct known_file *known = known_file_of(begin, count);
    if (header_bytes && header_bytes <= SAFETENSORS_HEADER_BYTES_MAX)
        return cli_error(ctx, REMAT_ERROR_INVALID,
                         "%s: cut off, or not a safetensors file: a header of %llu bytes in a file "
                         "of %llu",
                         file->path, (unsigned long long)header_bytes, (unsigned long long)bytes);
    if (known && known->for_weights)
        return cli_error(ctx, REMAT_ERROR_INVALID, "%s: not a safetensors file: %s: %s", file->path,
                         known->name, known->for_weights);
    if (is_ascii(begin, count))
        return cli_error(ctx, REMAT_ERROR_INVALID, "%s: not a safetensors file: a text",
                         file->path);
    return cli_error(ctx, REMAT_ERROR_INVALID,
                     "%s: not a safetensors file: it does not begin with the length of a header "
                     "(1 to %u bytes)",
                     file->path, SAFETENSORS_HEADER_BYTES_MAX);
}

static remat_status measure(remat_context *ctx, struct safetensors_file *file, uint64_t *bytes,
                            uint64_t *header_bytes)
{
    unsigned char size[8];
    off_t end = fseeko(file->stream, 0, SEEK_END) == 0 ? ftello(file->stream) : -1;
    if (end < 0 || fseeko(file->stream, 0, SEEK_SET) != 0)
        return cli_file_error(ctx, file->path, "", errno);
    *bytes = (uint64_t)end;
    *header_bytes = 0;
    if (end < 8)
        return cli_error(ctx, REMAT_ERROR_INVALID, "%s: not a safetensors file: it has %lld bytes",
                         file->path, (long long)end);
    if (fread(size, 1, 8, file->stream) != 8)
        return fail_read(ctx, file);
    for (int i = 0; i < 8; i++)
        *header_bytes |= (uint64_t)size[i] << 8 * i;
    bool fits = *header_bytes && *header_bytes <= *bytes - 8 &&
                *header_bytes <= SAFETENSORS_HEADER_BYTES_MAX;
    return fits ? REMAT_OK : fail_kind(ctx, file, *bytes, *header_bytes);
}

remat_status safetensors_read_stream(remat_context *ctx, const char *path, FILE *stream,
                                     struct safetensors_file *out)
{
    remat_status st = REMAT_OK;
    uint64_t bytes, header_bytes;
    char *header = NULL;
    *out = (struct safetensors_file){.stream = stream, .path = path};
    RUN_TRY(measure(ctx, out, &bytes, &header_bytes));
    header = malloc(header_bytes + 1);
    if (!header)
        RUN_FAIL(ctx, REMAT_ERROR_MEMORY, "%s: out of memory", path);
    if (fread(header, 1, header_bytes, stream) != header_bytes)
        RUN_TRY(fail_read(ctx, out));
    RUN_TRY(parse_header(ctx, out, header, header_bytes, bytes - 8 - header_bytes));
    for (uint32_t i = 0; i < out->count; i++)
        out->tensors[i].begin += 8 + header_bytes;
fail:
    free(header);
    return st;
}

remat_status safetensors_read_file(remat_context *ctx, const char *path,
                                   struct safetensors_file *out)
{
    FILE *stream;
    uint64_t bytes;
    remat_status st = cli_open_file(ctx, path, &stream, &bytes);
    return st ? st : safetensors_read_stream(ctx, path, stream, out);
}

remat_status safetensors_read_part(remat_context *ctx, const struct safetensors_file *file,
                                   const struct safetensors_tensor *tensor, uint64_t begin,
                                   void *data, uint64_t bytes)
{
    assert(begin + bytes <= tensor->bytes);
    if (fseeko(file->stream, (off_t)(tensor->begin + begin), SEEK_SET) != 0 ||
        fread(data, 1, bytes, file->stream) != bytes)
        return fail_read(ctx, file);
    return REMAT_OK;
}

void safetensors_release(struct safetensors_file *file)
{
    if (file->stream)
        fclose(file->stream);
    json_decref(file->header);
    free(file->tensors);
    *file = (struct safetensors_file){0};
}
