/* SPDX-License-Identifier: Apache-2.0 */
#include "device_description.h"

#include <jansson.h>

#include "device_table.h"

struct reader {
    remat_context *ctx;
    const char *name;   /* starts every message: "built-in description" or a path */
    const char *object; /* "matmul." within an object, else "" */
};

static remat_status fail_key(const struct reader *r, const char *key, const char *what)
{
    return remat_error(r->ctx, REMAT_ERROR_INVALID, "%s: \"%s%s\" %s", r->name, r->object, key,
                       what);
}

/* Every key is known and once there, and none is missing but those listed with a "?" before. */
static remat_status check_keys(const struct reader *r, json_t *object, const char *const *keys)
{
    const char *key;
    json_t *item;
    json_object_foreach(object, key, item)
    {
        uint32_t k = 0;
        while (keys[k] && strcmp(keys[k] + (*keys[k] == '?'), key) != 0)
            k++;
        if (!keys[k])
            return fail_key(r, key, "is unknown");
    }
    for (uint32_t k = 0; keys[k]; k++)
        if (*keys[k] != '?' && !json_object_get(object, keys[k]))
            return fail_key(r, keys[k], "is missing");
    return REMAT_OK;
}

enum kind { INTEGER, NUMBER, NUMBER_OR_0 };

static const struct range {
    const char *key, *text;
    enum kind kind;
    double least, most;
} ranges[] = {
#define RANGE(key, kind, least, most) {key, "from " #least " to " #most, kind, least, most},
#include "device_ranges.def"
#undef RANGE
};

static bool has_name(const struct range *range, const char *object, const char *key)
{
    size_t prefix = strlen(object);
    return strncmp(range->key, object, prefix) == 0 && strcmp(range->key + prefix, key) == 0;
}

static remat_status read_number(const struct reader *r, json_t *object, const char *key,
                                double *out)
{
    static const char *const kinds[] = {"an integer", "a number", "0 or a number"};
    const struct range *range = ranges;
    json_t *item = json_object_get(object, key);
    while (!has_name(range, r->object, key))
        range++;
    *out = json_number_value(item);
    bool known = range->kind == INTEGER ? json_is_integer(item) : json_is_number(item);
    bool within = *out >= range->least && *out <= range->most;
    if (known && (within || (range->kind == NUMBER_OR_0 && *out == 0)))
        return REMAT_OK;
    return remat_error(r->ctx, REMAT_ERROR_INVALID, "%s: \"%s\" must be %s %s", r->name, range->key,
                       kinds[range->kind], range->text);
}

static remat_status read_bytes(const struct reader *r, json_t *object, const char *key,
                               uint64_t *out)
{
    double number; /* exact: below 2^53 */
    remat_status st = read_number(r, object, key, &number);
    *out = st == REMAT_OK ? (uint64_t)number : 0;
    return st;
}

static remat_status read_count(const struct reader *r, json_t *object, const char *key,
                               uint32_t *out)
{
    uint64_t number;
    remat_status st = read_bytes(r, object, key, &number);
    *out = (uint32_t)number;
    return st;
}

/* Enters the object root[key], which has these keys; `prefix` is "key.". */
static remat_status enter(const struct reader *r, json_t *root, const char *key, const char *prefix,
                          const char *const *keys, struct reader *inner, json_t **out)
{
    *out = json_object_get(root, key);
    *inner = (struct reader){r->ctx, r->name, prefix};
    return json_is_object(*out) ? check_keys(inner, *out, keys)
                                : fail_key(r, key, "must be an object");
}

/* {"PEAK": per second, "efficiency": share of it} -> achievable per nanosecond */
static remat_status read_rate(const struct reader *r, json_t *root, const char *key,
                              const char *prefix, const char *peak, double *out)
{
    remat_status st = REMAT_OK;
    struct reader inner;
    json_t *object;
    double per_second, efficiency;
    REMAT_TRY(
        enter(r, root, key, prefix, (const char *[]){peak, "efficiency", NULL}, &inner, &object));
    REMAT_TRY(read_number(&inner, object, peak, &per_second));
    REMAT_TRY(read_number(&inner, object, "efficiency", &efficiency));
    *out = per_second * efficiency / 1e9;
fail:
    return st;
}

static remat_status read_matmul(const struct reader *r, json_t *root,
                                struct remat_device_description *out)
{
    static const char *const keys[] = {"fp32_flops_per_s", "tf32_flops_per_s", "bf16_flops_per_s",
                                       "fp16_flops_per_s", "efficiency",       "processors",
                                       "tile_rows",        "tile_columns",     NULL};
    double *const rates[] = {&out->matmul_flops_per_ns[REMAT_F32], &out->matmul_tf32_flops_per_ns,
                             &out->matmul_flops_per_ns[REMAT_BF16],
                             &out->matmul_flops_per_ns[REMAT_F16]};
    remat_status st = REMAT_OK;
    struct reader inner;
    json_t *object;
    REMAT_TRY(enter(r, root, "matmul", "matmul.", keys, &inner, &object));
    for (uint32_t i = 0; i < 4; i++) {
        REMAT_TRY(read_number(&inner, object, keys[i], rates[i]));
        *rates[i] /= 1e9;
    }
    REMAT_TRY(read_number(&inner, object, "efficiency", &out->matmul_efficiency));
    REMAT_TRY(read_count(&inner, object, "processors", &out->processors));
    REMAT_TRY(read_count(&inner, object, "tile_rows", &out->tile_rows));
    REMAT_TRY(read_count(&inner, object, "tile_columns", &out->tile_columns));
fail:
    return st;
}

static remat_status read_attention(const struct reader *r, json_t *root,
                                   struct remat_device_description *out)
{
    static const char *const keys[] = {"forward_efficiency",  "forward_half_keys",
                                       "backward_efficiency", "backward_half_keys",
                                       "half_width",          NULL};
    struct remat_attention_rate *const rates[] = {&out->attention_forward,
                                                  &out->attention_backward};
    remat_status st = REMAT_OK;
    struct reader inner;
    json_t *object;
    REMAT_TRY(enter(r, root, "attention", "attention.", keys, &inner, &object));
    for (uint32_t i = 0; i < 2; i++) {
        REMAT_TRY(read_number(&inner, object, keys[2 * i], &rates[i]->efficiency));
        REMAT_TRY(read_number(&inner, object, keys[2 * i + 1], &rates[i]->half_keys));
    }
    REMAT_TRY(read_number(&inner, object, keys[4], &out->attention_half_width));
fail:
    return st;
}

static remat_status read_gpus(const struct reader *r, struct remat_arena *arena, json_t *object,
                              struct remat_device_description *out)
{
    json_t *gpus = json_object_get(object, "gpus");
    if (json_array_size(gpus) == 0)
        return fail_key(r, "gpus", "must be an array of names, not empty");
    REMAT_NEW(arena, out->gpus, json_array_size(gpus));
    for (size_t g = 0; g < json_array_size(gpus); g++) {
        json_t *name = json_array_get(gpus, g);
        if (!json_is_string(name))
            return fail_key(r, "gpus", "must be an array of names, not empty");
        out->gpus[g] = remat_string(arena, json_string_value(name), json_string_length(name));
        out->gpu_count++;
    }
    return REMAT_OK;
}

/* {"arch": "sm_90", "gpus": [names], "workspace_bytes": of the arena}; devices other than CUDA's
 * have none. */
static remat_status read_cuda(const struct reader *r, struct remat_arena *arena, json_t *root,
                              struct remat_device_description *out)
{
    static const char *const keys[] = {"arch", "gpus", "workspace_bytes", NULL};
    remat_status st = REMAT_OK;
    struct reader inner;
    json_t *object;
    if (!json_object_get(root, "cuda"))
        return REMAT_OK;
    REMAT_TRY(enter(r, root, "cuda", "cuda.", keys, &inner, &object));
    const char *arch = json_string_value(json_object_get(object, "arch"));
    if (!arch || strncmp(arch, "sm_", 3) != 0)
        return fail_key(&inner, "arch", "must be a string as \"sm_90\"");
    out->cuda_arch = remat_string(arena, arch, strlen(arch));
    REMAT_TRY(read_gpus(&inner, arena, object, out));
    REMAT_TRY(read_bytes(&inner, object, "workspace_bytes", &out->workspace_bytes));
fail:
    return st;
}

static remat_status read_description(const struct reader *r, struct remat_arena *arena,
                                     json_t *root, struct remat_device_description *out)
{
    static const char *const keys[] = {
        "name",   "source",    "capacity_bytes", "reserve_bytes", "launch_ns", "memory",
        "matmul", "attention", "pointwise",      "?cuda",         NULL};
    remat_status st = REMAT_OK;
    if (!json_is_object(root))
        return remat_error(r->ctx, REMAT_ERROR_INVALID, "%s: not an object", r->name);
    REMAT_TRY(check_keys(r, root, keys));
    json_t *name = json_object_get(root, "name");
    if (!json_is_string(name) || json_string_length(name) == 0)
        return fail_key(r, "name", "must be a string that is not empty");
    if (!json_is_string(json_object_get(root, "source")))
        return fail_key(r, "source", "must be a string");
    *out = (struct remat_device_description){
        .name = remat_string(arena, json_string_value(name), json_string_length(name))};
    REMAT_TRY(read_bytes(r, root, "capacity_bytes", &out->capacity_bytes));
    REMAT_TRY(read_bytes(r, root, "reserve_bytes", &out->reserve_bytes));
    REMAT_TRY(read_number(r, root, "launch_ns", &out->launch_ns));
    REMAT_TRY(
        read_rate(r, root, "memory", "memory.", "peak_bytes_per_s", &out->memory_bytes_per_ns));
    REMAT_TRY(read_rate(r, root, "pointwise", "pointwise.", "peak_flops_per_s",
                        &out->pointwise_flops_per_ns));
    REMAT_TRY(read_matmul(r, root, out));
    REMAT_TRY(read_attention(r, root, out));
    REMAT_TRY(read_cuda(r, arena, root, out));
fail:
    return st;
}

static remat_status parse(remat_context *ctx, struct remat_arena *arena, const char *name,
                          const char *text, size_t bytes, struct remat_device_description *out)
{
    json_error_t error;
    struct reader reader = {ctx, name, ""};
    json_t *root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);
    if (!root)
        return remat_error(ctx, REMAT_ERROR_INVALID, "%s:%d: %s", name, error.line, error.text);
    remat_status st = read_description(&reader, arena, root, out);
    json_decref(root);
    return st;
}

static remat_status fail_unknown(remat_context *ctx, struct remat_arena *arena, const char *name)
{
    struct remat_text names = {.arena = arena};
    for (unsigned i = 0; i < remat_device_text_count; i++)
        remat_text_append(&names, "%s%s", i ? ", " : "", remat_device_names[i]);
    return remat_error(ctx, REMAT_ERROR_USAGE,
                       "--target '%s' is unknown (accepted: %s, or a description file NAME.json)",
                       name, names.items ? names.items : "");
}

remat_status remat_device_description_read(remat_context *ctx, struct remat_arena *arena,
                                           const char *name, struct remat_device_description *out)
{
    remat_status st = REMAT_OK;
    char *text;
    size_t bytes, length = strlen(name);
    for (unsigned i = 0; i < remat_device_text_count; i++)
        if (strcmp(remat_device_texts[i].name, name) == 0)
            return parse(ctx, arena, name, remat_device_texts[i].json,
                         strlen(remat_device_texts[i].json), out);
    if (length < 5 || strcmp(name + length - 5, ".json") != 0)
        return fail_unknown(ctx, arena, name);
    REMAT_TRY(remat_file_read(ctx, name, arena, &text, &bytes));
    REMAT_TRY(parse(ctx, arena, name, text, bytes, out));
fail:
    return st;
}

const char *const *remat_device_description_names(void)
{
    return remat_device_names;
}
