/* SPDX-License-Identifier: Apache-2.0 */
#include "model_builder.h"

#include "activation.h"

#include <fnmatch.h>
#include <math.h>

/* --- names --- */

static const char *join_names(struct model_builder *m, const char *first, const char *separator,
                              const char *second)
{
    return REMAT_FORMAT(m->b.arena, "%s%s%s", first, *first && *second ? separator : "", second);
}

static const char *full_name(struct model_builder *m, const char *name)
{
    return join_names(m, m->prefix, ".", name);
}

void remat_model_scope(struct model_builder *m, const char *scope)
{
    m->b.scope = remat_graph_scope(m->b.arena, m->b.graph, join_names(m, m->scope, "/", scope));
}

void remat_model_layer(struct model_builder *m, const char *stack, const char *prefix,
                       int64_t index)
{
    char number[24] = "";
    if (stack)
        snprintf(number, sizeof number, "%lld", (long long)index);
    m->scope = stack ? join_names(m, stack, ".", number) : "";
    m->prefix = stack ? join_names(m, prefix, ".", number) : "";
    remat_model_scope(m, "");
}

/* --- graph inputs --- */

static remat_value add_source(struct model_builder *m, struct remat_value_info *info)
{
    info->node = REMAT_NO_NODE;
    return remat_graph_add_value(m->b.arena, m->b.graph, info);
}

remat_value remat_model_input(struct model_builder *m, const char *name, int64_t seq)
{
    struct remat_value_info info = {.name = name,
                                    .dtype = REMAT_I32,
                                    .role = REMAT_ROLE_INPUT,
                                    .batched = true,
                                    .shape = {2, {m->settings->batch, seq}}};
    return add_source(m, &info);
}

static remat_value rng(struct model_builder *m)
{
    struct remat_value_info info = {
        .name = "rng", .dtype = REMAT_I32, .role = REMAT_ROLE_INPUT, .shape = {1, {4}}};
    if (remat_is_none(m->rng.i))
        m->rng = add_source(m, &info);
    return m->rng;
}

remat_value remat_model_parameter(struct model_builder *m, const char *name, int64_t rows,
                                  int64_t columns, double mean, double std)
{
    struct remat_value_info info = {
        .name = full_name(m, name),
        .dtype = m->settings->dtype,
        .role = REMAT_ROLE_PARAMETER,
        .shape = {columns ? 2 : 1, {rows, columns}},
        .trainable = !m->settings->forward_only && !m->settings->lora.rank,
        .initializer = std > 0 ? REMAT_INIT_NORMAL : REMAT_INIT_CONSTANT,
        .init_mean = mean,
        .init_std = std,
    };
    return add_source(m, &info);
}

remat_value remat_model_by_token(struct model_builder *m, const char *name, int64_t columns,
                                 double std)
{
    int64_t rows = m->settings->vocab, multiple = m->settings->vocab_multiple;
    int64_t padded = (rows + multiple - 1) / multiple * multiple;
    remat_value out = remat_model_parameter(m, name, padded, columns, 0, std);
    m->b.graph->values[out.i].unpadded_rows = padded > rows ? rows : 0;
    return out;
}

/* --- nodes --- */

/* The first result of a node. */
static remat_value add_node(struct model_builder *m, const char *name, uint16_t op,
                            const remat_value *inputs, uint32_t input_count,
                            const struct remat_attribute *attributes, uint32_t attribute_count)
{
    m->b.name = full_name(m, name);
    return remat_build(&m->b, op, inputs, input_count, attributes, attribute_count, NULL);
}

/* The length of the last axis of x. */
static int64_t width_of(const struct model_builder *m, remat_value x)
{
    const struct remat_shape *shape = &m->b.graph->values[x.i].shape;
    return shape->dims[shape->rank - 1];
}

remat_value remat_model_add(struct model_builder *m, const char *name, remat_value x, remat_value y)
{
    return add_node(m, name, REMAT_OP_add, (remat_value[]){x, y}, 2, NULL, 0);
}

remat_value remat_model_scale(struct model_builder *m, const char *name, remat_value x,
                              double factor)
{
    struct remat_attribute scale = remat_attribute_float("scale", factor);
    return add_node(m, name, REMAT_OP_scale, &x, 1, &scale, 1);
}

remat_value remat_model_embedding(struct model_builder *m, const char *name, remat_value table,
                                  remat_value ids)
{
    return add_node(m, name, REMAT_OP_embedding, (remat_value[]){table, ids}, 2, NULL, 0);
}

remat_value remat_model_join(struct model_builder *m, const char *name, remat_value x,
                             remat_value y)
{
    int64_t last = (int64_t)m->b.graph->values[x.i].shape.rank - 1;
    struct remat_attribute axis = remat_attribute_int("axis", last);
    return add_node(m, name, REMAT_OP_concat, (remat_value[]){x, y}, 2, &axis, 1);
}

remat_value remat_model_slice(struct model_builder *m, const char *name, remat_value x,
                              int64_t axis, int64_t begin, int64_t end)
{
    struct remat_attribute attributes[] = {remat_attribute_int("axis", axis),
                                           remat_attribute_int("begin", begin),
                                           remat_attribute_int("end", end)};
    return add_node(m, name, REMAT_OP_slice, &x, 1, attributes, 3);
}

remat_value remat_model_reshape(struct model_builder *m, const char *name, remat_value x,
                                const int64_t *dims, uint32_t rank)
{
    struct remat_attribute shape = {
        .key = "shape", .kind = REMAT_ATTRIBUTE_INTS, .count = rank, .ints = dims};
    return add_node(m, name, REMAT_OP_reshape, &x, 1, &shape, 1);
}

remat_value remat_model_cast(struct model_builder *m, const char *name, remat_value x,
                             remat_dtype dtype)
{
    struct remat_attribute to = remat_attribute_int("dtype", dtype);
    if (m->b.graph->values[x.i].dtype == dtype)
        return x;
    return add_node(m, name, REMAT_OP_cast, &x, 1, &to, 1);
}

static remat_value drop(struct model_builder *m, const char *name, remat_value x, double p)
{
    if (p == 0)
        return x;
    struct remat_attribute attributes[] = {remat_attribute_float("p", p),
                                           remat_attribute_int("site", m->sites++)};
    return add_node(m, name, REMAT_OP_dropout, (remat_value[]){x, rng(m)}, 2, attributes, 2);
}

remat_value remat_model_dropout(struct model_builder *m, const char *name, remat_value x)
{
    return drop(m, name, x, m->settings->dropout);
}

remat_value remat_model_heads(struct model_builder *m, const char *name, remat_value x,
                              int64_t heads)
{
    const int64_t *dims = m->b.graph->values[x.i].shape.dims;
    int64_t by_head[] = {dims[0], dims[1], heads, dims[2] / heads};
    return remat_model_reshape(m, name, x, by_head, 4);
}

/* --- rotary positions --- */

remat_value remat_model_rope_table(struct model_builder *m, const char *name, int64_t length,
                                   int64_t pairs)
{
    const struct remat_model_settings *s = m->settings;
    struct remat_attribute attributes[] = {remat_attribute_int("length", length),
                                           remat_attribute_int("pairs", pairs),
                                           remat_attribute_float("theta", s->theta),
                                           remat_attribute_float("factor", s->rope_factor),
                                           remat_attribute_float("low", s->rope_low),
                                           remat_attribute_float("high", s->rope_high),
                                           remat_attribute_int("context", s->rope_context)};
    return add_node(m, name, REMAT_OP_rope_table, NULL, 0, attributes, s->rope_factor > 0 ? 7 : 3);
}

remat_value remat_model_rope(struct model_builder *m, const char *name, remat_value x,
                             remat_value table)
{
    return add_node(m, name, REMAT_OP_rope, (remat_value[]){x, table}, 2, NULL, 0);
}

/* --- attention --- */

static remat_value transpose(struct model_builder *m, const char *name, remat_value x,
                             const int64_t *axes, uint32_t rank)
{
    struct remat_attribute permutation = {
        .key = "permutation", .kind = REMAT_ATTRIBUTE_INTS, .count = rank, .ints = axes};
    return add_node(m, name, REMAT_OP_transpose, &x, 1, &permutation, 1);
}

/* [B, T, H, D] with heads first and their groups apart: [B, H / group, group, T, D], or
 * [B, H, T, D] where there are no groups. */
static remat_value heads_first(struct model_builder *m, const char *name, remat_value x,
                               int64_t groups, int64_t group)
{
    static const int64_t plain[] = {0, 2, 1, 3}, grouped[] = {0, 2, 3, 1, 4};
    const int64_t *d = m->b.graph->values[x.i].shape.dims;
    int64_t apart[] = {d[0], d[1], groups, group, d[3]};
    if (groups == 0)
        return transpose(m, join_names(m, name, ".", "heads"), x, plain, 4);
    x = remat_model_reshape(m, join_names(m, name, ".", "groups"), x, apart, 5);
    return transpose(m, join_names(m, name, ".", "heads"), x, grouped, 5);
}

static remat_value product(struct model_builder *m, const char *name, remat_value x, remat_value y,
                           bool transposed)
{
    struct remat_attribute transpose_b = remat_attribute_int("transpose_b", transposed);
    return add_node(m, name, REMAT_OP_matmul, (remat_value[]){x, y}, 2, &transpose_b, 1);
}

/* 0, 1, ..., seq - 1, once for all layers. */
static remat_value positions(struct model_builder *m)
{
    const char *scope = m->scope, *prefix = m->prefix;
    remat_scope_id own = m->b.scope;
    if (!remat_is_none(m->positions.i))
        return m->positions;
    m->scope = m->prefix = "";
    remat_model_scope(m, "mask");
    remat_value row = remat_model_slice(m, "positions.tokens", m->tokens, 0, 0, 1);
    row = remat_model_reshape(m, "positions.like", row, &m->settings->seq, 1);
    remat_value column = add_node(m, "positions.column", REMAT_OP_column, &row, 1, NULL, 0);
    m->b.name = "positions.zero";
    remat_value zero = remat_build_constant(&m->b, 0);
    m->positions = remat_model_add(m, "positions", column, zero);
    m->scope = scope;
    m->prefix = prefix;
    m->b.scope = own;
    return m->positions;
}

/* Of the scores of q [B, T, H, D]. */
static double scale_of(const struct model_builder *m, remat_value q)
{
    return m->settings->unscaled_scores ? m->scale : m->scale / sqrt((double)width_of(m, q));
}

static remat_value written_out(struct model_builder *m, const char *name, remat_value q,
                               remat_value k, remat_value v, bool causal)
{
    static const int64_t back[] = {0, 2, 1, 3};
    const struct remat_value_info *values = m->b.graph->values;
    const struct remat_shape shape = values[q.i].shape;
    int64_t heads = shape.dims[2], kv_heads = values[k.i].shape.dims[2];
    bool grouped = heads != kv_heads;
    double scale = scale_of(m, q);
    q = heads_first(m, join_names(m, name, ".", "q"), q, grouped ? kv_heads : 0, heads / kv_heads);
    k = heads_first(m, join_names(m, name, ".", "k"), k, grouped ? kv_heads : 0, 1);
    v = heads_first(m, join_names(m, name, ".", "v"), v, grouped ? kv_heads : 0, 1);

    remat_value scores = product(m, join_names(m, name, ".", "scores"), q, k, true);
    struct remat_attribute mask[] = {remat_attribute_float("scale", scale),
                                     remat_attribute_int("window", m->settings->window)};
    if (causal)
        scores =
            add_node(m, join_names(m, name, ".", "masked"), REMAT_OP_mask_causal,
                     (remat_value[]){scores, positions(m)}, 2, mask, 1 + (m->settings->window > 0));
    else
        scores = remat_model_scale(m, join_names(m, name, ".", "scaled"), scores, scale);
    remat_value weights =
        add_node(m, join_names(m, name, ".", "softmax"), REMAT_OP_softmax, &scores, 1, NULL, 0);
    weights = drop(m, join_names(m, name, ".", "dropout"), weights, m->settings->attention_dropout);
    remat_value y = product(m, join_names(m, name, ".", "by_head"), weights, v, false);
    int64_t by_head[] = {shape.dims[0], heads, shape.dims[1], shape.dims[3]};
    if (grouped)
        y = remat_model_reshape(m, join_names(m, name, ".", "joined"), y, by_head, 4);
    y = transpose(m, join_names(m, name, ".", "by_token"), y, back, 4);
    struct remat_attribute axis = remat_attribute_int("axis", 0); /* concat of one is a copy */
    return add_node(m, name, REMAT_OP_concat, &y, 1, &axis, 1);
}

remat_value remat_model_attention(struct model_builder *m, const char *name, remat_value q,
                                  remat_value k, remat_value v, bool causal)
{
    if (m->settings->written_out)
        return written_out(m, name, q, k, v, causal);
    double p = m->settings->attention_dropout;
    int64_t window = m->settings->window;
    struct remat_attribute attributes[5];
    uint32_t count = 0;
    attributes[count++] = remat_attribute_float("scale", scale_of(m, q));
    attributes[count++] = remat_attribute_int("causal", causal);
    if (p > 0) {
        attributes[count++] = remat_attribute_float("p", p);
        attributes[count++] = remat_attribute_int("site", m->sites++);
    }
    if (window > 0)
        attributes[count++] = remat_attribute_int("window", window);
    remat_value inputs[] = {q, k, v, p > 0 ? rng(m) : REMAT_NO_VALUE};
    return add_node(m, name, REMAT_OP_attention, inputs, p > 0 ? 4 : 3, attributes, count);
}

/* --- layers --- */

/* The parameter "MODULE.KIND". */
static remat_value module_parameter(struct model_builder *m, const char *module, const char *kind,
                                    int64_t rows, int64_t columns, double mean, double std)
{
    return remat_model_parameter(m, join_names(m, module, ".", kind), rows, columns, mean, std);
}

/* x times a weight, transposed or as it is, plus a bias unless that is REMAT_NO_VALUE. */
static remat_value linear(struct model_builder *m, const char *name, remat_value x,
                          remat_value weight, remat_value bias, bool transposed)
{
    struct remat_attribute attribute = remat_attribute_int("transpose_weight", 1);
    remat_value inputs[] = {x, weight, bias};
    return add_node(m, name, REMAT_OP_linear, inputs, remat_is_none(bias.i) ? 2 : 3, &attribute,
                    transposed);
}

/* A name as peft takes it is the module's or the end of it after a dot. */
static bool is_named(const char *name, size_t name_length, const char *module, size_t module_length)
{
    return name_length > 0 && name_length <= module_length &&
           strncmp(module + module_length - name_length, name, name_length) == 0 &&
           (name_length == module_length || module[module_length - name_length - 1] == '.');
}

static bool is_listed(const char *list, const char *module, size_t length)
{
    for (size_t word; *list; list += word + (list[word] == ',')) {
        word = strcspn(list, ",");
        if (is_named(list, word, module, length))
            return true;
    }
    return false;
}

static bool is_adapted(const struct model_builder *m, remat_value weight)
{
    const char *targets = m->settings->lora.targets;
    const char *name = m->b.graph->values[weight.i].name, *kind = strrchr(name, '.');
    if (!m->settings->lora.rank)
        return false;
    if (!targets)
        return *m->scope != 0;
    return fnmatch(targets, name, 0) == 0 ||
           (kind && is_listed(targets, name, (size_t)(kind - name)));
}

static bool names_an_adapter(const struct remat_graph *graph, const char *name, size_t length)
{
    static const char suffix[] = ".lora_A.weight";
    for (uint32_t v = 0; v < graph->value_count; v++) {
        const char *value = graph->values[v].name;
        size_t bytes = strlen(value), module_length = bytes - (sizeof suffix - 1);
        if (bytes >= sizeof suffix && strcmp(value + module_length, suffix) == 0 &&
            is_named(name, length, value, module_length))
            return true;
    }
    return false;
}

const char *remat_model_idle_target(const struct model_builder *m, int *length)
{
    const char *list = m->settings->lora.targets;
    const struct remat_graph *graph = m->b.graph;
    for (uint32_t v = 0; v < graph->value_count; v++)
        if (fnmatch(list, graph->values[v].name, 0) == 0)
            return NULL; /* a glob */
    for (size_t word; *list; list += word + (list[word] == ',')) {
        word = strcspn(list, ",");
        *length = (int)word;
        if (word > 0 && !names_an_adapter(graph, list, word))
            return list;
    }
    return NULL;
}

static remat_value adapter_parameter(struct model_builder *m, const char *module, const char *kind,
                                     int64_t rows, int64_t columns, double std)
{
    remat_value out = module_parameter(m, module, kind, rows, columns, 0, std);
    m->b.graph->values[out.i].trainable = !m->settings->forward_only;
    return out;
}

/* A has the variance of the uniform initial values that peft gives it. */
static remat_value adapter(struct model_builder *m, const char *name, const char *module,
                           remat_value x, int64_t outputs, int64_t unpadded_outputs)
{
    int64_t rank = m->settings->lora.rank, width = width_of(m, x);
    double factor = m->settings->lora.alpha / (double)rank, std = 1 / sqrt(3 * (double)width);
    remat_value a = adapter_parameter(m, module, "lora_A.weight", rank, width, std);
    remat_value b = adapter_parameter(m, module, "lora_B.weight", outputs, rank, 0);
    m->b.graph->values[b.i].unpadded_rows = unpadded_outputs;
    m->adapters++;
    x = linear(m, join_names(m, name, ".", "lora_A"), x, a, REMAT_NO_VALUE, true);
    if (factor != 1)
        x = remat_model_scale(m, join_names(m, name, ".", "lora_A.scaled"), x, factor);
    return linear(m, join_names(m, name, ".", "lora_B"), x, b, REMAT_NO_VALUE, true);
}

static remat_value maybe_adapted(struct model_builder *m, const char *name, const char *module,
                                 remat_value x, remat_value weight, remat_value bias,
                                 bool transposed)
{
    if (!is_adapted(m, weight))
        return linear(m, name, x, weight, bias, transposed);
    remat_value y = linear(m, join_names(m, name, ".", "base"), x, weight, bias, transposed);
    int64_t unpadded = m->b.graph->values[weight.i].unpadded_rows;
    return remat_model_add(m, name, y, adapter(m, name, module, x, width_of(m, y), unpadded));
}

remat_value remat_model_linear(struct model_builder *m, const char *name, const char *parameters,
                               remat_value x, int64_t columns, double std)
{
    remat_value weight = module_parameter(m, parameters, "weight", width_of(m, x), columns, 0, std);
    remat_value bias = module_parameter(m, parameters, "bias", columns, 0, 0, 0);
    return maybe_adapted(m, name, parameters, x, weight, bias, false);
}

remat_value remat_model_dense(struct model_builder *m, const char *name, const char *parameters,
                              remat_value x, int64_t columns, double std, bool with_bias)
{
    remat_value bias = REMAT_NO_VALUE, weight;
    weight = module_parameter(m, parameters, "weight", columns, width_of(m, x), 0, std);
    if (with_bias)
        bias = module_parameter(m, parameters, "bias", columns, 0, 0, 0);
    return maybe_adapted(m, name, parameters, x, weight, bias, true);
}

remat_value remat_model_layer_norm(struct model_builder *m, const char *name,
                                   const char *parameters, remat_value x)
{
    struct remat_attribute epsilon = remat_attribute_float("epsilon", m->settings->epsilon);
    remat_value inputs[] = {x, module_parameter(m, parameters, "weight", width_of(m, x), 0, 1, 0),
                            REMAT_NO_VALUE};
    bool bias = !m->settings->no_bias;
    if (bias)
        inputs[2] = module_parameter(m, parameters, "bias", width_of(m, x), 0, 0, 0);
    return add_node(m, name, REMAT_OP_layer_norm, inputs, 2 + bias, &epsilon, 1);
}

remat_value remat_model_rms_norm(struct model_builder *m, const char *name, const char *parameters,
                                 remat_value x)
{
    struct remat_attribute epsilon = remat_attribute_float("epsilon", m->settings->epsilon);
    remat_value weight = module_parameter(m, parameters, "weight", width_of(m, x), 0, 1, 0);
    return add_node(m, name, REMAT_OP_rms_norm, (remat_value[]){x, weight}, 2, &epsilon, 1);
}

remat_value remat_model_tied_head(struct model_builder *m, const char *name, remat_value x,
                                  remat_value table, remat_value bias)
{
    return linear(m, name, x, table, bias, true);
}

remat_value remat_model_head(struct model_builder *m, const char *name, const char *parameters,
                             remat_value x, double std)
{
    remat_value weight =
        remat_model_by_token(m, join_names(m, parameters, ".", "weight"), width_of(m, x), std);
    return maybe_adapted(m, name, parameters, x, weight, REMAT_NO_VALUE, true);
}

void remat_model_loss(struct model_builder *m, remat_value logits, remat_value targets,
                      bool ignores)
{
    struct remat_graph *graph = m->b.graph;
    struct remat_attribute attributes[2];
    uint32_t count = 0;
    if (ignores)
        attributes[count++] = remat_attribute_int("ignore_index", -100);
    if (width_of(m, logits) > m->settings->vocab)
        attributes[count++] = remat_attribute_int("classes", m->settings->vocab);
    remat_model_layer(m, NULL, NULL, 0);
    remat_model_scope(m, "loss");
    m->b.phase = REMAT_PHASE_LOSS;
    remat_value loss = add_node(m, "loss", REMAT_OP_cross_entropy, (remat_value[]){logits, targets},
                                2, attributes, count);
    graph->values[loss.i].role = REMAT_ROLE_OUTPUT;
    graph->outputs = remat_copy(m->b.arena, &loss, 1, sizeof loss);
    graph->output_count = 1;
}

/* --- activations --- */

/* Primitive ops compute in f32. */
static remat_value primitive(struct model_builder *m, const char *name, uint16_t op,
                             const remat_value *inputs, uint32_t count)
{
    remat_value wide[2];
    for (uint32_t k = 0; k < count; k++)
        wide[k] = remat_model_cast(m, REMAT_FORMAT(m->b.arena, "%s.wide_%u", name, k), inputs[k],
                                   REMAT_F32);
    bool narrow = remat_dtype_is_rounded(m->settings->dtype);
    const char *result = narrow ? REMAT_FORMAT(m->b.arena, "%s.wide", name) : name;
    remat_value y = add_node(m, result, op, wide, count, NULL, 0);
    return remat_model_cast(m, name, y, m->settings->dtype);
}

remat_value remat_model_activate(struct model_builder *m, const char *name, remat_value x)
{
    const struct remat_activation *a = m->settings->activation;
    struct remat_attribute approximate = remat_attribute_int("approximate", a->tanh_form);
    if (!remat_op_has(a->op, REMAT_FACT_COMPOSITE))
        return primitive(m, name, a->op, &x, 1);
    return add_node(m, name, a->op, &x, 1, &approximate, a->op == REMAT_OP_gelu);
}

remat_value remat_model_gated(struct model_builder *m, const char *name, remat_value gate,
                              remat_value x)
{
    uint16_t op = m->settings->activation->gated;
    if (op != REMAT_OP_mul)
        return add_node(m, name, op, (remat_value[]){gate, x}, 2, NULL, 0);
    gate = remat_model_activate(m, REMAT_FORMAT(m->b.arena, "%s.gate", name), gate);
    return primitive(m, name, op, (remat_value[]){gate, x}, 2);
}
