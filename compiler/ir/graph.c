/* SPDX-License-Identifier: Apache-2.0 */
#include "graph.h"

/* An index beyond this is no layer: side arrays are indexed by layer. */
#define LAYER_DIGITS_MAX 5
#define SYMBOL_NAME_MAX  31

/* The array with room for `wanted` items; where it has to grow, by as many again at least. */
static void *reserve(struct remat_arena *arena, void *items, uint32_t count, size_t *capacity,
                     size_t wanted, size_t size)
{
    if (wanted <= *capacity)
        return items;
    if (wanted >= REMAT_NONE) {
        (void)remat_error(arena->ctx, REMAT_ERROR_MEMORY, "out of memory: more than %u items",
                          count);
        remat_unwind(arena->ctx);
    }
    *capacity = wanted > 2 * (size_t)count + 8 ? wanted : 2 * (size_t)count + 8;
    void *grown = remat_uninitialized(arena, *capacity, size);
    if (count)
        memcpy(grown, items, count * size);
    return grown;
}

#define DUPLICATE(arena, pointer, count)                                                           \
    ((pointer) = remat_copy((arena), (pointer), (count), sizeof *(pointer)))

/* --- shapes --- */

int64_t remat_shape_elements(const struct remat_shape *shape)
{
    int64_t elements = 1;
    for (uint32_t d = 0; d < shape->rank; d++)
        elements *= shape->dims[d];
    return elements;
}

bool remat_shape_equal(const struct remat_shape *a, const struct remat_shape *b)
{
    return a->rank == b->rank && memcmp(a->dims, b->dims, a->rank * sizeof a->dims[0]) == 0;
}

bool remat_shape_fits(const struct remat_shape *shape, remat_dtype dtype)
{
    uint64_t bytes = remat_dtype_bytes(dtype);
    for (uint32_t d = 0; d < shape->rank; d++)
        if (!remat_is_symbol(shape->dims[d]) &&
            (!remat_mul_u64(bytes, (uint64_t)shape->dims[d], &bytes) || bytes > INT64_MAX))
            return false;
    return true;
}

bool remat_type_equal(const struct remat_value_info *a, const struct remat_value_info *b)
{
    return a->dtype == b->dtype && remat_shape_equal(&a->shape, &b->shape);
}

uint64_t remat_value_bytes(const struct remat_value_info *value)
{
    return (uint64_t)remat_shape_elements(&value->shape) * remat_dtype_bytes(value->dtype);
}

uint64_t remat_storage_bytes(const struct remat_value_info *value)
{
    if (value->pitch == 0)
        return remat_value_bytes(value);
    int64_t columns = value->shape.dims[value->shape.rank - 1];
    int64_t rows = remat_shape_elements(&value->shape) / columns;
    return (uint64_t)((rows - 1) * value->pitch + columns) * remat_dtype_bytes(value->dtype);
}

/* --- scopes --- */

/* The layer that a path element names, -1 for none; *out_name is the length of NAME. */
static int32_t parse_layer(const char *element, size_t length, size_t *out_name)
{
    size_t digits = 0;
    while (digits < length && element[length - 1 - digits] >= '0' &&
           element[length - 1 - digits] <= '9')
        digits++;
    if (digits == 0 || digits > LAYER_DIGITS_MAX || length < digits + 2 ||
        element[length - 1 - digits] != '.')
        return -1;
    int32_t layer = 0;
    for (size_t k = length - digits; k < length; k++)
        layer = layer * 10 + (element[k] - '0');
    *out_name = length - digits - 1;
    return layer;
}

static void scope_init(struct remat_arena *arena, const char *path, struct remat_scope *out)
{
    *out = (struct remat_scope){.layer = -1};
    out->path = remat_string(arena, path, strlen(path));
    for (const char *element = path; *element && out->layer < 0;) {
        size_t length = strcspn(element, "/"), name = 0;
        out->layer = parse_layer(element, length, &name);
        if (out->layer >= 0)
            out->stack = remat_string(arena, path, (size_t)(element - path) + name);
        element += length + (element[length] == '/');
    }
}

remat_scope_id remat_graph_scope(struct remat_arena *arena, struct remat_graph *graph,
                                 const char *path)
{
    remat_scope_id s;
    while (graph->scope_ids.count < graph->scope_count) {
        uint32_t next = (uint32_t)graph->scope_ids.count;
        remat_index_add(arena, &graph->scope_ids, remat_hash_string(graph->scopes[next].path, 0),
                        next);
    }
    uint64_t hash = remat_hash_string(path, 0);
    for (size_t at = 0; (s.i = remat_index_find(&graph->scope_ids, hash, &at)) != REMAT_NONE;)
        if (strcmp(graph->scopes[s.i].path, path) == 0)
            return s;
    graph->scopes = reserve(arena, graph->scopes, graph->scope_count, &graph->scope_capacity,
                            graph->scope_count + (size_t)1, sizeof *graph->scopes);
    scope_init(arena, path, &graph->scopes[graph->scope_count]);
    return (remat_scope_id){graph->scope_count++};
}

/* --- symbols --- */

/* A WORD that the text form reads as nothing else. */
static bool is_symbol_name(const char *name)
{
    const char *c = name;
    if (!remat_is_letter(*c) || strcmp(name, "inf") == 0 || strcmp(name, "nan") == 0)
        return false;
    while (remat_is_letter(*c) || remat_is_digit(*c))
        c++;
    return *c == 0 && c - name <= SYMBOL_NAME_MAX;
}

struct remat_symbol *remat_graph_symbol(const struct remat_graph *graph, const char *name)
{
    for (uint32_t k = 0; k < graph->symbol_count; k++)
        if (strcmp(graph->symbols[k].name, name) == 0)
            return &graph->symbols[k];
    return NULL;
}

remat_status remat_graph_add_symbol(remat_context *ctx, struct remat_arena *arena,
                                    struct remat_graph *graph, const char *name, int64_t value)
{
    if (!is_symbol_name(name))
        return remat_error(
            ctx, REMAT_ERROR_INVALID,
            "\"%.60s\" is no name of a symbol (accepted: letters, digits and _, at most %d, "
            "no digit first; not inf or nan)",
            name, SYMBOL_NAME_MAX);
    if (remat_graph_symbol(graph, name))
        return remat_error(ctx, REMAT_ERROR_INVALID, "two symbols are named \"%.60s\"", name);
    if (value < 0 || value > REMAT_SYMBOL_VALUE_MAX)
        return remat_error(ctx, REMAT_ERROR_INVALID,
                           "symbol \"%.60s\": value %lld is out of range (accepted: 1 to %d)", name,
                           (long long)value, REMAT_SYMBOL_VALUE_MAX);
    if (graph->symbol_count == REMAT_SYMBOLS_MAX)
        return remat_error(ctx, REMAT_ERROR_INVALID, "more than %d symbols", REMAT_SYMBOLS_MAX);
    if (!graph->symbols)
        REMAT_NEW(arena, graph->symbols, REMAT_SYMBOLS_MAX);
    graph->symbols[graph->symbol_count++] = (struct remat_symbol){name, value};
    return REMAT_OK;
}

remat_status remat_graph_set_symbol(remat_context *ctx, struct remat_graph *graph, const char *name,
                                    int64_t value)
{
    struct remat_symbol *symbol = remat_graph_symbol(graph, name);
    if (!symbol) {
        char known[REMAT_SYMBOLS_MAX * (SYMBOL_NAME_MAX + 2) + 1] = "";
        for (uint32_t k = 0; k < graph->symbol_count; k++) {
            strcat(known, k ? ", " : "");
            strcat(known, graph->symbols[k].name);
        }
        return remat_error(ctx, REMAT_ERROR_USAGE,
                           "the graph has no symbol \"%.60s\" (accepted: %s)", name,
                           graph->symbol_count ? known : "none");
    }
    if (value < 1 || value > REMAT_SYMBOL_VALUE_MAX)
        return remat_error(ctx, REMAT_ERROR_USAGE,
                           "symbol \"%s\": %lld is out of range (accepted: 1 to %d)", name,
                           (long long)value, REMAT_SYMBOL_VALUE_MAX);
    symbol->value = value;
    return REMAT_OK;
}

/* --- building --- */

struct remat_graph *remat_graph_create(struct remat_arena *arena, const char *name)
{
    struct remat_graph *graph = remat_array(arena, 1, sizeof *graph);
    graph->name = remat_string(arena, name, strlen(name));
    remat_graph_scope(arena, graph, "");
    return graph;
}

void remat_graph_reserve(struct remat_arena *arena, struct remat_graph *graph, size_t value_count,
                         size_t node_count)
{
    graph->values = reserve(arena, graph->values, graph->value_count, &graph->value_capacity,
                            value_count, sizeof *graph->values);
    graph->nodes = reserve(arena, graph->nodes, graph->node_count, &graph->node_capacity,
                           node_count, sizeof *graph->nodes);
}

remat_value remat_graph_add_value(struct remat_arena *arena, struct remat_graph *graph,
                                  const struct remat_value_info *info)
{
    assert(info->name && info->shape.rank <= REMAT_RANK_MAX);
    graph->values = reserve(arena, graph->values, graph->value_count, &graph->value_capacity,
                            graph->value_count + (size_t)1, sizeof *graph->values);
    graph->values[graph->value_count] = *info;
    return (remat_value){graph->value_count++};
}

static void copy_ids(struct remat_arena *arena, struct remat_node_info *node)
{
    DUPLICATE(arena, node->inputs, node->input_count);
    DUPLICATE(arena, node->outputs, node->output_count);
}

static void copy_attributes(struct remat_arena *arena, struct remat_node_info *node)
{
    struct remat_attribute *copy = NULL;
    if (node->attribute_count)
        copy = remat_copy(arena, node->attributes, node->attribute_count, sizeof *copy);
    for (uint32_t a = 0; a < node->attribute_count; a++)
        if (copy[a].kind == REMAT_ATTRIBUTE_INTS)
            DUPLICATE(arena, copy[a].ints, copy[a].count);
    node->attributes = copy;
}

remat_node remat_graph_append_node(struct remat_arena *arena, struct remat_graph *graph,
                                   const struct remat_node_info *info)
{
    for (uint32_t k = 0; k < info->output_count; k++)
        assert(info->outputs[k].i < graph->value_count);
    graph->nodes = reserve(arena, graph->nodes, graph->node_count, &graph->node_capacity,
                           graph->node_count + (size_t)1, sizeof *graph->nodes);

    remat_node id = {graph->node_count++};
    struct remat_node_info *node = &graph->nodes[id.i];
    *node = *info;
    if (node->origin_group == REMAT_NONE) {
        node->origin = node->op;
        node->origin_group = id.i;
    }
    for (uint32_t k = 0; k < node->output_count; k++) {
        graph->values[node->outputs[k].i].node = id;
        graph->values[node->outputs[k].i].result = k;
    }
    return id;
}

remat_node remat_graph_add_node(struct remat_arena *arena, struct remat_graph *graph,
                                const struct remat_node_info *info)
{
    struct remat_node_info node = *info;
    copy_ids(arena, &node);
    copy_attributes(arena, &node);
    return remat_graph_append_node(arena, graph, &node);
}

struct remat_graph *remat_graph_copy(struct remat_arena *arena, const struct remat_graph *graph,
                                     uint32_t room)
{
    assert(room > 0);
    struct remat_graph *copy = remat_copy(arena, graph, 1, sizeof *graph);
    copy->value_capacity = copy->node_capacity = 0;
    remat_graph_reserve(arena, copy, room * (size_t)copy->value_count,
                        room * (size_t)copy->node_count);
    DUPLICATE(arena, copy->scopes, copy->scope_count);
    DUPLICATE(arena, copy->outputs, copy->output_count);
    DUPLICATE(arena, copy->updates, copy->update_count);
    DUPLICATE(arena, copy->symbols, copy->symbol_count);
    copy->scope_capacity = copy->scope_count;
    copy->scope_ids = (struct remat_index){0};
    return copy;
}

void remat_graph_own(struct remat_arena *arena, struct remat_graph *graph)
{
    DUPLICATE(arena, graph->name, strlen(graph->name) + 1);
    for (uint32_t v = 0; v < graph->value_count; v++) {
        struct remat_value_info *value = &graph->values[v];
        DUPLICATE(arena, value->name, strlen(value->name) + 1);
        if (value->part)
            DUPLICATE(arena, value->part, 1);
    }
    for (uint32_t s = 0; s < graph->scope_count; s++) {
        struct remat_scope *scope = &graph->scopes[s];
        DUPLICATE(arena, scope->path, strlen(scope->path) + 1);
        if (scope->stack)
            DUPLICATE(arena, scope->stack, strlen(scope->stack) + 1);
    }
    for (uint32_t n = 0; n < graph->node_count; n++)
        copy_attributes(arena, &graph->nodes[n]);
}

struct remat_graph *remat_graph_deep_copy(struct remat_arena *arena,
                                          const struct remat_graph *graph)
{
    struct remat_graph *out = remat_graph_copy(arena, graph, 1);
    remat_graph_own(arena, out);
    for (uint32_t n = 0; n < out->node_count; n++)
        copy_ids(arena, &out->nodes[n]);
    return out;
}

/* --- reading --- */

const struct remat_attribute *remat_node_attribute(const struct remat_node_info *node,
                                                   const char *key)
{
    for (uint32_t a = 0; a < node->attribute_count; a++)
        if (strcmp(node->attributes[a].key, key) == 0)
            return &node->attributes[a];
    return NULL;
}

int64_t remat_node_int(const struct remat_node_info *node, const char *key, int64_t otherwise)
{
    const struct remat_attribute *attribute = remat_node_attribute(node, key);
    return attribute && attribute->kind == REMAT_ATTRIBUTE_INT ? attribute->i : otherwise;
}

double remat_node_float(const struct remat_node_info *node, const char *key, double otherwise)
{
    const struct remat_attribute *attribute = remat_node_attribute(node, key);
    return attribute && attribute->kind == REMAT_ATTRIBUTE_FLOAT ? attribute->f : otherwise;
}

const char *remat_optimizer_name(uint8_t kind)
{
    static const char *const names[] = {"none", "adamw", "sgd"};
    return names[kind];
}

const char *remat_optimizer_setting(uint32_t k)
{
    static const char *const names[] = {"beta1", "beta2", "epsilon", "weight_decay", "clip_norm"};
    return names[k];
}

struct remat_graph remat_graph_on_mesh(const struct remat_graph *graph,
                                       const struct remat_mesh *mesh)
{
    struct remat_graph out = *graph;
    out.mesh = *mesh;
    return out;
}

uint32_t remat_graph_layers(const struct remat_graph *graph)
{
    int32_t last = -1;
    for (uint32_t n = 0; n < graph->node_count; n++) {
        int32_t layer = graph->scopes[graph->nodes[n].scope.i].layer;
        last = layer > last ? layer : last;
    }
    return (uint32_t)(last + 1);
}

remat_value remat_graph_coordinate(const struct remat_graph *graph, const char *axis)
{
    size_t prefix = strlen(REMAT_COORDINATE_PREFIX);
    for (remat_value v = {0}; v.i < graph->value_count; v.i++) {
        const char *name = graph->values[v.i].name;
        if (remat_is_none(remat_producer(graph, v).i) &&
            strncmp(name, REMAT_COORDINATE_PREFIX, prefix) == 0 && strcmp(name + prefix, axis) == 0)
            return v;
    }
    return REMAT_NO_VALUE;
}

bool remat_graph_is_undivided(const struct remat_graph *graph, const char *axis)
{
    return remat_mesh_size(&graph->mesh, axis) > 1 &&
           remat_is_none(remat_graph_coordinate(graph, axis).i);
}
