/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs for tests, written in short texts. */
#include "workbench.h"

#include "builder.h"
#include "graph_text.h"
#include "reference.h"

#include <math.h>
#include <stdlib.h>

void workbench_open(struct workbench *w)
{
    *w = (struct workbench){.ctx = remat_context_create(NULL, NULL)};
    MUST(w->ctx);
    remat_arena_init(&w->arena, w->ctx);
    w->graph = remat_graph_create(&w->arena, "test");
    w->b = (struct remat_builder){.arena = &w->arena, .graph = w->graph, .prefix = "t"};
}

void workbench_close(struct workbench *w)
{
    remat_arena_release(&w->arena);
    remat_context_destroy(&w->ctx);
}

static uint32_t parse_list(const char *text, int64_t *list)
{
    uint32_t count = 0;
    while (count < REMAT_RANK_MAX && (*text == '-' || (*text >= '0' && *text <= '9'))) {
        char *end;
        list[count++] = strtoll(text, &end, 10);
        text = *end == ',' ? end + 1 : end;
        if (end[0] != ',')
            break;
    }
    return count;
}

remat_value workbench_input(struct workbench *w, const char *name, const char *text)
{
    struct remat_value_info info = {.name = name, .dtype = REMAT_F32, .node = REMAT_NO_NODE};
    info.role = REMAT_ROLE_PARAMETER;
    info.trainable = true;
    if (*text == '=' || *text == 'i') {
        info.role = REMAT_ROLE_INPUT;
        info.trainable = false;
    }
    if (*text == 'b') {
        info.dtype = REMAT_BF16;
        text++;
    }
    if (*text == 'i') {
        info.dtype = REMAT_I32;
        info.init_mean = atof(strchr(text, '<') + 1); /* remembers the limit */
    } else if (*text == '+') {
        info.init_std = 1; /* remembers the sign */
    }
    text += *text == '=' || *text == 'i' || *text == '+';
    info.shape.rank = *text >= '0' && *text <= '9' ? parse_list(text, info.shape.dims) : 0;
    return remat_graph_add_value(&w->arena, w->graph, &info);
}

uint32_t workbench_inputs(struct workbench *w, const char *texts, remat_value *inputs)
{
    uint32_t count = 0;
    while (*texts) {
        size_t length = strcspn(texts, " ");
        const char *text = remat_arena_string(&w->arena, texts, length);
        const char *name = remat_arena_format(&w->arena, "x%u", w->graph->value_count);
        inputs[count++] = *text == '_' ? REMAT_NO_VALUE : workbench_input(w, name, text);
        texts += length + (texts[length] == ' ');
    }
    return count;
}

static bool is_word(const char *word, size_t length, const char *words)
{
    for (const char *at = strstr(words, word); at; at = strstr(at + 1, word))
        if (strncmp(at, word, length) == 0 && (at == words || at[-1] == ' ') &&
            (at[length] == ' ' || at[length] == '\0'))
            return true;
    return false;
}

static uint32_t parse_attributes(struct workbench *w, const char *text,
                                 struct remat_attribute *attributes)
{
    uint32_t count = 0;
    while (*text) {
        size_t length = strcspn(text, " "), key = strcspn(text, "=");
        const char *value = text + key + 1;
        struct remat_attribute *a = &attributes[count++];
        *a = (struct remat_attribute){.key = remat_arena_string(&w->arena, text, key)};
        if (is_word(a->key, key, "shape permutation")) {
            int64_t *ints = remat_arena_array(&w->arena, REMAT_RANK_MAX, sizeof *ints);
            a->kind = REMAT_ATTRIBUTE_INTS;
            a->count = parse_list(value, ints);
            a->ints = ints;
        } else if (is_word(
                       a->key, key,
                       "value scale epsilon beta1 beta2 weight_decay theta factor low high p")) {
            a->kind = REMAT_ATTRIBUTE_FLOAT;
            a->f = atof(value);
        } else {
            a->i = strtoll(value, NULL, 10);
        }
        text += length + (text[length] == ' ');
    }
    return count;
}

remat_value workbench_node(struct workbench *w, const char *op, const remat_value *inputs,
                           uint32_t count, const char *text, remat_value *outputs)
{
    struct remat_attribute attributes[8];
    uint16_t id = 0;
    MUST(remat_op_find(op, strlen(op), &id), "no op %s", op);
    uint32_t attribute_count = parse_attributes(w, text, attributes);
    remat_value results[8];
    if (w->status == REMAT_OK)
        w->status = remat_build_checked(&w->b, id, inputs, count, attributes, attribute_count,
                                        outputs ? outputs : results);
    return w->status != REMAT_OK ? REMAT_NO_VALUE : outputs ? outputs[0] : results[0];
}

void workbench_output(struct workbench *w, remat_value value)
{
    w->graph->outputs = remat_arena_array(&w->arena, 1, sizeof *w->graph->outputs);
    w->graph->outputs[0] = value;
    w->graph->output_count = 1;
}

static double uniform(uint64_t hash)
{
    return (double)(hash >> 11) / 9007199254740992.0;
}

struct remat_graph *workbench_read(struct workbench *w, const char *inputs, const char *nodes,
                                   const char *phase, const char *output, int batch)
{
    struct remat_text text = {.arena = &w->arena};
    struct remat_graph *symbolic, *graph;
    remat_text_append(&text, "graph \"read\"\nsymbol batch = %d\n%s", batch, inputs);
    for (const char *at = nodes; *at;) {
        size_t length = strcspn(at, ";");
        remat_text_append(&text, "%.*s phase %s\n", (int)length, at, phase);
        at += length + strspn(at + length, "; ");
    }
    remat_text_append(&text, "output %%%s\n", output);
    MUST_OK(w->ctx, remat_graph_parse(w->ctx, "case", text.items, strlen(text.items), &w->arena,
                                      &symbolic));
    MUST_OK(w->ctx, remat_graph_bind(w->ctx, &w->arena, symbolic, &graph));
    return graph;
}

static double random_element(const struct remat_value_info *info, int64_t i)
{
    double u = uniform(remat_hash(&i, sizeof i, remat_hash_string(info->name, 1)));
    if (info->dtype == REMAT_I32)
        return info->init_mean > 0 ? floor(u * info->init_mean) : 3;
    if (info->init_std > 0 || info->role == REMAT_ROLE_OPTIMIZER_STATE)
        return 0.5 + u;
    return 3 * u - 1.5;
}

double **workbench_random(struct workbench *w, const struct remat_graph *graph)
{
    double **values = remat_arena_array(&w->arena, graph->value_count, sizeof *values);
    for (uint32_t v = 0; v < graph->value_count; v++) {
        const struct remat_value_info *info = &graph->values[v];
        if (info->node.i != REMAT_NONE)
            continue;
        int64_t n = remat_shape_elements(&info->shape);
        values[v] = remat_arena_array(&w->arena, (size_t)n, sizeof **values);
        for (int64_t i = 0; i < n; i++)
            values[v][i] = random_element(info, i);
    }
    return values;
}

remat_value workbench_find(const struct remat_graph *graph, const char *name)
{
    for (uint32_t v = 0; v < graph->value_count; v++)
        if (strcmp(graph->values[v].name, name) == 0)
            return (remat_value){v};
    return REMAT_NO_VALUE;
}

uint32_t workbench_count(const struct remat_graph *graph, uint16_t op)
{
    uint32_t count = 0;
    for (uint32_t n = 0; n < graph->node_count; n++)
        count += graph->nodes[n].op == op;
    return count;
}
