/* SPDX-License-Identifier: Apache-2.0 */
#include "safetensors.h"

#include "families.h"
#include "parts.h"
#include "safetensors_reader.h"

#include <errno.h>
#include <stdlib.h>

#define METADATA "__metadata__" /* the format's own entry of the header */
enum {
    METADATA_BYTES = 1024,     /* at most */
    TENSOR_HEADER_BYTES = 320, /* of one tensor, its name aside: a prefix, at most 6 + 2 numbers */
};

bool safetensors_is_parameter(const remat_tensor_info *tensor)
{
    return tensor->role == REMAT_TENSOR_PARAMETER;
}

static bool get_tensor(const remat_plan *plan, uint32_t index, safetensors_filter *has,
                       remat_tensor_info *out)
{
    *out = (remat_tensor_info){.struct_size = sizeof *out};
    return remat_plan_get_tensor(plan, index, out) && has(out);
}

static bool get_parameter(const remat_plan *plan, uint32_t index, remat_tensor_info *out)
{
    return get_tensor(plan, index, safetensors_is_parameter, out);
}

static remat_status fail_write(remat_context *ctx, const struct safetensors *file)
{
    return cli_file_error(ctx, file->path, "cannot write: ", errno);
}

static remat_status write_spaces(remat_context *ctx, struct safetensors *file, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        if (fputc(' ', file->stream) == EOF)
            return fail_write(ctx, file);
    return REMAT_OK;
}

static uint64_t reserve_header(const remat_plan *plan, safetensors_filter *has)
{
    remat_tensor_info tensor;
    uint64_t bytes = METADATA_BYTES;
    for (uint32_t i = 0; i < remat_plan_tensor_count(plan); i++)
        if (get_tensor(plan, i, has, &tensor))
            bytes += 6 * strlen(tensor.name) + TENSOR_HEADER_BYTES;
    return (bytes + 7) / 8 * 8;
}

remat_status safetensors_check(remat_context *ctx, const char *path, const remat_plan *plan,
                               safetensors_filter *has)
{
    uint64_t header_bytes = reserve_header(plan, has), values = METADATA_BYTES;
    remat_tensor_info tensor;
    if (header_bytes > SAFETENSORS_HEADER_BYTES_MAX)
        return cli_error(ctx, REMAT_ERROR_INVALID,
                         "%s: the names of the tensors take a header of %llu bytes (accepted: "
                         "at most %u)",
                         path, (unsigned long long)header_bytes, SAFETENSORS_HEADER_BYTES_MAX);
    for (uint32_t i = 0; i < remat_plan_tensor_count(plan); i++) {
        if (!get_tensor(plan, i, has, &tensor))
            continue;
        values += 7 + tensor.rank;
        if (strcmp(tensor.name, METADATA) == 0)
            return cli_error(ctx, REMAT_ERROR_INVALID,
                             "%s: safetensors files have no tensor \"" METADATA "\"", path);
    }
    if (values > SAFETENSORS_VALUES_MAX)
        return cli_error(ctx, REMAT_ERROR_INVALID, "%s: too many tensors for one file", path);
    return REMAT_OK;
}

remat_status safetensors_open(remat_context *ctx, struct remat_outputs *outputs, const char *path,
                              const remat_plan *plan, safetensors_filter *has, json_t *metadata,
                              struct safetensors *out)
{
    remat_status st = REMAT_OK;
    *out = (struct safetensors){.path = path, .header_bytes = reserve_header(plan, has)};
    out->header = metadata ? json_pack("{s:O}", METADATA, metadata)
                           : json_pack("{s:{s:s}}", METADATA, "format", "pt");
    if (!out->header)
        RUN_FAIL(ctx, REMAT_ERROR_MEMORY, "out of memory");
    RUN_TRY(remat_outputs_stream(outputs, path, &out->stream));
    RUN_TRY(write_spaces(ctx, out, 8 + out->header_bytes)); /* the header comes last */
fail:
    return st;
}

const char *safetensors_dtype(remat_element element)
{
    switch (element) {
#define DTYPE(NAME, name, number, bytes, infinity, file, ...)                                      \
    case REMAT_ELEMENT_##NAME:                                                                     \
        return file;
#include <remat/dtypes.def>
    }
    return NULL;
}

remat_tensor_info safetensors_whole(const remat_tensor_info *tensor)
{
    remat_tensor_info out = *tensor;
    out.parts.count = 1;
    out.rank = tensor->whole_rank;
    memcpy(out.shape, tensor->whole_shape, sizeof out.shape);
    out.bytes *= tensor->parts.count;
    if (out.rank) {
        out.bytes = out.bytes / (uint64_t)out.shape[0] * (uint64_t)tensor->unpadded_rows;
        out.shape[0] = tensor->unpadded_rows;
    }
    return out;
}

static json_t *make_shape(const remat_tensor_info *tensor)
{
    json_t *shape = json_array();
    for (uint32_t i = 0; shape && i < tensor->rank; i++)
        if (json_array_append_new(shape, json_integer((json_int_t)tensor->shape[i])) != 0) {
            json_decref(shape);
            shape = NULL;
        }
    return shape;
}

/* Enters the tensor in the header; its data follows. */
static remat_status begin_tensor(remat_context *ctx, struct safetensors *file,
                                 const remat_tensor_info *tensor)
{
    remat_status st = REMAT_OK;
    json_int_t begin = (json_int_t)file->data_bytes;
    json_int_t end = (json_int_t)(file->data_bytes + tensor->bytes);
    char *name = NULL;
    if (asprintf(&name, "%s%s", file->prefix ? file->prefix : "", tensor->name) < 0)
        return cli_error(ctx, REMAT_ERROR_MEMORY, "out of memory");
    if (json_object_get(file->header, name))
        RUN_FAIL(ctx, REMAT_ERROR_INVALID, "%s: the plan computes \"%s\" twice", file->path, name);
    json_t *entry = json_pack("{s:s,s:o,s:[I,I]}", "dtype", safetensors_dtype(tensor->element),
                              "shape", make_shape(tensor), "data_offsets", begin, end);
    if (json_object_set_new(file->header, name, entry) != 0)
        RUN_FAIL(ctx, REMAT_ERROR_MEMORY, "%s: cannot name \"%s\": out of memory", file->path,
                 name);
    file->data_bytes += tensor->bytes;
    file->count++;
fail:
    free(name);
    return st;
}

remat_status safetensors_add(remat_context *ctx, struct safetensors *file,
                             const remat_tensor_info *tensor, const void *data)
{
    remat_status st = begin_tensor(ctx, file, tensor);
    if (st == REMAT_OK && fwrite(data, 1, tensor->bytes, file->stream) != tensor->bytes)
        st = fail_write(ctx, file);
    return st;
}

static remat_status write_header(remat_context *ctx, struct safetensors *file)
{
    char *header = json_dumps(file->header, JSON_COMPACT | JSON_ENSURE_ASCII);
    size_t length = header ? strlen(header) : 0;
    remat_status st = REMAT_OK;
    if (!header)
        RUN_FAIL(ctx, REMAT_ERROR_MEMORY, "out of memory");
    if (length > file->header_bytes)
        RUN_FAIL(ctx, REMAT_ERROR_INTERNAL, "%s: header of %zu bytes, expected at most %llu",
                 file->path, length, (unsigned long long)file->header_bytes);
    unsigned char size[8];
    for (int i = 0; i < 8; i++)
        size[i] = (unsigned char)(file->header_bytes >> 8 * i);
    if (fseeko(file->stream, 0, SEEK_SET) != 0 || fwrite(size, 8, 1, file->stream) != 1 ||
        fwrite(header, 1, length, file->stream) != length)
        st = fail_write(ctx, file);
fail:
    free(header);
    return st;
}

remat_status safetensors_close(remat_context *ctx, struct safetensors *file)
{
    remat_status st = write_header(ctx, file);
    safetensors_abandon(file);
    return st;
}

void safetensors_abandon(struct safetensors *file)
{
    json_decref(file->header);
    file->header = NULL;
}

#define BUFFER_BYTES (1u << 20)

/* Through a buffer, so that saving takes no memory worth counting. */
static remat_status save_tensor(remat_context *ctx, struct safetensors *file,
                                remat_session *session, const remat_tensor_info *tensor,
                                const char *name, void *buffer)
{
    remat_status st = REMAT_OK;
    remat_tensor_info saved = safetensors_whole(tensor);
    saved.name = name;
    RUN_TRY(begin_tensor(ctx, file, &saved));
    for (uint64_t at = 0; at < saved.bytes; at += BUFFER_BYTES) {
        uint64_t bytes = saved.bytes - at < BUFFER_BYTES ? saved.bytes - at : BUFFER_BYTES;
        RUN_TRY(remat_session_read_part(session, tensor->name, at, buffer, bytes));
        if (fwrite(buffer, 1, bytes, file->stream) != bytes)
            return fail_write(ctx, file);
    }
fail:
    return st;
}

/* Bytes [at, at + bytes) of a rank's part, to where they lie in the tensor that begins at `begin`
 * and has `end` elements; the rest is padding. */
static remat_status write_runs(remat_context *ctx, struct safetensors *file, uint64_t begin,
                               const remat_tensor_info *tensor, uint64_t end, uint32_t rank,
                               uint64_t at, const char *data, uint64_t bytes)
{
    uint64_t size = element_bytes(tensor->element), until = (at + bytes) / size;
    struct part_run run;
    for (uint64_t i = at / size; i < until; i += run.count) {
        run = part_run_at(tensor->parts, rank, i, until, end);
        if (fseeko(file->stream, (off_t)(begin + run.whole * size), SEEK_SET) != 0 ||
            fwrite(data + (i * size - at), size, run.kept, file->stream) != run.kept)
            return fail_write(ctx, file);
    }
    return REMAT_OK;
}

/* Parts of all ranks, piece by piece: in the buffer this rank's, then those of all. They go where
 * they lie in the whole; `file` NULL: to nowhere, another rank writes them. */
static remat_status join_tensor(remat_context *ctx, struct safetensors *file,
                                remat_session *session, const struct peers *peers,
                                const remat_tensor_info *tensor, const char *name, char *buffer)
{
    remat_status st = REMAT_OK;
    uint64_t most = BUFFER_BYTES / (peers->engine->ranks + 1) / 4 * 4;
    uint64_t begin = file ? 8 + file->header_bytes + file->data_bytes : 0;
    remat_tensor_info whole = safetensors_whole(tensor);
    whole.name = name;
    if (file)
        RUN_TRY(begin_tensor(ctx, file, &whole));
    for (uint64_t at = 0; at < tensor->bytes; at += most) {
        uint64_t bytes = tensor->bytes - at < most ? tensor->bytes - at : most;
        RUN_TRY(remat_session_read_part(session, tensor->name, at, buffer, bytes));
        RUN_TRY(peers_gather(ctx, peers, tensor->name, at / most, bytes, buffer, buffer + bytes));
        for (uint32_t q = 0; q < tensor->parts.count && file; q++) {
            uint32_t rank = part_holder(tensor->parts, q);
            RUN_TRY(write_runs(ctx, file, begin, tensor, whole.bytes / element_bytes(whole.element),
                               rank, at, buffer + (rank + 1) * bytes, bytes));
        }
    }
    if (file && fseeko(file->stream, 0, SEEK_END) != 0)
        return fail_write(ctx, file);
fail:
    return st;
}

remat_status safetensors_join(remat_context *ctx, const remat_plan *plan, safetensors_filter *has,
                              remat_session *session, const struct peers *peers)
{
    remat_status st = REMAT_OK;
    remat_tensor_info tensor;
    char *buffer = malloc(BUFFER_BYTES);
    if (!buffer)
        RUN_FAIL(ctx, REMAT_ERROR_MEMORY, "out of memory");
    for (uint32_t i = 0; i < remat_plan_tensor_count(plan); i++)
        if (get_tensor(plan, i, has, &tensor) && tensor.parts.count > 1)
            RUN_TRY(join_tensor(ctx, NULL, session, peers, &tensor, tensor.name, buffer));
fail:
    free(buffer);
    return st;
}

remat_status safetensors_save(remat_context *ctx, struct remat_outputs *outputs, const char *path,
                              const remat_plan *plan, safetensors_filter *has, const char *prefix,
                              json_t *metadata, remat_session *session, const struct peers *peers)
{
    remat_status st = REMAT_OK;
    struct safetensors file = {0};
    remat_tensor_info tensor;
    void *buffer = malloc(BUFFER_BYTES);
    if (!buffer)
        RUN_FAIL(ctx, REMAT_ERROR_MEMORY, "out of memory");
    RUN_TRY(safetensors_open(ctx, outputs, path, plan, has, metadata, &file));
    file.prefix = prefix;
    for (uint32_t i = 0; i < remat_plan_tensor_count(plan); i++)
        if (get_tensor(plan, i, has, &tensor))
            RUN_TRY(tensor.parts.count > 1
                        ? join_tensor(ctx, &file, session, peers, &tensor, tensor.name, buffer)
                        : save_tensor(ctx, &file, session, &tensor, tensor.name, buffer));
    RUN_TRY(safetensors_close(ctx, &file));
fail:
    safetensors_abandon(&file);
    free(buffer);
    return st;
}

/* Those that a file of weights has. */
static safetensors_filter *weights_of(const remat_plan *plan)
{
    return has_adapters(plan) ? is_adapter : safetensors_is_parameter;
}

remat_status safetensors_save_weights(remat_context *ctx, struct remat_outputs *outputs,
                                      const char *path, const remat_plan *plan,
                                      remat_session *session, const struct peers *peers)
{
    char prefix[64];
    const struct family *family = family_of(plan);
    snprintf(prefix, sizeof prefix, ADAPTER_PREFIX "%s", family ? family->prefix : "");
    return safetensors_save(ctx, outputs, path, plan, weights_of(plan),
                            has_adapters(plan) ? prefix : NULL, NULL, session, peers);
}

remat_status safetensors_join_weights(remat_context *ctx, const remat_plan *plan,
                                      remat_session *session, const struct peers *peers)
{
    return safetensors_join(ctx, plan, weights_of(plan), session, peers);
}

bool safetensors_has_parts(const remat_plan *plan, safetensors_filter *has)
{
    remat_tensor_info tensor;
    for (uint32_t i = 0; i < remat_plan_tensor_count(plan); i++)
        if (get_tensor(plan, i, has, &tensor) && tensor.parts.count > 1)
            return true;
    return false;
}

static uint32_t infinity_of(remat_element element)
{
    switch (element) {
#define DTYPE(NAME, name, number, bytes, infinity, ...)                                            \
    case REMAT_ELEMENT_##NAME:                                                                     \
        return infinity;
#include <remat/dtypes.def>
    }
    return 0;
}

/* An exponent of ones is an infinity or a NaN. */
static bool is_finite(remat_element element, const void *data, uint64_t bytes)
{
    const uint32_t *words = data;
    const uint16_t *halves = data;
    uint32_t infinity = infinity_of(element);
    bool finite = true, wide = element_bytes(element) == 4;
    for (uint64_t i = 0; wide && infinity && i < bytes / 4; i++)
        finite &= (words[i] & infinity) != infinity;
    for (uint64_t i = 0; !wide && infinity && i < bytes / 2; i++)
        finite &= (halves[i] & infinity) != infinity;
    return finite;
}

/* Of this rank's. */
static remat_status check_weights(remat_context *ctx, const remat_plan *plan,
                                  remat_session *session, bool *out_finite)
{
    remat_status st = REMAT_OK;
    remat_tensor_info tensor;
    void *buffer = malloc(BUFFER_BYTES);
    if (!buffer)
        RUN_FAIL(ctx, REMAT_ERROR_MEMORY, "out of memory");
    *out_finite = true;
    for (uint32_t i = 0; i < remat_plan_tensor_count(plan); i++)
        for (uint64_t at = 0; get_parameter(plan, i, &tensor) && at < tensor.bytes;
             at += BUFFER_BYTES) {
            uint64_t bytes = tensor.bytes - at < BUFFER_BYTES ? tensor.bytes - at : BUFFER_BYTES;
            RUN_TRY(remat_session_read_part(session, tensor.name, at, buffer, bytes));
            *out_finite &= is_finite(tensor.element, buffer, bytes);
        }
fail:
    free(buffer);
    return st;
}

remat_status safetensors_check_weights(remat_context *ctx, const remat_plan *plan,
                                       remat_session *session, const struct peers *peers,
                                       bool *out_finite)
{
    remat_status st = check_weights(ctx, plan, session, out_finite);
    if (st || !safetensors_has_parts(plan, safetensors_is_parameter))
        return st;
    bool infinite = !*out_finite;
    st = peers_any(ctx, peers, "weights that are not finite", 0, &infinite);
    *out_finite = !infinite;
    return st;
}

remat_status safetensors_add_accumulators(remat_context *ctx, struct safetensors *file,
                                          const remat_plan *plan, remat_session *session,
                                          const struct peers *peers)
{
    remat_status st = REMAT_OK;
    remat_tensor_info parameter;
    char *name = NULL;
    void *buffer = malloc(BUFFER_BYTES);
    if (!buffer)
        RUN_FAIL(ctx, REMAT_ERROR_MEMORY, "out of memory");
    for (uint32_t i = 0; i < remat_plan_tensor_count(plan); i++) {
        remat_tensor_info gradient = {.struct_size = sizeof gradient};
        if (!get_parameter(plan, i, &parameter))
            continue;
        if (asprintf(&name, "%s.grad", parameter.name) < 0) {
            name = NULL;
            RUN_FAIL(ctx, REMAT_ERROR_MEMORY, "out of memory");
        }
        if (remat_plan_get_tensor(plan, remat_plan_find_tensor(plan, name), &gradient) &&
            gradient.role == REMAT_TENSOR_GRADIENT) {
            gradient.unpadded_rows = parameter.unpadded_rows;
            if (gradient.parts.count > 1)
                RUN_TRY(join_tensor(ctx, file, session, peers, &gradient, parameter.name, buffer));
            else if (file)
                RUN_TRY(save_tensor(ctx, file, session, &gradient, parameter.name, buffer));
        }
        free(name);
        name = NULL;
    }
fail:
    free(name);
    free(buffer);
    return st;
}
