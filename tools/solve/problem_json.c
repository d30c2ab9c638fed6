/* SPDX-License-Identifier: Apache-2.0 */
/* The reader checks the form; the solver checks the meaning. */
#include "problem_json.h"

#include "file.h"
#include "unwind.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <unistd.h>

#define PATIENCE_MS    1000
#define WHOLE_REAL_MAX 0x1p53 /* up to here a double has every whole number */

static const char *const types[] = {"an object",     "an array", "a string", "an integer",
                                    "a real number", "true",     "false",    "null"};

struct problem_reader {
    remat_context *ctx;
    struct remat_arena *arena;
    const char **names;
    double *time;
    uint64_t *bytes, *workspace, *lasting;
    bool *once;
    uint32_t *begin, *inputs, *alias;
    struct REMAT_LIST(remat_problem_mode) modes;
    struct REMAT_LIST(uint32_t) fused;
};

/* A node or one of its modes. */
struct problem_place {
    size_t node;
    const char *prefix; /* of keys in messages */
    json_t *object;
};

static const char *describe(struct remat_arena *arena, const json_t *value)
{
    if (json_is_integer(value))
        return REMAT_FORMAT(arena, "%lld", (long long)json_integer_value(value));
    if (json_is_real(value))
        return REMAT_FORMAT(arena, "%.17g", json_real_value(value));
    if (json_is_string(value))
        return REMAT_FORMAT(arena, "\"%.60s\"", json_string_value(value));
    return value ? types[json_typeof(value)] : "missing";
}

static remat_status fail_key(struct problem_reader *r, const struct problem_place *at,
                             const char *key, const char *expected)
{
    return remat_error(r->ctx, REMAT_ERROR_INVALID, "nodes[%zu].%s%s: %s, expected %s", at->node,
                       at->prefix, key, describe(r->arena, json_object_get(at->object, key)),
                       expected);
}

/* `1e3` and `5.0` are whole too. */
static bool is_whole(const json_t *value, uint64_t *out)
{
    double number = json_number_value(value);
    *out = json_is_integer(value) ? (uint64_t)json_integer_value(value) : 0;
    if (json_is_integer(value))
        return json_integer_value(value) >= 0;
    if (!json_is_real(value) || number < 0 || number > WHOLE_REAL_MAX)
        return false;
    *out = (uint64_t)number;
    return (double)*out == number;
}

static remat_status read_number(struct problem_reader *r, const struct problem_place *at,
                                const char *key, const json_t *value, uint32_t *out)
{
    uint64_t number;
    if (!is_whole(value, &number) || number >= at->node)
        return remat_error(r->ctx, REMAT_ERROR_INVALID,
                           "nodes[%zu].%s%s: %s is not the number of an earlier node (below %zu%s)",
                           at->node, at->prefix, key, describe(r->arena, value), at->node,
                           at->node ? "" : ": there is none");
    *out = (uint32_t)number;
    return REMAT_OK;
}

/* An array of numbers of earlier nodes; `out` has room for all. */
static remat_status read_numbers(struct problem_reader *r, const struct problem_place *at,
                                 const char *key, uint32_t *out, uint32_t *count)
{
    remat_status st = REMAT_OK;
    const json_t *list = json_object_get(at->object, key);
    *count = (uint32_t)json_array_size(list);
    if (!json_is_array(list))
        return fail_key(r, at, key, "an array of node numbers");
    for (uint32_t i = 0; i < *count; i++)
        REMAT_TRY(read_number(r, at, REMAT_FORMAT(r->arena, "%s[%u]", key, i),
                              json_array_get(list, i), &out[i]));
fail:
    return st;
}

static remat_status check_keys(struct problem_reader *r, size_t node, const char *where,
                               json_t *object, const char *const *accepted)
{
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value)
    {
        size_t i = 0;
        struct remat_text all = {.arena = r->arena};
        while (accepted[i] && strcmp(accepted[i], key) != 0)
            i++;
        if (accepted[i])
            continue;
        for (i = 0; accepted[i]; i++)
            remat_text_append(&all, "%s%s", i ? ", " : "", accepted[i]);
        remat_text_complete(&all);
        return remat_error(r->ctx, REMAT_ERROR_INVALID,
                           "nodes[%zu]%s: unknown key \"%.60s\" (accepted: %s)", node, where, key,
                           all.items);
    }
    return REMAT_OK;
}

static remat_status read_size(struct problem_reader *r, const struct problem_place *at,
                              const char *key, uint64_t *out)
{
    return is_whole(json_object_get(at->object, key), out)
               ? REMAT_OK
               : fail_key(r, at, key, "an integer from 0 on");
}

static remat_status read_time(struct problem_reader *r, const struct problem_place *at, double *out)
{
    const json_t *value = json_object_get(at->object, "time");
    if (!json_is_number(value) || json_number_value(value) < 0)
        return fail_key(r, at, "time", "a number from 0 on");
    *out = json_number_value(value);
    return REMAT_OK;
}

static remat_status read_fused(struct problem_reader *r, const struct problem_place *at,
                               remat_problem_mode *mode)
{
    uint32_t *items, count;
    REMAT_NEW(r->arena, items, json_array_size(json_object_get(at->object, "fused")));
    REMAT_CHECK(read_numbers(r, at, "fused", items, &count));
    mode->fused_begin = (uint32_t)r->fused.count;
    mode->fused_end = mode->fused_begin + count;
    for (uint32_t i = 0; i < count; i++)
        REMAT_PUSH(r->arena, &r->fused, items[i]);
    return REMAT_OK;
}

static remat_status read_mode(struct problem_reader *r, size_t node, size_t index, json_t *object)
{
    static const char *const keys[] = {"time", "workspace", "fused", NULL};
    remat_problem_mode mode = {.node = (uint32_t)node};
    struct problem_place at = {node, "modes.", object};
    if (!json_is_object(object))
        return remat_error(r->ctx, REMAT_ERROR_INVALID,
                           "nodes[%zu].modes[%zu]: %s, expected an object", node, index,
                           describe(r->arena, object));
    REMAT_CHECK(check_keys(r, node, REMAT_FORMAT(r->arena, ".modes[%zu]", index), object, keys));
    REMAT_CHECK(read_time(r, &at, &mode.time));
    if (json_object_get(object, "workspace"))
        REMAT_CHECK(read_size(r, &at, "workspace", &mode.workspace_bytes));
    if (json_object_get(object, "fused"))
        REMAT_CHECK(read_fused(r, &at, &mode));
    REMAT_PUSH(r->arena, &r->modes, mode);
    return REMAT_OK;
}

static remat_status read_node(struct problem_reader *r, size_t node, json_t *object)
{
    static const char *const keys[] = {"name",    "time", "bytes", "inputs", "workspace",
                                       "lasting", "once", "alias", "modes",  NULL};
    remat_status st = REMAT_OK;
    struct problem_place at = {node, "", object};
    uint32_t count;
    const json_t *name = json_object_get(object, "name"), *once = json_object_get(object, "once");
    const json_t *alias = json_object_get(object, "alias");
    const json_t *modes = json_object_get(object, "modes");
    if (!json_is_object(object))
        REMAT_FAIL(r->ctx, REMAT_ERROR_INVALID, "nodes[%zu]: %s, expected an object", node,
                   describe(r->arena, object));
    REMAT_TRY(check_keys(r, node, "", object, keys));
    if (!json_is_string(name))
        return fail_key(r, &at, "name", "a string");
    r->names[node] = remat_string(r->arena, json_string_value(name), json_string_length(name));
    REMAT_TRY(read_time(r, &at, &r->time[node]));
    REMAT_TRY(read_size(r, &at, "bytes", &r->bytes[node]));
    REMAT_TRY(read_numbers(r, &at, "inputs", r->inputs + r->begin[node], &count));
    r->begin[node + 1] = r->begin[node] + count;
    /* What bare problems do without. */
    if (json_object_get(object, "workspace"))
        REMAT_TRY(read_size(r, &at, "workspace", &r->workspace[node]));
    if (json_object_get(object, "lasting"))
        REMAT_TRY(read_size(r, &at, "lasting", &r->lasting[node]));
    if (once && !json_is_boolean(once))
        return fail_key(r, &at, "once", "true or false");
    r->once[node] = json_is_true(once);
    r->alias[node] = UINT32_MAX;
    if (alias)
        REMAT_TRY(read_number(r, &at, "alias", alias, &r->alias[node]));
    if (modes && !json_is_array(modes))
        return fail_key(r, &at, "modes", "an array of objects");
    for (size_t i = 0; i < json_array_size(modes); i++)
        REMAT_TRY(read_mode(r, node, i, json_array_get(modes, i)));
fail:
    return st;
}

struct call {
    struct remat_arena *arena;
    const json_t *root;
    remat_problem_spec *out;
};

static remat_status read_root(void *user)
{
    remat_status st = REMAT_OK;
    const struct call *call = user;
    struct remat_arena *arena = call->arena;
    remat_context *ctx = arena->ctx;
    struct problem_reader r = {.ctx = ctx, .arena = arena};
    const json_t *schema = json_object_get(call->root, "schema");
    const json_t *nodes = json_object_get(call->root, "nodes");
    const json_t *constant = json_object_get(call->root, "static_bytes");
    uint64_t static_bytes = 0;
    size_t count = json_array_size(nodes), inputs = 0;
    if (!json_is_object(call->root))
        REMAT_FAIL(ctx, REMAT_ERROR_INVALID, "%s, expected an object", describe(arena, call->root));
    if (!json_is_string(schema) || strcmp(json_string_value(schema), "remat-problem/1") != 0)
        REMAT_FAIL(ctx, REMAT_ERROR_INVALID, "schema: %s, expected \"remat-problem/1\"",
                   describe(arena, schema));
    if (!json_is_array(nodes))
        REMAT_FAIL(ctx, REMAT_ERROR_INVALID, "nodes: %s, expected an array",
                   describe(arena, nodes));
    if (constant && !is_whole(constant, &static_bytes))
        REMAT_FAIL(ctx, REMAT_ERROR_INVALID, "static_bytes: %s, expected an integer from 0 on",
                   describe(arena, constant));
    for (size_t i = 0; i < count; i++)
        inputs += json_array_size(json_object_get(json_array_get(nodes, i), "inputs"));
    REMAT_NEW(arena, r.names, count);
    REMAT_NEW(arena, r.time, count);
    REMAT_NEW(arena, r.bytes, count);
    REMAT_NEW(arena, r.begin, count + 1);
    REMAT_NEW(arena, r.inputs, inputs);
    REMAT_NEW(arena, r.workspace, count);
    REMAT_NEW(arena, r.lasting, count);
    REMAT_NEW(arena, r.once, count);
    REMAT_NEW(arena, r.alias, count);
    for (size_t i = 0; i < count; i++)
        REMAT_TRY(read_node(&r, i, json_array_get(nodes, i)));
    *call->out = (remat_problem_spec){.struct_size = sizeof *call->out,
                                      .node_count = (uint32_t)count,
                                      .mode_count = (uint32_t)r.modes.count,
                                      .names = r.names,
                                      .time = r.time,
                                      .bytes = r.bytes,
                                      .input_begin = r.begin,
                                      .inputs = r.inputs,
                                      .workspace_bytes = r.workspace,
                                      .lasting_bytes = r.lasting,
                                      .once = r.once,
                                      .alias = r.alias,
                                      .modes = r.modes.items,
                                      .fused = r.fused.items,
                                      .static_bytes = static_bytes};
fail:
    return st;
}

static const char *name_of(const char *path)
{
    return strcmp(path, "-") == 0 ? "standard input" : path;
}

/* A file, a pipe or standard input; beyond the limit it ends. */
struct problem_input {
    FILE *file;
    size_t left;
};

static size_t read_some(void *buffer, size_t bytes, void *user)
{
    struct problem_input *in = user;
    size_t count = fread(buffer, 1, bytes < in->left ? bytes : in->left, in->file);
    in->left -= count;
    return ferror(in->file) ? (size_t)-1 : count;
}

/* Whoever reads a pipe that nothing comes out of is told; it may be the wrong one. */
static void wait_for_data(remat_context *ctx, const char *name, int descriptor)
{
    struct pollfd data = {.fd = descriptor, .events = POLLIN};
    if (poll(&data, 1, PATIENCE_MS) == 0) {
        remat_log(ctx, REMAT_SEVERITY_INFO, "%s: waiting for data", name);
        poll(&data, 1, -1);
    }
}

/* A pipe is opened without waiting for its writer, then read with waiting. */
static remat_status open_problem(remat_context *ctx, const char *path, FILE **out)
{
    int descriptor = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    *out = descriptor < 0 ? NULL : fdopen(descriptor, "rb");
    if (!*out) {
        int reason = errno;
        if (descriptor >= 0)
            close(descriptor);
        return remat_file_error(ctx, path, "", reason);
    }
    wait_for_data(ctx, path, descriptor);
    fcntl(descriptor, F_SETFL, 0);
    return REMAT_OK;
}

static remat_status parse(remat_context *ctx, const char *name, FILE *file, json_t **out)
{
    struct problem_input in = {file, PROBLEM_JSON_BYTES_MAX};
    json_error_t error;
    errno = 0;
    *out = json_load_callback(read_some, &in, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
    if (ferror(file))
        return remat_file_error(ctx, name, "", errno);
    if (in.left == 0 && getc(file) != EOF)
        return remat_error(ctx, REMAT_ERROR_INVALID,
                           "%s: more than %d bytes, the limit of a problem", name,
                           PROBLEM_JSON_BYTES_MAX);
    if (!*out)
        return remat_error(ctx, REMAT_ERROR_INVALID, "%s:%d:%d: %s", name, error.line, error.column,
                           error.text);
    return REMAT_OK;
}

remat_status problem_json_fail(remat_context *ctx, struct remat_arena *arena, const char *path)
{
    const char *message = remat_arena_format(arena, "%s", remat_context_message(ctx));
    return remat_error(ctx, REMAT_ERROR_INVALID, "%s: %s", name_of(path),
                       message ? message : "malformed");
}

remat_status problem_json_read(remat_context *ctx, struct remat_arena *arena, const char *path,
                               remat_problem_spec *out)
{
    remat_status st = REMAT_OK;
    bool standard = strcmp(path, "-") == 0;
    const char *name = name_of(path);
    FILE *file = stdin;
    json_t *root = NULL;
    if (standard)
        wait_for_data(ctx, name, fileno(stdin));
    else if ((st = open_problem(ctx, path, &file)) != REMAT_OK)
        return st;
    REMAT_TRY(parse(ctx, name, file, &root));
    /* The JSON value is held meanwhile. */
    st = remat_guard(ctx, read_root, &(struct call){arena, root, out});
    if (st == REMAT_ERROR_INVALID)
        st = problem_json_fail(ctx, arena, path);
fail:
    json_decref(root);
    if (!standard)
        fclose(file);
    return st;
}
