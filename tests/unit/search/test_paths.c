/* SPDX-License-Identifier: Apache-2.0 */
/* The second path is the first, but that the last layer by its scopes, and all after it in the
 * graph, stay as in the first decision. A result that all layers of a decoder read is never dropped
 * to recompute the layers before it twice. */
#include "check.h"
#include "graph_text.h"
#include "subject.h"

enum { LAYERS = 6 };

static uint32_t last_step(const struct remat_planner *planner, uint32_t path)
{
    return remat_path_length(&planner->paths[path]) - 1;
}

/* --- the last layer fixed --- */

static remat_status prepare(struct subject_bench *b, const char *preset)
{
    remat_status st = REMAT_OK;
    struct remat_model_settings settings;
    REMAT_TRY(remat_model_preset(b->s.ctx, preset, &settings));
    settings.layers = LAYERS;
    settings.batch = 4;
    REMAT_TRY(subject_prepare(&b->s, &settings, 0, "h100-sxm"));
    REMAT_TRY(subject_bench_extract(b));
fail:
    return st;
}

static int32_t layer_of(const struct remat_graph *g, uint32_t node)
{
    return g->scopes[g->nodes[node].scope.i].layer;
}

/* The first node of the last layer. */
static uint32_t find_last_layer(const struct remat_graph *g)
{
    uint32_t n = 0;
    while (layer_of(g, n) != LAYERS - 1)
        n++;
    return n;
}

/* Values of the last layer and after it that recomputation changes: *inside, *after. */
static void check_fixed(struct subject_bench *b, uint32_t *inside, uint32_t *after)
{
    const struct remat_graph *g = b->s.graph;
    struct remat_decision all, free, fixed;
    uint32_t begin = find_last_layer(g);
    remat_planner_decide(b->planner, &b->s.arena, (remat_path_id){0}, 0, &all);
    remat_planner_decide(b->planner, &b->s.arena, (remat_path_id){0}, last_step(b->planner, 0),
                         &free);
    remat_planner_decide(b->planner, &b->s.arena, (remat_path_id){1}, last_step(b->planner, 1),
                         &fixed);
    for (uint32_t v = 0; v < g->value_count; v++) {
        uint32_t node = g->values[v].node.i;
        bool is_fixed = !remat_is_none(node) && node >= begin;
        uint8_t expected = is_fixed ? all.actions[v] : free.actions[v];
        CHECK(fixed.actions[v] == expected, "%s: \"%s\": action %u, not %u", g->name,
              g->values[v].name, fixed.actions[v], expected);
        if (is_fixed && all.actions[v] != free.actions[v])
            ++*(layer_of(g, node) < 0 ? after : inside);
    }
}

static void check_preset(const char *preset)
{
    struct subject_bench b = {0};
    uint32_t inside = 0, after = 0;
    subject_init(&b.s);
    CHECK_OK(b.s.ctx, prepare(&b, preset), "%s", preset);
    check_fixed(&b, &inside, &after);
    CHECK(inside > 0 && after > 0, "%s: %u and %u values", preset, inside, after);
    subject_release(&b.s);
}

/* --- a result that many layers read --- */

/* x + tanh(x a) b, in the decoder + (what the encoder ends with) c */
static void write_layer(struct remat_text *t, uint32_t l, bool decoder)
{
    const char *type = "f32[64,64]", *sum = decoder ? "s" : "x";
    for (char p = 'a'; p <= (decoder ? 'c' : 'b'); p++)
        remat_text_append(t, "parameter %%%c%u : %s = normal(0.0, 0.02)\n", p, l, type);
    remat_text_append(t,
                      "%%h%u : %s = linear %%x%u %%a%u phase forward\n"
                      "%%k%u : %s = tanh %%h%u phase forward\n"
                      "%%p%u : %s = linear %%k%u %%b%u phase forward\n",
                      l, type, l, l, l, type, l, l, type, l, l);
    remat_text_append(t, "%%%s%u : %s = add %%x%u %%p%u phase forward\n", sum, l + !decoder, type,
                      l, l);
    if (decoder)
        remat_text_append(t,
                          "%%m%u : %s = linear %%x%d %%c%u phase forward\n"
                          "%%x%u : %s = add %%s%u %%m%u phase forward\n",
                          l, type, LAYERS, l, l + 1, type, l, l);
}

static remat_status prepare_shared(struct subject_bench *b)
{
    remat_status st = REMAT_OK;
    struct remat_text t = {.arena = &b->s.arena};
    struct remat_graph *source;
    remat_text_append(&t, "graph \"shared\"\n"
                          "input %%x0 : f32[64,64]\n"
                          "input %%y : f32[64,64]\n"
                          "input %%targets : i32[64]\n");
    for (uint32_t l = 0; l < LAYERS; l++)
        write_layer(&t, l, false);
    remat_text_append(&t, "parameter %%w : f32[64,64] = normal(0.0, 0.02)\n"
                          "%%x7 : f32[64,64] = linear %%y %%w phase forward\n");
    for (uint32_t l = LAYERS + 1; l <= 2 * LAYERS; l++)
        write_layer(&t, l, true);
    remat_text_append(&t, "%%loss : f32[] output, %%lse : f32[64,1] = cross_entropy %%x13 "
                          "%%targets phase loss\noutput %%loss\n");
    REMAT_TRY(remat_graph_parse(b->s.ctx, "shared", t.items, t.count, &b->s.arena, &source));
    REMAT_TRY(remat_device_description_read(b->s.ctx, &b->s.arena, "h100-sxm", 0, &b->s.device));
    REMAT_TRY(subject_prepare_graph(&b->s, source, 0));
    REMAT_TRY(subject_bench_extract(b));
fail:
    return st;
}

static uint32_t find_value(const struct remat_graph *g, const char *name)
{
    uint32_t v = 0;
    while (strcmp(g->values[v].name, name) != 0)
        v++;
    return v;
}

static void check_shared(void)
{
    struct subject_bench b = {0};
    uint32_t two_level = 0;
    subject_init(&b.s);
    MUST_OK(b.s.ctx, prepare_shared(&b));
    uint32_t shared = find_value(b.s.graph, "x6");
    for (uint32_t path = 0; path < b.planner->path_count; path++) {
        struct remat_decision decision;
        uint32_t last = last_step(b.planner, path);
        remat_planner_decide(b.planner, &b.s.arena, (remat_path_id){path}, last, &decision);
        if (decision.actions[shared] != REMAT_ACTION_SAVE)
            continue;
        for (uint32_t k = 1; k <= remat_path_twice_count(&b.planner->paths[path]);
             k++, two_level++) {
            remat_planner_decide(b.planner, &b.s.arena, (remat_path_id){path}, last + k, &decision);
            CHECK(decision.actions[shared] == REMAT_ACTION_SAVE, "path %u, two-level %u: action %u",
                  path, k, decision.actions[shared]);
        }
    }
    CHECK(two_level > LAYERS, "only %u decisions", two_level);
    subject_release(&b.s);
}

int main(void)
{
    check_preset("gpt2-tiny");
    check_preset("llama-tiny");
    check_shared();
    return check_exit();
}
