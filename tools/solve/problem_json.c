/* The reader checks the form; remat_problem_create checks the meaning. */
#include "problem_json.h"

#include <jansson.h>

static const char *const types[] = {"an object",     "an array", "a string", "an integer",
                                    "a real number", "true",     "false",    "null"};

struct reader {
    remat_context *ctx;
    struct remat_arena *arena;
    const char **names;
    double *time;
    uint64_t *bytes;
    uint32_t *begin, *inputs;
};

static const char *describe(struct remat_arena *arena, const json_t *value)
{
    const char *text = NULL;
    if (json_is_integer(value))
        text = remat_arena_format(arena, "%lld", (long long)json_integer_value(value));
    else if (json_is_real(value))
        text = remat_arena_format(arena, "%.17g", json_real_value(value));
    else if (json_is_string(value))
        text = remat_arena_format(arena, "\"%.60s\"", json_string_value(value));
    return text ? text : value ? types[json_typeof(value)] : "missing";
}

static remat_status fail_key(struct reader *r, size_t node, const char *key, const json_t *value,
                             const char *expected)
{
    return remat_error(r->ctx, REMAT_ERROR_INVALID, "nodes[%zu].%s: %s, expected %s", node, key,
                       describe(r->arena, value), expected);
}

static remat_status read_inputs(struct reader *r, size_t node, const json_t *list)
{
    remat_status st = REMAT_OK;
    if (!json_is_array(list))
        return fail_key(r, node, "inputs", list, "an array of node numbers");
    if (json_array_size(list) > node)
        REMAT_FAIL(r->ctx, REMAT_ERROR_INVALID,
                   "nodes[%zu].inputs: %zu entries, but only %zu nodes are earlier", node,
                   json_array_size(list), node);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *item = json_array_get(list, i);
        if (!json_is_integer(item) || json_integer_value(item) < 0 ||
            (size_t)json_integer_value(item) >= node)
            REMAT_FAIL(
                r->ctx, REMAT_ERROR_INVALID,
                "nodes[%zu].inputs[%zu]: %s is not the number of an earlier node (0 .. %lld)", node,
                i, describe(r->arena, item), (long long)node - 1);
        r->inputs[r->begin[node] + i] = (uint32_t)json_integer_value(item);
    }
    r->begin[node + 1] = r->begin[node] + (uint32_t)json_array_size(list);
fail:
    return st;
}

static remat_status check_keys(struct reader *r, size_t node, json_t *object)
{
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value)
    {
        if (strcmp(key, "name") != 0 && strcmp(key, "time") != 0 && strcmp(key, "bytes") != 0 &&
            strcmp(key, "inputs") != 0)
            return remat_error(r->ctx, REMAT_ERROR_INVALID,
                               "nodes[%zu]: unknown key \"%.60s\" (accepted: name, time, bytes, "
                               "inputs)",
                               node, key);
    }
    return REMAT_OK;
}

static remat_status read_node(struct reader *r, size_t node, json_t *object)
{
    remat_status st = REMAT_OK;
    const json_t *name = json_object_get(object, "name"), *time = json_object_get(object, "time");
    const json_t *bytes = json_object_get(object, "bytes");
    if (!json_is_object(object))
        REMAT_FAIL(r->ctx, REMAT_ERROR_INVALID, "nodes[%zu]: %s, expected an object", node,
                   describe(r->arena, object));
    REMAT_TRY(check_keys(r, node, object));
    if (!json_is_string(name))
        return fail_key(r, node, "name", name, "a string");
    if (!json_is_number(time) || json_number_value(time) < 0)
        return fail_key(r, node, "time", time, "a number from 0 on");
    if (!json_is_integer(bytes) || json_integer_value(bytes) < 0)
        return fail_key(r, node, "bytes", bytes, "an integer from 0 on");
    r->names[node] =
        remat_arena_string(r->arena, json_string_value(name), json_string_length(name));
    r->time[node] = json_number_value(time);
    r->bytes[node] = (uint64_t)json_integer_value(bytes);
    if (!r->names[node])
        return REMAT_ERROR_MEMORY;
    REMAT_TRY(read_inputs(r, node, json_object_get(object, "inputs")));
fail:
    return st;
}

static size_t count_inputs(const json_t *nodes)
{
    size_t count = 0;
    for (size_t i = 0; i < json_array_size(nodes); i++)
        count += json_array_size(json_object_get(json_array_get(nodes, i), "inputs"));
    return count;
}

static remat_status read_nodes(remat_context *ctx, struct remat_arena *arena, const json_t *nodes,
                               struct remat_problem *out)
{
    remat_status st = REMAT_OK;
    struct reader r = {.ctx = ctx, .arena = arena};
    size_t count = json_array_size(nodes), inputs = count_inputs(nodes);
    if (count > REMAT_PROBLEM_NODES_MAX || inputs > REMAT_PROBLEM_EDGES_MAX)
        REMAT_FAIL(ctx, REMAT_ERROR_INVALID, "%zu nodes with %zu inputs, accepted: up to %u and %u",
                   count, inputs, REMAT_PROBLEM_NODES_MAX, REMAT_PROBLEM_EDGES_MAX);
    REMAT_NEW(arena, r.names, count);
    REMAT_NEW(arena, r.time, count);
    REMAT_NEW(arena, r.bytes, count);
    REMAT_NEW(arena, r.begin, count + 1);
    REMAT_NEW(arena, r.inputs, inputs);
    for (size_t i = 0; i < count; i++)
        REMAT_TRY(read_node(&r, i, json_array_get(nodes, i)));
    REMAT_TRY(remat_problem_create(ctx, arena, (uint32_t)count, r.names, r.time, r.bytes, r.begin,
                                   r.inputs, out));
fail:
    return st;
}

static remat_status read_root(remat_context *ctx, struct remat_arena *arena, const json_t *root,
                              struct remat_problem *out)
{
    remat_status st = REMAT_OK;
    const json_t *schema = json_object_get(root, "schema"), *nodes = json_object_get(root, "nodes");
    if (!json_is_object(root))
        REMAT_FAIL(ctx, REMAT_ERROR_INVALID, "%s, expected an object", describe(arena, root));
    if (!json_is_string(schema) || strcmp(json_string_value(schema), "remat-problem/1") != 0)
        REMAT_FAIL(ctx, REMAT_ERROR_INVALID, "schema: %s, expected \"remat-problem/1\"",
                   describe(arena, schema));
    if (!json_is_array(nodes))
        REMAT_FAIL(ctx, REMAT_ERROR_INVALID, "nodes: %s, expected an array",
                   describe(arena, nodes));
    REMAT_TRY(read_nodes(ctx, arena, nodes, out));
fail:
    return st;
}

remat_status problem_json_read(remat_context *ctx, struct remat_arena *arena, const char *path,
                               struct remat_problem *out)
{
    remat_status st = REMAT_OK;
    char *data;
    size_t bytes;
    json_error_t error;
    json_t *root = NULL;
    REMAT_TRY(remat_file_read(ctx, path, arena, &data, &bytes));
    root = json_loadb(data, bytes, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
    if (!root)
        REMAT_FAIL(ctx, REMAT_ERROR_INVALID, "%s:%d:%d: %s", path, error.line, error.column,
                   error.text);
    st = read_root(ctx, arena, root, out);
    if (st == REMAT_ERROR_INVALID) {
        const char *message = remat_arena_format(arena, "%s", remat_context_message(ctx));
        REMAT_FAIL(ctx, st, "%s: %s", path, message ? message : "malformed");
    }
fail:
    json_decref(root);
    return st;
}
