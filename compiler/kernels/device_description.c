/* SPDX-License-Identifier: Apache-2.0 */
/* A description is a JSON object whose keys are numbers, texts and objects of them. A path names
 * one of them: "launch_ns", "memory.efficiency". All are read and checked first, then taken by
 * path. "threads" has, for each number of threads, the keys that differ with it: they replace the
 * others before anything is read. */
#include "device_description.h"

#include <ctype.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <strings.h>

#include "file.h"
#include "suggest.h"

enum kind { INTEGER, NUMBER, NUMBER_OR_0, FACTOR /* 1 if missing */, TEXT, NAMES };

static const struct key {
    const char *path, *text;
    enum kind kind;
    double least, most;
} keys[] = {
    {"name", "must be a string that is not empty", TEXT, 0, 0},
    {"source", "must be a string", TEXT, 0, 0},
    {"cuda.arch", "must be a string as \"sm_90\"", TEXT, 0, 0},
    {"cuda.gpus", "must be an array of names, not empty", NAMES, 0, 0},
    {"rocm.arch", "must be a string as \"gfx942\"", TEXT, 0, 0},
#define INTEGER_TEXT     "must be an integer"
#define NUMBER_TEXT      "must be a number"
#define NUMBER_OR_0_TEXT "must be 0 or a number"
#define FACTOR_TEXT      NUMBER_TEXT
#define RANGE(path, kind, least, most)                                                             \
    {path, kind##_TEXT " from " #least " to " #most, kind, least, most},
#include "device_ranges.def"
#undef RANGE
};
enum { KEYS = sizeof keys / sizeof *keys, NAME_MOST = 63 /* longer names mean none */ };

struct description_reader {
    remat_context *ctx;
    struct remat_arena *arena;
    const char *name; /* starts every message: "built-in description" or a path */
    char prefix[32];  /* of the paths in messages: "threads.2." */
    json_t *root;
    json_t *items[KEYS]; /* NULL: of an object that may be missing */
    struct remat_device_description *out;
};

static remat_status fail(const struct description_reader *r, const char *path, const char *what)
{
    return remat_error(r->ctx, REMAT_ERROR_INVALID, "%s: \"%s%s\" %s", r->name, r->prefix, path,
                       what);
}

/* True if some key has this path, or a path that continues it. */
static bool is_known(const char *path)
{
    size_t length = strlen(path);
    for (uint32_t k = 0; k < KEYS; k++)
        if (strncmp(keys[k].path, path, length) == 0 && strchr(".", keys[k].path[length]))
            return true;
    return false;
}

/* "cuda" and "rocm" are of GPUs, "links" for plans of several ranks. */
static bool may_be_missing(const char *object)
{
    return strcmp(object, "cuda") == 0 || strcmp(object, "rocm") == 0 ||
           strcmp(object, "links") == 0;
}

/* `object` is what is at `prefix`, which is "" or ends in a dot. */
static remat_status check_known(const struct description_reader *r, json_t *object,
                                const char *prefix)
{
    const char *key;
    json_t *item;
    json_object_foreach(object, key, item)
    {
        char path[256];
        snprintf(path, sizeof path, "%s%s", prefix, key);
        if (strchr(key, '.') || !is_known(path))
            return fail(r, path, "is unknown");
    }
    return REMAT_OK;
}

static bool fits(const struct key *key, json_t *item)
{
    double number = json_number_value(item);
    switch (key->kind) {
    case TEXT:
        return json_is_string(item);
    case NAMES:
        for (size_t i = 0; i < json_array_size(item); i++)
            if (!json_is_string(json_array_get(item, i)))
                return false;
        return json_array_size(item) > 0;
    default:
        if (key->kind == INTEGER ? !json_is_integer(item) : !json_is_number(item))
            return false;
        return (number >= key->least && number <= key->most) ||
               (key->kind == NUMBER_OR_0 && number == 0);
    }
}

static remat_status read_items(struct description_reader *r)
{
    if (!json_is_object(r->root))
        return remat_error(r->ctx, REMAT_ERROR_INVALID, "%s: not an object", r->name);
    memset(r->items, 0, sizeof r->items); /* of a root before */
    REMAT_CHECK(check_known(r, r->root, ""));
    for (uint32_t k = 0; k < KEYS; k++) {
        const char *path = keys[k].path, *dot = strchr(path, '.');
        json_t *object = r->root;
        char name[32];
        if (dot) {
            snprintf(name, sizeof name, "%.*s", (int)(dot - path), path);
            object = json_object_get(r->root, name);
            if (!object && may_be_missing(name))
                continue;
            if (!json_is_object(object))
                return fail(r, name, object ? "must be an object" : "is missing");
            snprintf(name, sizeof name, "%.*s", (int)(dot + 1 - path), path);
            REMAT_CHECK(check_known(r, object, name));
        }
        r->items[k] = json_object_get(object, dot ? dot + 1 : path);
        if (!r->items[k] && keys[k].kind == FACTOR)
            continue;
        if (!r->items[k] || !fits(&keys[k], r->items[k]))
            return fail(r, path, r->items[k] ? keys[k].text : "is missing");
    }
    return REMAT_OK;
}

static json_t *item(const struct description_reader *r, const char *path)
{
    uint32_t k = 0;
    while (strcmp(keys[k].path, path) != 0)
        k++;
    return r->items[k];
}

static double number(const struct description_reader *r, const char *path)
{
    return json_number_value(item(r, path));
}

static const char *text(struct remat_arena *arena, json_t *string)
{
    return remat_string(arena, json_string_value(string), json_string_length(string));
}

/* Flops or bytes a second, of which a share is reached -> per nanosecond. */
static double rate(const struct description_reader *r, const char *peak, const char *efficiency)
{
    return number(r, peak) * number(r, efficiency) / 1e9;
}

static struct remat_link link_of(const struct description_reader *r, const char *latency,
                                 const char *rate, const char *peer, const char *slowdown)
{
    double factor = item(r, slowdown) ? number(r, slowdown) : 1;
    return (struct remat_link){number(r, latency), number(r, rate) / 1e9, (uint64_t)number(r, peer),
                               (uint32_t)(1000 * (factor - 1) + 0.5)};
}

static void read_links(const struct description_reader *r)
{
    if (!item(r, "links.machine_ranks"))
        return;
    r->out->machine_ranks = (uint32_t)number(r, "links.machine_ranks");
    r->out->within = link_of(r, "links.within_latency_ns", "links.within_bytes_per_s",
                             "links.within_peer_bytes", "links.within_slowdown");
    r->out->between = link_of(r, "links.between_latency_ns", "links.between_bytes_per_s",
                              "links.between_peer_bytes", "links.between_slowdown");
}

static remat_status read_description(void *user)
{
    const struct description_reader *r = user;
    struct remat_device_description *out = r->out;
    REMAT_CHECK(read_items(user));
    *out = (struct remat_device_description){
        .name = text(r->arena, item(r, "name")),
        .capacity_bytes = (uint64_t)number(r, "capacity_bytes"), /* exact: below 2^53 */
        .reserve_bytes = (uint64_t)number(r, "reserve_bytes"),
        .launch_ns = number(r, "launch_ns"),
        .memory_bytes_per_ns = rate(r, "memory.peak_bytes_per_s", "memory.efficiency"),
        .pointwise_flops_per_ns = rate(r, "pointwise.peak_flops_per_s", "pointwise.efficiency"),
        .matmul_flops_per_ns =
            {
#define FLOAT_DTYPE(NAME, name, number_, bytes, infinity, file, torch, option, ...)                \
    [REMAT_##NAME] = number(r, "matmul." option "_flops_per_s") / 1e9,
#include <remat/dtypes.def>
            },
        .matmul_tf32_flops_per_ns = number(r, "matmul.tf32_flops_per_s") / 1e9,
        .matmul_efficiency = number(r, "matmul.efficiency"),
        .processors = (uint32_t)number(r, "matmul.processors"),
        .tile_rows = (uint32_t)number(r, "matmul.tile_rows"),
        .tile_columns = (uint32_t)number(r, "matmul.tile_columns"),
        .attention_forward = {number(r, "attention.forward_efficiency"),
                              number(r, "attention.forward_half_keys")},
        .attention_backward = {number(r, "attention.backward_efficiency"),
                               number(r, "attention.backward_half_keys")},
        .attention_half_width = number(r, "attention.half_width"),
    };
    if (!*out->name)
        return fail(r, "name", keys[0].text);
    read_links(r);
    json_t *arch = item(r, "cuda.arch"), *gpus = item(r, "cuda.gpus"), *rocm = item(r, "rocm.arch");
    if (rocm)
        out->rocm_arch = text(r->arena, rocm);
    if (!arch)
        return REMAT_OK;
    if (rocm)
        return fail(r, "rocm", "and \"cuda\" exclude each other");
    if (strncmp(json_string_value(arch), "sm_", 3) != 0)
        return fail(r, "cuda.arch", "must be a string as \"sm_90\"");
    out->cuda_arch = text(r->arena, arch);
    out->workspace_bytes = (uint64_t)number(r, "cuda.workspace_bytes");
    out->gpu_count = (uint32_t)json_array_size(gpus);
    REMAT_NEW(r->arena, out->gpus, out->gpu_count);
    for (uint32_t g = 0; g < out->gpu_count; g++)
        out->gpus[g] = text(r->arena, json_array_get(gpus, g));
    return REMAT_OK;
}

/* The description with what `count` threads have instead, once that is checked. */
static remat_status merge(struct description_reader *r, json_t *base, const char *count,
                          json_t *changes, json_t **out)
{
    char *end;
    unsigned long number = strtoul(count, &end, 10);
    char plain[32];
    snprintf(plain, sizeof plain, "%lu", number);
    if (strcmp(plain, count) != 0 || number < 1 || number > REMAT_DEVICE_THREADS_MAX)
        return remat_error(r->ctx, REMAT_ERROR_INVALID,
                           "%s: \"threads\" has the key \"%.80s\", which is no number from 1 to %d",
                           r->name, count, REMAT_DEVICE_THREADS_MAX);
    snprintf(r->prefix, sizeof r->prefix, "threads.%s", count);
    if (!json_is_object(changes))
        return fail(r, "", "must be an object");
    strcat(r->prefix, ".");
    *out = json_deep_copy(base);
    if (!*out || json_object_update_recursive(*out, changes) != 0)
        return remat_error(r->ctx, REMAT_ERROR_MEMORY, "%s: out of memory", r->name);
    r->root = *out;
    return read_items(r);
}

/* REMAT_ERROR_USAGE: `all` does not have this number of threads. */
static remat_status fail_threads(const struct description_reader *r, json_t *all, uint32_t threads)
{
    char counts[256] = "";
    const char *count;
    json_t *changes;
    json_object_foreach(all, count, changes)
    {
        size_t length = strlen(counts);
        snprintf(counts + length, sizeof counts - length, "%s%s", length ? ", " : "", count);
    }
    if (!*counts)
        return remat_error(r->ctx, REMAT_ERROR_USAGE,
                           "--threads %" PRIu32 ": %s has no rates by number of threads; a file of "
                           "remat-run --measure-device has",
                           threads, r->name);
    return remat_error(r->ctx, REMAT_ERROR_USAGE,
                       "--threads %" PRIu32 ": %s has no rates of that number (accepted: %s)",
                       threads, r->name, counts);
}

/* All that `all` has is checked; that of `threads` is left in r->root, unless it is 0. */
static remat_status read_threads(struct description_reader *r, json_t *base, json_t *all,
                                 uint32_t threads)
{
    remat_status st = read_items(r);
    json_t *chosen = NULL, *changes;
    const char *count;
    if (!st && all && !json_is_object(all))
        st = fail(r, "threads", "must be an object");
    json_object_foreach(all, count, changes)
    {
        json_t *merged = NULL;
        bool wanted = strtoul(count, NULL, 10) == threads;
        st = st ? st : merge(r, base, count, changes, &merged);
        if (!st && wanted)
            chosen = json_incref(merged);
        json_decref(merged);
    }
    r->prefix[0] = 0;
    r->root = chosen ? chosen : json_incref(base);
    return !st && threads && !chosen ? fail_threads(r, all, threads) : st;
}

static remat_status parse(remat_context *ctx, struct remat_arena *arena, const char *name,
                          const char *text, size_t bytes, uint32_t threads,
                          struct remat_device_description *out)
{
    json_error_t error;
    struct description_reader reader = {.ctx = ctx, .arena = arena, .name = name, .out = out};
    json_t *base = reader.root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);
    if (!base)
        return remat_error(ctx, REMAT_ERROR_INVALID, "%s:%d: %s", name, error.line, error.text);
    json_t *all = json_incref(json_object_get(base, "threads"));
    json_object_del(base, "threads");
    remat_status st = read_threads(&reader, base, all, threads);
    st = st ? st : remat_guard(ctx, read_description, &reader); /* which frees no JSON */
    json_decref(reader.root);
    json_decref(all);
    json_decref(base);
    return st;
}

/* --- names --- */

/* Lower case, without punctuation. `short_form`: and without the words that vendors put before a
 * name and the unit of its memory, so that "NVIDIA GeForce RTX 4090" is "4090", "A100-80GB"
 * "a10080". */
static void fold(const char *name, bool short_form, char out[static NAME_MOST + 1])
{
    static const char *const words[] = {"amd",    "geforce", "instinct", "nvidia",
                                        "quadro", "rtx",     "tesla"};
    size_t length = 0;
    while (*name) {
        size_t part = strcspn(name, " -_./");
        bool dropped = false;
        for (size_t w = 0; w < sizeof words / sizeof *words; w++)
            dropped |=
                short_form && part == strlen(words[w]) && strncasecmp(name, words[w], part) == 0;
        bool unit = short_form && part > 2 && isdigit((unsigned char)name[part - 3]) &&
                    strncasecmp(name + part - 2, "gb", 2) == 0;
        for (size_t i = 0; i + 2 * unit < part && !dropped && length < NAME_MOST; i++)
            out[length++] = (char)tolower((unsigned char)name[i]);
        name += part + strspn(name + part, " -_./");
    }
    out[length] = 0;
}

static bool is_same(const char *a, const char *b, bool short_form)
{
    char x[NAME_MOST + 1], y[NAME_MOST + 1];
    fold(a, short_form, x);
    fold(b, short_form, y);
    return strlen(a) <= NAME_MOST && *x && strcmp(x, y) == 0;
}

static bool begins(const char *name, const char *word)
{
    char x[NAME_MOST + 1], y[NAME_MOST + 1];
    fold(word, true, x);
    fold(name, true, y);
    return *x && strncmp(y, x, strlen(x)) == 0;
}

static bool is_gpu_of(const struct remat_device_description *device, const char *name,
                      bool short_form)
{
    for (uint32_t g = 0; g < device->gpu_count; g++)
        if (is_same(name, device->gpus[g], short_form))
            return true;
    return false;
}

/* The built-in description that `name` means: by its own name before those of GPUs, in full before
 * in short. A short name that others begin with ("h100") means none of them. NULL: none. */
static const struct remat_device_description *find_meant(const struct remat_device_description *all,
                                                         uint32_t count, const char *name)
{
    uint32_t begun = 0;
    for (uint32_t i = 0; i < count; i++)
        begun += begins(all[i].name, name);
    for (int form = 0; form < 4; form++)
        for (uint32_t i = 0; i < count; i++) {
            bool short_form = form >= 2, of_gpu = form % 2 == 1;
            if (of_gpu && short_form && begun > 0)
                continue;
            if (of_gpu ? is_gpu_of(&all[i], name, short_form)
                       : is_same(name, all[i].name, short_form))
                return &all[i];
        }
    return NULL;
}

static const char *name_at(const void *user, uint32_t i)
{
    return ((const struct remat_device_description *)user)[i].name;
}

/* Of one family: "h100-sxm" and "h100-pcie", where the first part has a number. */
static bool is_sibling(const char *a, const char *b)
{
    size_t length = strcspn(a, "-");
    return strcspn(a, "0123456789") < length && strcspn(b, "-") == length &&
           strncmp(a, b, length) == 0;
}

static double product_rate(const struct remat_device_description *device)
{
    return device->matmul_flops_per_ns[REMAT_F16] * device->matmul_efficiency;
}

/* Faster ones first, then those with more memory. */
static int compare_devices(const void *a, const void *b)
{
    const struct remat_device_description *x = *(const struct remat_device_description *const *)a,
                                          *y = *(const struct remat_device_description *const *)b;
    if (product_rate(x) != product_rate(y))
        return product_rate(x) < product_rate(y) ? 1 : -1;
    return (x->capacity_bytes < y->capacity_bytes) - (x->capacity_bytes > y->capacity_bytes);
}

/* ": did you mean 'h100-sxm' (84.9 GB) or 'h100-pcie' (84.9 GB)?", or nothing */
static void suggest(struct remat_arena *arena, const struct remat_device_description *all,
                    uint32_t count, const char *name, struct remat_text *out)
{
    const struct remat_device_description **near;
    uint32_t near_count = 0, nearest = remat_nearest(name, name_at, all, count);
    REMAT_NEW(arena, near, count);
    for (uint32_t i = 0; i < count; i++)
        if (i == nearest || begins(all[i].name, name) ||
            (nearest < count && is_sibling(all[nearest].name, all[i].name)))
            near[near_count++] = &all[i];
    qsort(near, near_count, sizeof *near, compare_devices);
    for (uint32_t i = 0; i < near_count; i++) {
        const char *before = i == 0 ? ": did you mean " : i + 1 < near_count ? ", " : " or ";
        remat_text_append(out, "%s'%s'", before, near[i]->name);
        if (near[i]->capacity_bytes)
            remat_text_append(out, " (%.1f GB)", (double)near[i]->capacity_bytes / 1e9);
    }
    remat_text_append(out, near_count ? "?" : "");
    remat_text_complete(out);
}

struct names {
    remat_context *ctx;
    struct remat_arena *arena;
    const char *wanted;
    struct remat_device_description *all;
    const struct remat_device_description *meant;
};

static remat_status find_or_suggest(void *user)
{
    struct names *n = user;
    struct remat_text names = {.arena = n->arena}, meant = {.arena = n->arena};
    n->meant = find_meant(n->all, remat_device_text_count, n->wanted);
    if (n->meant)
        return REMAT_OK;
    suggest(n->arena, n->all, remat_device_text_count, n->wanted, &meant);
    for (unsigned i = 0; i < remat_device_text_count; i++)
        remat_text_append(&names, "%s%s", i ? ", " : "", n->all[i].name);
    remat_text_complete(&names);
    return remat_error(n->ctx, REMAT_ERROR_USAGE,
                       "--target '%s' is unknown%s (accepted: %s, or a description file NAME.json)",
                       n->wanted, meant.items, names.items);
}

static remat_status read_built_in(remat_context *ctx, struct remat_arena *arena, uint32_t i,
                                  uint32_t threads, struct remat_device_description *out)
{
    const struct remat_device_text *built_in = &remat_device_texts[i];
    return parse(ctx, arena, built_in->name, built_in->json, strlen(built_in->json), threads, out);
}

/* No built-in name as it stands. */
static remat_status read_meant(remat_context *ctx, struct remat_arena *arena, const char *name,
                               uint32_t threads, struct remat_device_description *out)
{
    remat_status st = REMAT_OK;
    struct names names = {.ctx = ctx, .arena = arena, .wanted = name};
    REMAT_TRY_NEW(arena, names.all, remat_device_text_count);
    for (unsigned i = 0; i < remat_device_text_count; i++)
        REMAT_TRY(read_built_in(ctx, arena, i, 0, &names.all[i]));
    REMAT_TRY(remat_guard(ctx, find_or_suggest, &names));
    st = read_built_in(ctx, arena, (uint32_t)(names.meant - names.all), threads, out);
fail:
    return st;
}

remat_status remat_device_description_read(remat_context *ctx, struct remat_arena *arena,
                                           const char *name, uint32_t threads,
                                           struct remat_device_description *out)
{
    char *text;
    size_t bytes, length = strlen(name);
    for (unsigned i = 0; i < remat_device_text_count; i++)
        if (strcmp(remat_device_texts[i].name, name) == 0)
            return read_built_in(ctx, arena, i, threads, out);
    if (length < 5 || strcmp(name + length - 5, ".json") != 0)
        return read_meant(ctx, arena, name, threads, out);
    REMAT_CHECK(remat_file_read(ctx, name, arena, &text, &bytes));
    return parse(ctx, arena, name, text, bytes, threads, out);
}
