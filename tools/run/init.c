/* SPDX-License-Identifier: Apache-2.0 */
#include "init.h"

#include "parts.h"
#include "safetensors.h"

#include <math.h>
#include <stdlib.h>

#define CHUNK_ELEMENTS (1u << 18)
#define MASTER_SUFFIX  ".master"

/* --- which tensor is which parameter --- */

static bool get_tensor(const remat_plan *plan, uint32_t index, remat_tensor_info *out)
{
    *out = (remat_tensor_info){.struct_size = sizeof *out};
    return remat_plan_get_tensor(plan, index, out);
}

static bool find_parameter(const remat_plan *plan, const char *name, uint32_t *index,
                           remat_tensor_info *out)
{
    *index = name ? remat_plan_find_tensor(plan, name) : UINT32_MAX;
    return get_tensor(plan, *index, out) && out->role == REMAT_TENSOR_PARAMETER;
}

/* What a tensor of a file is: a parameter, index UINT32_MAX: none; else an extra tensor, or NULL.
 */
static uint32_t resolve(const remat_plan *plan, const struct family *family, const char *name,
                        const struct extra_tensor **extra)
{
    struct family_names names = {.names = {name}};
    remat_tensor_info parameter;
    uint32_t index;
    *extra = NULL;
    if (family)
        family_names(family, name, &names);
    for (int i = 0; i < 2; i++)
        if (find_parameter(plan, names.names[i], &index, &parameter))
            return index;
    for (int i = 0; i < 2 && family && !*extra; i++)
        *extra = names.names[i] ? family_extra(family, names.names[i]) : NULL;
    return UINT32_MAX;
}

/* The elements of a file, their bits of infinity and bytes; bytes 0: no floats. */
struct file_floats {
    uint32_t infinity, bytes;
};

static struct file_floats floats_of(const struct safetensors_tensor *tensor)
{
#define FLOAT_DTYPE(NAME, name, number, bytes, infinity, file, ...)                                \
    if (strcmp(tensor->dtype, file) == 0)                                                          \
        return (struct file_floats){infinity, bytes};
#include <remat/dtypes.def>
    return (struct file_floats){0};
}

static const char read_dtypes[] = /* ", F32, BF16, F16" */
#define FLOAT_DTYPE(NAME, name, number, bytes, infinity, file, ...) ", " file
#include <remat/dtypes.def>
    ;

static uint16_t round_bf16(uint32_t bits)
{
    if ((bits & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(bits >> 16 | 0x40); /* NaN stays one */
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* From the bits of f32; NULL: none. */
static uint16_t (*rounding_to(remat_element element))(uint32_t bits)
{
    switch (element) {
#define ROUNDED_DTYPE(NAME, name, ...)                                                             \
    case REMAT_ELEMENT_##NAME:                                                                     \
        return round_##name;
#include <remat/dtypes.def>
    default:
        return NULL;
    }
}

static remat_status check_fit(remat_context *ctx, const char *path,
                              const struct safetensors_tensor *tensor,
                              const remat_tensor_info *parameter)
{
    remat_tensor_info whole = safetensors_whole(parameter);
    if (tensor->rank != whole.rank ||
        memcmp(tensor->shape, whole.shape, tensor->rank * sizeof *tensor->shape) != 0)
        return cli_error(ctx, REMAT_ERROR_INVALID,
                         "%s: tensor \"%s\" has shape %s, in the plan it has %s", path,
                         tensor->name, shape_text(tensor->shape, tensor->rank).text,
                         shape_text(whole.shape, whole.rank).text);
    if (!floats_of(tensor).bytes)
        return cli_error(ctx, REMAT_ERROR_INVALID,
                         "%s: tensor \"%s\" is of dtype %s (accepted: %s)", path, tensor->name,
                         tensor->dtype, read_dtypes + 2);
    if (parameter->element != REMAT_ELEMENT_F32 && !rounding_to(parameter->element))
        return cli_error(ctx, REMAT_ERROR_INVALID,
                         "%s: parameter \"%s\" of the plan is of dtype %s, which no weights are "
                         "read into",
                         path, parameter->name, safetensors_dtype(parameter->element));
    return REMAT_OK;
}

static bool is_checkpoint(const struct safetensors_file *file)
{
    const json_t *metadata = json_object_get(file->header, "__metadata__");
    const char *format = json_string_value(json_object_get(metadata, "format"));
    return format && strncmp(format, "remat-checkpoint/", 17) == 0;
}

/* `given`: of each tensor of the plan, whether a file has it. */
static remat_status match_tensor(remat_context *ctx, struct weights_file *weights,
                                 const struct family *family, uint32_t i, bool *given)
{
    const struct safetensors_tensor *tensor = &weights->file.tensors[i];
    const struct extra_tensor *extra;
    remat_tensor_info parameter;
    uint32_t index = resolve(weights->plan, family, tensor->name, &extra);
    weights->parameters[i] = index;
    if (extra)
        return REMAT_OK;
    if (!get_tensor(weights->plan, index, &parameter))
        return cli_error(
            ctx, REMAT_ERROR_INVALID, "%s: tensor \"%s\", %s %s, is no parameter of the plan%s",
            weights->file.path, tensor->name, tensor->dtype,
            shape_text(tensor->shape, tensor->rank).text,
            is_checkpoint(&weights->file) ? ": it is of a checkpoint, with which --resume goes on"
                                          : "");
    if (given[index])
        return cli_error(ctx, REMAT_ERROR_INVALID, "%s: parameter \"%s\" is there twice",
                         weights->file.path, parameter.name);
    given[index] = true;
    return check_fit(ctx, weights->file.path, tensor, &parameter);
}

static remat_status open_file(remat_context *ctx, const char *path, const remat_plan *plan,
                              bool *given, struct weights_file *out)
{
    remat_status st = REMAT_OK;
    const struct family *family = family_of(plan);
    out->plan = plan;
    RUN_TRY(safetensors_read_file(ctx, path, &out->file));
    out->parameters = calloc(out->file.count + 1, sizeof *out->parameters);
    if (!out->parameters)
        RUN_FAIL(ctx, REMAT_ERROR_MEMORY, "%s: out of memory", path);
    for (uint32_t i = 0; i < out->file.count; i++)
        RUN_TRY(match_tensor(ctx, out, family, i, given));
fail:
    return st;
}

struct missing {
    remat_tensor_info first;
    uint32_t count;
    bool head_alone; /* nothing of the body */
};

static struct missing find_missing(const remat_plan *plan, const bool *given)
{
    const struct family *family = family_of(plan);
    struct missing out = {.head_alone = family && *family->body};
    bool adapters = false;
    remat_tensor_info tensor;
    for (uint32_t i = 0; i < remat_plan_tensor_count(plan); i++)
        adapters |= given[i] && get_tensor(plan, i, &tensor) && is_adapter(&tensor);
    for (uint32_t i = 0; i < remat_plan_tensor_count(plan); i++) {
        if (given[i] || !get_tensor(plan, i, &tensor) || tensor.role != REMAT_TENSOR_PARAMETER ||
            (is_adapter(&tensor) && !adapters))
            continue;
        if (!out.count++)
            out.first = safetensors_whole(&tensor);
        out.head_alone =
            out.head_alone && strncmp(tensor.name, family->body, strlen(family->body)) != 0;
    }
    return out;
}

/* Names of the body have its prefix, so it was no AutoModel that was saved. */
static bool has_body(const struct initial_weights *weights, const struct family *family)
{
    for (uint32_t i = 0; i < weights->count; i++)
        for (uint32_t k = 0; k < weights->files[i].file.count; k++)
            if (strncmp(weights->files[i].file.tensors[k].name, family->body,
                        strlen(family->body)) == 0)
                return true;
    return false;
}

struct weights_advice {
    char text[256];
};

/* Where all that is missing is the head. */
static struct weights_advice advise_head(const struct initial_weights *weights,
                                         const struct family *family, const char *name)
{
    struct weights_advice out;
    const struct extra_tensor *tied = family_extra(family, name);
    bool whole = has_body(weights, family);
    if (whole && tied && tied->must_be == EXTRA_EQUAL)
        snprintf(out.text, sizeof out.text,
                 ": the file's model has \"%s\" as its head: make the graph of its config.json, "
                 "with \"tie_word_embeddings\": true",
                 tied->other);
    else
        snprintf(out.text, sizeof out.text, ": all of the head: save the model as %s%s",
                 family->whole, whole ? "" : ", not as AutoModel");
    return out;
}

static remat_status check_given(remat_context *ctx, const char *path, const remat_plan *plan,
                                const bool *given, const struct initial_weights *weights)
{
    char others[32] = "";
    struct weights_advice head = {""};
    const struct missing missing = find_missing(plan, given);
    const remat_tensor_info *first = &missing.first;
    if (!missing.count)
        return REMAT_OK;
    if (missing.count > 1)
        snprintf(others, sizeof others, ", with %u more", missing.count - 1);
    if (missing.head_alone)
        head = advise_head(weights, family_of(plan), first->name);
    return cli_error(ctx, REMAT_ERROR_INVALID,
                     "%s: tensor \"%s\", %s %s in the plan, is missing%s%s", path, first->name,
                     safetensors_dtype(first->element), shape_text(first->shape, first->rank).text,
                     others, head.text);
}

remat_status initial_weights_open(remat_context *ctx, const char *const *paths, uint32_t count,
                                  const remat_plan *plan, struct initial_weights *out)
{
    remat_status st = REMAT_OK;
    bool *given = calloc(remat_plan_tensor_count(plan) + 1, sizeof *given);
    *out = (struct initial_weights){.files = calloc(count, sizeof *out->files)};
    if (!given || !out->files)
        RUN_FAIL(ctx, REMAT_ERROR_MEMORY, "%s: out of memory", paths[0]);
    while (out->count < count) {
        uint32_t i = out->count++;
        RUN_TRY(open_file(ctx, paths[i], plan, given, &out->files[i]));
    }
    RUN_TRY(check_given(ctx, count == 1 ? paths[0] : "the files of --init", plan, given, out));
fail:
    free(given);
    return st;
}

void initial_weights_release(struct initial_weights *weights)
{
    for (uint32_t i = 0; i < weights->count; i++) {
        safetensors_release(&weights->files[i].file);
        free(weights->files[i].parameters);
    }
    free(weights->files);
    *weights = (struct initial_weights){0};
}

/* --- data --- */

struct chunk {
    uint16_t halves[CHUNK_ELEMENTS];
    uint32_t f32[CHUNK_ELEMENTS], other[CHUNK_ELEMENTS];
};

/* The bits of f32 of a float of fewer. */
static uint32_t widen(uint32_t x, struct file_floats from)
{
    uint32_t bits, places = (uint32_t)__builtin_ctz(from.infinity); /* of the fraction */
    uint32_t most = from.infinity >> places, exponent = x >> places & most;
    uint32_t sign = (x & (from.infinity + (1u << places))) << (32 - 8 * from.bytes);
    uint32_t fraction = x & ((1u << places) - 1), bias = 127 - most / 2;
    float subnormal = ldexpf((float)fraction, (int)bias - 126 - (int)places);
    if (exponent || !bias)
        return sign | (exponent == most ? 255 : exponent + bias) << 23 | fraction << (23 - places);
    memcpy(&bits, &subnormal, sizeof bits);
    return sign | bits;
}

/* Elements [begin, begin + count) of a tensor of floats as the bits of f32. */
static remat_status read_f32(remat_context *ctx, const struct safetensors_file *file,
                             const struct safetensors_tensor *tensor, uint64_t begin,
                             uint64_t count, struct chunk *chunk, uint32_t *out)
{
    remat_status st = REMAT_OK;
    struct file_floats from = floats_of(tensor);
    if (from.bytes == 4)
        return safetensors_read_part(ctx, file, tensor, 4 * begin, out, 4 * count);
    RUN_TRY(safetensors_read_part(ctx, file, tensor, 2 * begin, chunk->halves, 2 * count));
    for (uint64_t i = 0; i < count; i++)
        out[i] = widen(chunk->halves[i], from);
fail:
    return st;
}

static uint64_t element_count(const remat_tensor_info *tensor)
{
    return tensor->bytes / element_bytes(tensor->element);
}

static remat_status write_elements(remat_session *session, const remat_tensor_info *to,
                                   uint64_t begin, uint64_t count, const uint32_t *f32,
                                   uint16_t *rounded)
{
    uint16_t (*rounding)(uint32_t bits) = rounding_to(to->element);
    if (!rounding)
        return remat_session_write_part(session, to->name, 4 * begin, f32, 4 * count);
    for (uint64_t i = 0; i < count; i++)
        rounded[i] = rounding(f32[i]);
    return remat_session_write_part(session, to->name, 2 * begin, rounded, 2 * count);
}

/* Of the elements [begin, end) of the whole in `chunk` those that rank `rank` has, from number *at
 * of its part on, which comes after those that it has of earlier ones. */
static remat_status write_chunk(remat_session *session, const remat_tensor_info *to, uint32_t rank,
                                uint64_t begin, uint64_t end, struct chunk *chunk, uint64_t *at)
{
    remat_status st = REMAT_OK;
    uint64_t elements = element_count(to);
    while (*at < elements && st == REMAT_OK) {
        struct part_run run = part_run_at(to->parts, rank, *at, elements, end);
        if (run.kept == 0)
            break;
        st = write_elements(session, to, *at, run.kept, chunk->f32 + (run.whole - begin),
                            chunk->halves);
        *at += run.kept;
    }
    return st;
}

/* Into the parameter, and into its master if it has one. */
static remat_status write_parameter(remat_context *ctx, const struct weights_file *weights,
                                    uint32_t i, uint32_t rank, remat_session *session,
                                    struct chunk *chunk)
{
    remat_status st = REMAT_OK;
    const struct safetensors_tensor *from = &weights->file.tensors[i];
    remat_tensor_info to, whole, master;
    char *name;
    get_tensor(weights->plan, weights->parameters[i], &to);
    if (asprintf(&name, "%s" MASTER_SUFFIX, to.name) < 0)
        return cli_error(ctx, REMAT_ERROR_MEMORY, "out of memory");
    bool has_master =
        get_tensor(weights->plan, remat_plan_find_tensor(weights->plan, name), &master);
    whole = safetensors_whole(&to);
    uint64_t total = element_count(&whole), written = 0, master_written = 0;
    for (uint64_t at = 0; at < total; at += CHUNK_ELEMENTS) {
        uint64_t end = total - at < CHUNK_ELEMENTS ? total : at + CHUNK_ELEMENTS;
        RUN_TRY(read_f32(ctx, &weights->file, from, at, end - at, chunk, chunk->f32));
        RUN_TRY(write_chunk(session, &to, rank, at, end, chunk, &written));
        if (has_master)
            RUN_TRY(write_chunk(session, &master, rank, at, end, chunk, &master_written));
    }
fail:
    free(name);
    return st;
}

static remat_status check_zero(remat_context *ctx, const struct safetensors_file *file,
                               const struct safetensors_tensor *tensor, struct chunk *chunk)
{
    remat_status st = REMAT_OK;
    const char *bytes = (const char *)chunk->other;
    for (uint64_t at = 0; at < tensor->bytes; at += sizeof chunk->other) {
        uint64_t count =
            tensor->bytes - at < sizeof chunk->other ? tensor->bytes - at : sizeof chunk->other;
        RUN_TRY(safetensors_read_part(ctx, file, tensor, at, chunk->other, count));
        for (uint64_t i = 0; i < count; i++)
            if (bytes[i])
                RUN_FAIL(ctx, REMAT_ERROR_INVALID,
                         "%s: tensor \"%s\" is not all zeros, and the plan has nothing like it",
                         file->path, tensor->name);
    }
fail:
    return st;
}

static remat_status check_equal(remat_context *ctx, const struct safetensors_file *file,
                                const struct safetensors_tensor *tensor,
                                const struct safetensors_file *other_file,
                                const struct safetensors_tensor *other, struct chunk *chunk)
{
    remat_status st = REMAT_OK;
    bool equal = strcmp(tensor->dtype, other->dtype) == 0 && tensor->bytes == other->bytes;
    for (uint64_t at = 0; equal && at < tensor->bytes; at += sizeof chunk->f32) {
        uint64_t count =
            tensor->bytes - at < sizeof chunk->f32 ? tensor->bytes - at : sizeof chunk->f32;
        RUN_TRY(safetensors_read_part(ctx, file, tensor, at, chunk->f32, count));
        RUN_TRY(safetensors_read_part(ctx, other_file, other, at, chunk->other, count));
        equal = memcmp(chunk->f32, chunk->other, count) == 0;
    }
    if (!equal)
        RUN_FAIL(ctx, REMAT_ERROR_INVALID,
                 "%s: tensor \"%s\" differs from \"%s\", which the plan has in its place",
                 file->path, tensor->name, other->name);
fail:
    return st;
}

/* The copy of the tensor may be in another file, as a table and its head are in shards. */
static remat_status check_tied(remat_context *ctx, const struct initial_weights *weights,
                               const struct safetensors_file *file,
                               const struct safetensors_tensor *tensor, uint32_t parameter,
                               struct chunk *chunk)
{
    for (uint32_t i = 0; i < weights->count; i++) {
        const struct weights_file *from = &weights->files[i];
        for (uint32_t k = 0; k < from->file.count; k++)
            if (from->parameters[k] == parameter)
                return check_equal(ctx, file, tensor, &from->file, &from->file.tensors[k], chunk);
    }
    return REMAT_OK;
}

static remat_status check_extra(remat_context *ctx, const struct initial_weights *weights,
                                const struct weights_file *from, uint32_t i, struct chunk *chunk)
{
    const struct safetensors_tensor *tensor = &from->file.tensors[i];
    const struct extra_tensor *extra;
    resolve(from->plan, family_of(from->plan), tensor->name, &extra);
    if (extra->must_be == EXTRA_ZERO)
        return check_zero(ctx, &from->file, tensor, chunk);
    uint32_t other = extra->must_be == EXTRA_EQUAL
                         ? remat_plan_find_tensor(from->plan, extra->other)
                         : UINT32_MAX;
    return other == UINT32_MAX ? REMAT_OK
                               : check_tied(ctx, weights, &from->file, tensor, other, chunk);
}

static remat_status write_file(remat_context *ctx, const struct initial_weights *weights,
                               const struct weights_file *from, uint32_t rank,
                               remat_session *session, struct chunk *chunk)
{
    remat_status st = REMAT_OK;
    for (uint32_t i = 0; i < from->file.count; i++)
        if (from->parameters[i] != UINT32_MAX)
            RUN_TRY(write_parameter(ctx, from, i, rank, session, chunk));
        else
            RUN_TRY(check_extra(ctx, weights, from, i, chunk));
fail:
    return st;
}

remat_status initial_weights_write(remat_context *ctx, const struct initial_weights *weights,
                                   uint32_t rank, remat_session *session)
{
    remat_status st = REMAT_OK;
    struct chunk *chunk = malloc(sizeof *chunk);
    if (!chunk)
        return cli_error(ctx, REMAT_ERROR_MEMORY, "out of memory");
    for (uint32_t i = 0; i < weights->count; i++)
        RUN_TRY(write_file(ctx, weights, &weights->files[i], rank, session, chunk));
fail:
    free(chunk);
    return st;
}
