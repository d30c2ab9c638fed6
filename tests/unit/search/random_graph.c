/* SPDX-License-Identifier: Apache-2.0 */
#include "random_graph.h"

#include <math.h>

#include "graph_text.h"
#include "philox.h"
#include "rebuild.h"

static const struct remat_pass_settings undivided;

enum { VALUES_MAX = 128, WIDTHS = 3 };

struct writer {
    struct random *random;
    struct remat_text text;
    uint32_t count;
    uint32_t body; /* draws before what layers have */
    const char *scope;
    uint32_t first;         /* value that a node may read: what the layer begins with */
    int widths[VALUES_MAX]; /* of %v0, %v1, ... */
    remat_dtype types[VALUES_MAX];
    bool casts, uniform, plain; /* of typed graphs: widths, and ops as without `mixed` */
    bool read[VALUES_MAX];
};

uint32_t random_draw(struct random *r, uint32_t below)
{
    uint32_t bits[4];
    philox((const uint32_t[4]){r->draws++}, (const uint32_t[2]){r->seed, 11}, bits);
    return bits[0] % below;
}

static double draw_factor(struct random *r)
{
    return exp2(random_draw(r, 25) / 4.0 - 3);
}

void random_rates(struct random *r, struct remat_device_description *device)
{
    double matmul = draw_factor(r);
    for (int t = 0; t < REMAT_DTYPE_COUNT; t++)
        device->matmul_flops_per_ns[t] *= matmul;
    device->launch_ns *= exp2(-4.0 - random_draw(r, 8));
    device->memory_bytes_per_ns *= draw_factor(r);
    device->pointwise_flops_per_ns *= draw_factor(r);
}

void random_balance(struct random *r, struct remat_device_description *device)
{
    double matmul = draw_factor(r), bytes_per_ns = 1.0 / 16;
    for (int t = 0; t < REMAT_DTYPE_COUNT; t++)
        device->matmul_flops_per_ns[t] *= matmul / 8192;
    device->memory_bytes_per_ns = bytes_per_ns;
    device->pointwise_flops_per_ns = bytes_per_ns * exp2(random_draw(r, 33) / 4.0 - 4);
    device->launch_ns = random_draw(r, 4) ? 1000 * exp2(random_draw(r, 10)) : 0;
}

/* The last value half of the time. */
static uint32_t draw_value(struct writer *w)
{
    return random_draw(w->random, 2) ? w->count - 1
                                     : w->first + random_draw(w->random, w->count - w->first);
}

static const char *operand(struct writer *w, uint32_t v)
{
    w->read[v] = true;
    return remat_arena_format(w->text.arena, "%%v%u", v);
}

/* The result of the node that follows, with its type; returns its number. */
static uint32_t begin_value(struct writer *w, remat_dtype type, int width)
{
    w->widths[w->count] = width;
    w->types[w->count] = type;
    remat_text_append(&w->text, "%%v%u : %s[2,64,%d]", w->count, remat_dtype_name(type), width);
    return w->count++;
}

static uint32_t begin_like(struct writer *w, uint32_t x)
{
    return begin_value(w, w->types[x], w->widths[x]);
}

static void end_node(struct writer *w)
{
    remat_text_append(&w->text, " phase forward%s\n", w->scope);
}

/* x, or a cast of it. */
static uint32_t as_type(struct writer *w, uint32_t x, remat_dtype type)
{
    if (w->types[x] == type)
        return x;
    uint32_t v = begin_value(w, type, w->widths[x]);
    remat_text_append(&w->text, " = cast %s { dtype = %d }", operand(w, x), (int)type);
    end_node(w);
    return v;
}

/* Some ops have no bf16. */
static uint32_t as_input(struct writer *w, const char *op, uint32_t x)
{
    bool single = strstr(" tanh sigmoid sub mul maximum row_sum ", op);
    return single ? as_type(w, x, REMAT_F32) : x;
}

static void write_unary(struct writer *w, uint32_t x)
{
    static const char *const ops[] = {"gelu", "silu", "tanh", "sigmoid", "relu", "softmax"};
    const char *op = ops[random_draw(w->random, 6)];
    x = as_input(w, op, x);
    begin_like(w, x);
    remat_text_append(&w->text, " = %s %s", op, operand(w, x));
    end_node(w);
}

static void write_binary(struct writer *w, const char *op, uint32_t x, uint32_t y)
{
    x = as_input(w, op, x);
    y = as_type(w, y, w->types[x]);
    begin_value(w, w->types[x], w->widths[x] > w->widths[y] ? w->widths[x] : w->widths[y]);
    remat_text_append(&w->text, " = %s %s %s", op, operand(w, x), operand(w, y));
    end_node(w);
}

static int draw_width(struct writer *w)
{
    static const int widths[WIDTHS] = {16, 64, 256};
    return w->uniform ? 64 : widths[random_draw(w->random, WIDTHS)];
}

static void write_linear(struct writer *w, uint32_t x, int width)
{
    remat_text_append(&w->text, "parameter %%w%u : %s[%d,%d] = normal(0.0, 0.02)\n", w->count,
                      remat_dtype_name(w->types[x]), w->widths[x], width);
    uint32_t v = begin_value(w, w->types[x], width);
    remat_text_append(&w->text, " = linear %s %%w%u", operand(w, x), v);
    end_node(w);
}

/* Along the rows of x, for the value that follows. */
static void write_vector(struct writer *w, uint32_t x)
{
    remat_text_append(&w->text, "parameter %%w%u : %s[%d] = constant(1.0)\n", w->count,
                      remat_dtype_name(w->types[x]), w->widths[x]);
}

static void write_norm(struct writer *w, uint32_t x)
{
    write_vector(w, x);
    uint32_t v = begin_like(w, x);
    remat_text_append(&w->text, ", %%v%u.1 : f32[2,64,1] = rms_norm %s %%w%u { epsilon = 1e-05 }",
                      v, operand(w, x), v);
    end_node(w);
}

static void write_dropout(struct writer *w, uint32_t x)
{
    uint32_t v = begin_like(w, x);
    remat_text_append(&w->text, " = dropout %s %%rng { p = 0.1, site = %u }", operand(w, x), v);
    end_node(w);
}

/* A value as wide as x, not x; x when there is none. */
static uint32_t draw_partner(struct writer *w, uint32_t x)
{
    uint32_t count = w->count - w->first, y = random_draw(w->random, count), tries = 0;
    while ((w->first + y == x || w->widths[w->first + y] != w->widths[x]) && tries++ < count)
        y = (y + 1) % count;
    return tries <= count ? w->first + y : x;
}

/* A row value beside the last one, or by a value of any width, which it is repeated along. */
static void write_broadcast(struct writer *w, uint32_t x)
{
    static const char *const ops[] = {"add", "sub", "mul", "maximum"};
    uint32_t y = w->first + random_draw(w->random, w->count - w->first);
    if (w->widths[x] != 1 && w->widths[y] != 1 && w->widths[x] != w->widths[y])
        y = x;
    write_binary(w, ops[random_draw(w->random, 4)], x, y);
}

static void write_row(struct writer *w, uint32_t x)
{
    x = as_input(w, "row_sum", x);
    begin_value(w, REMAT_F32, 1);
    remat_text_append(&w->text, " = row_sum %s", operand(w, x));
    end_node(w);
}

/* By a vector that is a parameter, whose gradient is a column sum. */
static void write_gain(struct writer *w, uint32_t x)
{
    const char *op = random_draw(w->random, 2) ? "mul" : "add";
    x = as_input(w, op, x);
    write_vector(w, x);
    uint32_t v = begin_like(w, x);
    remat_text_append(&w->text, " = %s %s %%w%u", op, operand(w, x), v);
    end_node(w);
}

/* A view of x, .in of the value that follows. */
static void write_flat(struct writer *w, uint32_t x)
{
    int width = w->widths[x];
    remat_text_append(&w->text, "%%v%u.in : %s[128,%d] = reshape %s { shape = [128, %d] }",
                      w->count, remat_dtype_name(w->types[x]), width, operand(w, x), width);
    end_node(w);
}

/* One op between two views. */
static void write_viewed(struct writer *w, uint32_t x)
{
    static const char *const ops[] = {"gelu", "tanh", "softmax", "sigmoid"};
    const char *op = ops[random_draw(w->random, 4)];
    x = as_input(w, op, x);
    uint32_t v = w->count;
    write_flat(w, x);
    remat_text_append(&w->text, "%%v%u.out : %s[128,%d] = %s %%v%u.in", v,
                      remat_dtype_name(w->types[x]), w->widths[x], op, v);
    end_node(w);
    begin_like(w, x);
    remat_text_append(&w->text, " = reshape %%v%u.out { shape = [2, 64, %d] }", v, w->widths[x]);
    end_node(w);
}

static void write_mixed_node(struct writer *w)
{
    static void (*const write[])(struct writer *, uint32_t) = {
        write_unary, write_unary, write_norm, write_dropout,   write_broadcast, write_broadcast,
        write_row,   write_row,   write_gain, write_broadcast, write_viewed};
    uint32_t x = draw_value(w), kind = random_draw(w->random, 14);
    if (kind < sizeof write / sizeof *write)
        write[kind](w, x);
    else
        write_linear(w, x, draw_width(w));
}

static void write_pair(struct writer *w, uint32_t x)
{
    static const char *const ops[] = {"add", "add", "mul", "swiglu"};
    uint32_t y = draw_partner(w, x);
    write_binary(w, ops[random_draw(w->random, 4)], x, y);
}

static void write_plain_node(struct writer *w)
{
    uint32_t x = draw_value(w), kind = random_draw(w->random, 10);
    if (kind < 3)
        write_unary(w, x);
    else if (kind < 5)
        write_pair(w, x);
    else if (kind < 8)
        write_linear(w, x, draw_width(w));
    else if (kind == 8)
        write_norm(w, x);
    else
        write_dropout(w, x);
}

/* Of a table that is computed. */
static void write_lookup(struct writer *w, uint32_t x)
{
    uint32_t v = w->count;
    write_flat(w, x);
    begin_like(w, x);
    remat_text_append(&w->text, " = embedding %%v%u.in %%ids", v);
    end_node(w);
}

static void write_typed_node(struct writer *w)
{
    static void (*const write[])(struct writer *, uint32_t) = {write_lookup, write_pair,
                                                               write_broadcast};
    uint32_t x = draw_value(w), kind = random_draw(w->random, 10);
    if (w->casts && random_draw(w->random, 3) == 0)
        as_type(w, x, w->types[x] == REMAT_F32 ? REMAT_BF16 : REMAT_F32);
    else if (kind < sizeof write / sizeof *write)
        write[kind](w, x);
    else if (kind == 3)
        write_linear(w, x, random_draw(w->random, 2) ? 64 : 1);
    else if (w->plain)
        write_plain_node(w);
    else
        write_mixed_node(w);
    if (w->types[0] == REMAT_BF16 && random_draw(w->random, 4))
        as_type(w, w->count - 1, REMAT_BF16);
}

/* Adds what only the loss needs much room for, or only the backward pass, or both, or nothing. */
static void write_peaks(struct writer *w)
{
    uint32_t kind = random_draw(w->random, 8), x = w->count - 1;
    if (kind >= 5) {
        write_linear(w, x, 1024);
        write_row(w, w->count - 1);
        write_binary(w, "add", x, w->count - 1);
    }
    if (kind == 3 || kind == 4 || kind == 7) {
        x = as_type(w, w->count - 1, REMAT_F32);
        const char *d = operand(w, as_type(w, 0, REMAT_F32));
        remat_text_append(&w->text,
                          "%%p : f32[2,64,512] = concat %s %s %s %s %s %s %s %s { axis = 2 } "
                          "phase loss\n"
                          "%%q : f32[2,64,2048] = concat %%p %%p %%p %%p { axis = 2 } phase loss\n"
                          "%%t : f32[2,64,1] = row_sum %%q phase loss\n",
                          d, d, d, d, d, d, d, d);
        begin_like(w, x);
        remat_text_append(&w->text, " = add %s %%t", operand(w, x));
        end_node(w);
    }
    if (random_draw(w->random, 2))
        write_broadcast(w, w->count - 1);
}

static void write_node(struct writer *w)
{
    if (w->random->typed)
        write_typed_node(w);
    else if (w->random->mixed)
        write_mixed_node(w);
    else
        write_plain_node(w);
}

/* Every parameter must matter: the last value takes in what nothing has read. */
static void join(struct writer *w)
{
    for (uint32_t v = w->first; v + 1 < w->count; v++) {
        uint32_t last = w->count - 1;
        if (w->read[v])
            continue;
        if (w->widths[v] != w->widths[last] && (!w->random->mixed || w->widths[v] != 1))
            write_linear(w, last, w->widths[v]);
        write_binary(w, "add", w->count - 1, v);
    }
}

/* From the same draws as the one before. */
static void write_layer(struct writer *w, uint32_t layer, uint32_t nodes)
{
    w->random->draws = w->body;
    w->first = w->count - 1;
    w->scope = remat_arena_format(w->text.arena, " scope \"layers.%u\"", layer);
    for (uint32_t n = 0; n < nodes; n++)
        write_node(w);
    join(w);
    w->scope = "";
}

static void begin_inputs(struct writer *w)
{
    uint32_t kind = w->random->typed ? random_draw(w->random, 8) : 0;
    remat_dtype type = kind > 4 ? REMAT_BF16 : REMAT_F32;
    w->casts = kind > 1 && kind <= 4;
    if (w->random->typed) {
        w->uniform = random_draw(w->random, 2);
        w->plain = random_draw(w->random, 3) == 0;
        remat_text_append(&w->text, "input ");
        begin_value(w, type, 64);
        remat_text_append(&w->text, "\n");
    }
    if (!w->random->typed || random_draw(w->random, 2)) {
        remat_text_append(&w->text, "parameter %%table : %s[64,64] = normal(0.0, 0.02)\n",
                          remat_dtype_name(type));
        begin_value(w, type, 64);
        remat_text_append(&w->text, " = embedding %%table %%ids phase forward\n");
    }
}

remat_status random_graph(remat_context *ctx, struct remat_arena *arena, struct random *r,
                          uint32_t nodes, uint32_t layers, struct remat_graph **out)
{
    struct writer w = {.random = r, .text = {.arena = arena}, .scope = ""};
    remat_text_append(&w.text,
                      "graph \"random.%u\"\n"
                      "input %%ids : i32[2,64]\n"
                      "input %%rng : i32[4]\n",
                      r->seed);
    begin_inputs(&w);
    w.body = r->draws;
    for (uint32_t n = 0; n < nodes && layers == 0; n++)
        write_node(&w);
    join(&w);
    for (uint32_t layer = 0; layer < layers; layer++)
        write_layer(&w, layer, (nodes + layers - 1) / layers);
    if (r->typed)
        write_peaks(&w);
    const char *type = remat_dtype_name(w.types[w.count - 1]);
    remat_text_append(&w.text,
                      "parameter %%head : %s[%d,64] = normal(0.0, 0.02)\n"
                      "%%logits : %s[2,64,64] = linear %%v%u %%head phase forward\n"
                      "%%loss : f32[] output, %%lse : f32[2,64,1] = cross_entropy %%logits %%ids "
                      "phase loss\n"
                      "output %%loss\n",
                      type, w.widths[w.count - 1], type, w.count - 1);
    return remat_graph_parse(ctx, "random", w.text.items, w.text.count, arena, out);
}

/* By node: the one that it comes right after, as soon as there is all that it reads; forward nodes
 * stay where they are. `early`: some of the backward pass become forward ones. */
static uint32_t *draw_places(struct random *r, struct remat_arena *arena,
                             const struct remat_graph *graph, bool *early)
{
    uint32_t *places;
    REMAT_NEW(arena, places, graph->node_count);
    for (uint32_t n = 0; n < graph->node_count; n++) {
        const struct remat_node_info *node = &graph->nodes[n];
        bool given = remat_in_forward_pass(node->phase);
        early[n] = given || random_draw(r, 3);
        places[n] = given ? n : 0;
        for (uint32_t k = 0; k < node->input_count; k++) {
            remat_node from = remat_producer(graph, node->inputs[k]);
            if (remat_is_none(from.i))
                continue;
            early[n] &= early[from.i];
            places[n] = places[n] < places[from.i] ? places[from.i] : places[n];
        }
        if (!early[n])
            places[n] = n;
    }
    return places;
}

remat_status random_joint(struct remat_arena *arena, struct random *r,
                          const struct remat_graph *graph, struct remat_graph **out)
{
    remat_status st = REMAT_OK;
    struct remat_graph *joint;
    bool *early;
    REMAT_TRY(remat_pass_autodiff(arena, graph, &undivided, &joint));
    REMAT_TRY(remat_pass_expand(arena, joint, &undivided, &joint));
    REMAT_NEW(arena, early, joint->node_count);
    const uint32_t *places = draw_places(r, arena, joint, early);
    struct remat_rebuild to = remat_rebuild_begin(arena, joint, 1);
    for (uint32_t place = 0; place < joint->node_count; place++)
        for (remat_node n = {place}; n.i < joint->node_count; n.i++)
            if (places[n.i] == place) {
                remat_rebuild_copy(&to, n);
                uint8_t *phase = &to.to->nodes[to.to->node_count - 1].phase;
                if (early[n.i] && *phase == REMAT_PHASE_BACKWARD)
                    *phase = REMAT_PHASE_FORWARD;
            }
    *out = remat_rebuild_finish(&to);
fail:
    return st;
}
