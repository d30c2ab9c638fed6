/* SPDX-License-Identifier: Apache-2.0 */
/* Layers found by structure. For all families they are those that the scopes name, but that a norm
 * after a residual sum begins the next layer; without any scopes the plans are the same. In graphs
 * of one's own nothing that crosses many layers hides them, and only what is the same is a stack.
 * One cut for all layers is a cut for each of them, and the same for all. */
#include <inttypes.h>

#include "check.h"
#include "closure.h"
#include "graph_text.h"
#include "stacks.h"
#include "subject.h"

enum { LAYERS = 6 };

/* --- the families --- */

static const struct family {
    const char *preset;
    remat_dtype dtype;
    double dropout;
    bool written_out;
    uint32_t microbatches;
    const char *norm; /* scope in a layer: the norm after its last sum */
    bool two_stacks;  /* which have tables that are one without scopes */
} families[] = {
    {"gpt2-tiny", REMAT_F32, 0, false, 0, NULL, false},
    {"gpt2-tiny", REMAT_BF16, 0.1, true, 2, NULL, false},
    {"gpt2-tiny", REMAT_F32, 0.1, true, 0, NULL, false},
    {"llama-tiny", REMAT_F32, 0, true, 0, NULL, false},
    {"llama-tiny", REMAT_BF16, 0, false, 2, NULL, false},
    {"bert-tiny", REMAT_F32, 0, false, 0, "/ln_2", false},
    {"bert-tiny", REMAT_BF16, 0.1, true, 2, "/ln_2", false},
    {"encdec-tiny", REMAT_F32, 0.1, true, 0, "/ln_3", true},
    {"encdec-tiny", REMAT_BF16, 0, false, 2, "/ln_3", true},
    {"mlp-tiny", REMAT_F32, 0, false, 0, NULL, false},
};

enum scopes { AS_THEY_ARE, WITHOUT_LAYERS, NONE };

/* "h_3/attn/core" names no layer. */
static remat_status change_scopes(struct remat_arena *arena, enum scopes scopes,
                                  struct remat_graph *g)
{
    for (uint32_t n = 0; n < g->node_count && scopes == NONE; n++)
        g->nodes[n].scope = REMAT_TOP;
    for (uint32_t k = 0; k < g->scope_count && scopes == WITHOUT_LAYERS; k++) {
        char *path = remat_arena_format(arena, "%s", g->scopes[k].path);
        if (!path)
            return REMAT_ERROR_MEMORY;
        for (char *dot = strchr(path, '.'); dot; dot = strchr(dot, '.'))
            *dot = '_';
        g->scopes[k] = (struct remat_scope){.path = path, .layer = -1};
    }
    return REMAT_OK;
}

static remat_status prepare(struct subject_bench *b, const struct family *family,
                            enum scopes scopes)
{
    remat_status st = REMAT_OK;
    struct remat_model_settings settings;
    struct remat_graph *source;
    REMAT_TRY(remat_model_preset(b->s.ctx, family->preset, &settings));
    settings.dtype = family->dtype;
    settings.dropout = family->dropout;
    settings.written_out = family->written_out;
    settings.batch = 4;
    REMAT_TRY(remat_model_generate(b->s.ctx, &b->s.arena, &settings, &source));
    REMAT_TRY(change_scopes(&b->s.arena, scopes, source));
    REMAT_TRY(remat_device_description_read(b->s.ctx, &b->s.arena, "h100-sxm", 0, &b->s.device));
    REMAT_TRY(subject_prepare_graph(&b->s, source, family->microbatches));
    REMAT_TRY(subject_bench_extract(b));
fail:
    return st;
}

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), tail = strlen(end);
    return length >= tail && strcmp(text + length - tail, end) == 0;
}

/* By scope; decoders come after encoders. */
static uint32_t layer_named(const struct remat_graph *g, uint32_t item_node,
                            const struct family *family)
{
    const struct remat_scope *scope = &g->scopes[g->nodes[item_node].scope.i];
    uint32_t layers = remat_graph_layers(g), before = 0;
    if (scope->layer < 0)
        return REMAT_NONE;
    if (strncmp(scope->path, "decoder", 7) == 0)
        before = layers;
    if (!family->norm || !ends_with(scope->path, family->norm))
        return before + (uint32_t)scope->layer;
    return (uint32_t)scope->layer + 1 < layers ? before + (uint32_t)scope->layer + 1 : REMAT_NONE;
}

static void check_named(const struct subject_bench *b, const struct family *family)
{
    const struct remat_graph *g = b->s.graph;
    uint32_t named = 0;
    for (uint32_t i = 0; i < b->model.item_count; i++) {
        uint32_t v = b->model.item_value[i].i, node = g->values[v].node.i;
        uint32_t expected = layer_named(g, node, family), found = b->model.item_layer[i].i;
        bool embedded = family->norm && ends_with(g->scopes[g->nodes[node].scope.i].path, "embed");
        CHECK(found == expected || (embedded && found % remat_graph_layers(g) == 0),
              "%s: \"%s\" is in layer %d, by its scope in %d", g->name, g->values[v].name,
              (int)found, (int)expected);
        named += !remat_is_none(expected);
    }
    CHECK(named > b->model.item_count / 2, "%s: %u of %u items are in layers", g->name, named,
          b->model.item_count);
}

/* --- without scopes --- */

static remat_status check_decisions(const struct subject_bench *a, const struct subject_bench *b)
{
    remat_status st = REMAT_OK;
    struct remat_arena scratch;
    remat_arena_init(&scratch, a->s.ctx);
    uint32_t paths = a->planner->path_count, values = a->s.graph->value_count;
    CHECK(paths == b->planner->path_count && values == b->s.graph->value_count &&
              a->planner->floor_bytes == b->planner->floor_bytes,
          "%s: %u paths", a->s.graph->name, paths);
    for (uint32_t path = 0; path < paths; path++) {
        uint32_t length = remat_path_length(&a->planner->paths[path]);
        CHECK(length == remat_path_length(&b->planner->paths[path]), "%s: path %u of %u",
              a->s.graph->name, path, length);
        for (uint32_t i = 0; i < length; i++) {
            struct remat_decision with, without;
            remat_planner_decide(a->planner, &scratch, (remat_path_id){path}, i, &with);
            remat_planner_decide(b->planner, &scratch, (remat_path_id){path}, i, &without);
            CHECK(memcmp(with.actions, without.actions, values * sizeof *with.actions) == 0,
                  "%s: decision %u of path %u", a->s.graph->name, i, path);
            remat_arena_reset(&scratch);
        }
    }
    remat_arena_release(&scratch);
    return st;
}

/* Where a manual policy is best, names count. */
static void check_plans(struct subject_bench *a, struct subject_bench *b)
{
    struct remat_arena scratch;
    struct remat_evaluation all;
    uint32_t own = 0;
    remat_arena_init(&scratch, a->s.ctx);
    all = remat_evaluate(&a->s.evaluator, &a->none, 0);
    uint64_t least = a->planner->floor_bytes, moved = all.live_peak_bytes - least;
    for (uint32_t part = 3; part <= 9; part += 2) {
        struct remat_chosen with, without;
        remat_status fits = subject_choose(&a->s, &scratch, least + moved * part / 10, &with);
        remat_status other = subject_choose(&b->s, &scratch, least + moved * part / 10, &without);
        if (fits == REMAT_OK && other == REMAT_OK && strcmp(with.name, "per-op") == 0) {
            CHECK(with.arranged.step_ns == without.arranged.step_ns &&
                      with.arena_bytes == without.arena_bytes,
                  "%s: %" PRIu64 " ns, %" PRIu64 " ns without scopes", a->s.graph->name,
                  with.arranged.step_ns, without.arranged.step_ns);
            own++;
        }
        remat_arena_reset(&scratch);
    }
    printf("%s: %u plans\n", a->s.graph->name, own);
    remat_arena_release(&scratch);
}

/* --- one cut for all layers --- */

/* Keeps what a layer, or what is in none, needs of another one. *shared_ps: charges that are paid
 * once for tasks of several layers. */
static remat_status keep_inputs(struct subject_bench *b, double *shared_ps)
{
    remat_status st = REMAT_OK;
    struct remat_border *problem = &b->model.border;
    const remat_layer *layer = b->model.item_layer;
    uint32_t *layer_of_task, *charged; /* by charge: the last layer that pays, and 2 */
    *shared_ps = 0;
    REMAT_TRY_NEW(&b->s.arena, layer_of_task, problem->task_count);
    REMAT_TRY_NEW(&b->s.arena, charged, problem->charge_count);
    for (uint32_t i = 0; i < problem->item_count; i++) {
        const struct remat_border_task *task = &problem->tasks[problem->items[i].task.i];
        layer_of_task[problem->items[i].task.i] = layer[i].i;
        for (uint32_t k = task->input_begin; k < task->input_end; k++)
            problem->items[problem->inputs[k].i].kept |=
                layer[problem->inputs[k].i].i != layer[i].i;
    }
    for (uint32_t a = 0; a < problem->arc_count; a++) {
        const struct remat_border_arc *arc = &problem->arcs[a];
        uint32_t charge = arc->to.i - remat_border_charge_node(problem, 0).i;
        if (arc->ps != REMAT_BORDER_RULE)
            continue;
        uint32_t payer = layer_of_task[arc->from.i - problem->item_count] + 2;
        if (charged[charge] && charged[charge] != payer)
            *shared_ps += (double)problem->charge_ps[charge];
        charged[charge] = payer;
    }
fail:
    return st;
}

/* The least cost + price * bytes, beyond keeping everything, where only items of one layer, or of
 * none, may be recomputed; `all`: any item. */
static remat_status find_gain(const struct subject_bench *b, uint32_t layer, bool all, double price,
                              double *out_ps)
{
    remat_status st = REMAT_OK;
    const struct remat_model *model = &b->model;
    struct remat_border part = model->border;
    struct remat_border_network *network;
    struct remat_border_choice all_kept = {0};
    struct remat_arena scratch;
    remat_arena_init(&scratch, b->s.ctx);
    REMAT_TRY_NEW(&scratch, part.items, part.item_count);
    memcpy(part.items, model->border.items, part.item_count * sizeof *part.items);
    for (uint32_t i = 0; i < part.item_count; i++)
        part.items[i].kept |= !all && model->item_layer[i].i != layer;
    network = remat_border_network(&scratch, &part);
    struct remat_border_choice choice = remat_border_cut(network, price).choice;
    REMAT_TRY_NEW(&scratch, all_kept.run, part.task_count);
    remat_border_measure(&scratch, &part, &all_kept);
    *out_ps = (double)(choice.cost_ps - all_kept.cost_ps) + price * (double)choice.bytes;
    for (uint32_t i = 0; i < part.item_count; i++)
        if (part.items[i].wanted)
            *out_ps -= price * (double)part.items[i].bytes;
fail:
    remat_arena_release(&scratch);
    return st;
}

/* With what lies between layers kept, the cut over the whole border costs what the layers' own cuts
 * at that price do together, but that it reads once what many layers read. */
static remat_status check_sum(const struct subject_bench *b, double shared_ps)
{
    remat_status st = REMAT_OK;
    for (double price = 1e-3; price < 1e3; price *= 1.7) {
        double whole_ps, sum_ps, ps;
        REMAT_TRY(find_gain(b, 0, true, price, &whole_ps));
        REMAT_TRY(find_gain(b, REMAT_NONE, false, price, &sum_ps));
        for (uint32_t layer = 0; layer < b->model.layer_count; layer++) {
            REMAT_TRY(find_gain(b, layer, false, price, &ps));
            sum_ps += ps;
        }
        CHECK(sum_ps > whole_ps - 1 && sum_ps - shared_ps < whole_ps + 1,
              "%s, %g ps/B: %.1f ps, %.1f ps, shared %.1f ps", b->s.graph->name, price, whole_ps,
              sum_ps, shared_ps);
    }
fail:
    return st;
}

/* Item k of a layer is kept as item k of the next one is, in every corner of the hull; the first
 * and the last layer border on something else. */
static remat_status check_corners(struct subject_bench *b)
{
    remat_status st = REMAT_OK;
    struct remat_border_hull hull;
    struct remat_model *model = &b->model;
    uint32_t compared = 0;
    hull = remat_border_find_hull(&b->s.arena, &model->border);
    CHECK(hull.count > 2, "%u corners", hull.count);
    for (uint32_t c = 0; c < hull.count; c++)
        for (uint32_t layer = 1; layer + 2 < LAYERS; layer++)
            for (uint32_t i = 0, j = 0; i < model->item_count; i++) {
                if (model->item_layer[i].i != layer)
                    continue;
                while (j < model->item_count && model->item_layer[j].i != layer + 1)
                    j++;
                CHECK(j < model->item_count && hull.points[c].keep[i] == hull.points[c].keep[j],
                      "%s, corner %u: %s of layer %u", b->s.graph->name, c,
                      b->s.graph->values[model->item_value[i].i].name, layer);
                j++;
                compared++;
            }
    CHECK(compared > 0, "%s: no items", b->s.graph->name);
    return st;
}

static void check_family(const struct family *family)
{
    remat_status st = REMAT_OK;
    struct subject_bench benches[NONE + 1] = {{.planner = NULL}};
    struct subject_bench *named = &benches[AS_THEY_ARE];
    double shared_ps;
    for (enum scopes scopes = AS_THEY_ARE; scopes <= NONE; scopes++) {
        subject_init(&benches[scopes].s);
        REMAT_TRY(prepare(&benches[scopes], family, scopes));
        CHECK(benches[scopes].model.layer_count == named->model.layer_count, "%s: %u layers",
              family->preset, benches[scopes].model.layer_count);
    }
    check_named(named, family);
    REMAT_TRY(check_decisions(named, &benches[WITHOUT_LAYERS]));
    check_plans(named, &benches[WITHOUT_LAYERS]);
    if (!family->two_stacks)
        check_plans(named, &benches[NONE]);
    REMAT_TRY(keep_inputs(named, &shared_ps));
    REMAT_TRY(check_sum(named, shared_ps));
    if (named->model.layer_count == LAYERS)
        REMAT_TRY(check_corners(named));
fail:
    for (enum scopes scopes = AS_THEY_ARE; scopes <= NONE; scopes++) {
        CHECK_OK(benches[scopes].s.ctx, st, "%s", family->preset);
        subject_release(&benches[scopes].s);
    }
}

/* --- graphs of one's own --- */

enum feature {
    MASK = 1 << 0,     /* all layers read a mask, which is given */
    METRIC = 1 << 1,   /* something that is no loss is computed from a layer's result */
    HIDDEN = 1 << 2,   /* data are what the first layer reads */
    SHARED = 1 << 3,   /* layer 3 reads one value twice where others read two equal ones */
    ODD = 1 << 4,      /* layer 2 is wider inside */
    DIFFERENT = 1 << 5 /* layer 5 has another activation */
};

static const struct own {
    uint32_t features, expected; /* layers of all stacks */
} owns[] = {
    {0, LAYERS},
    {MASK, LAYERS},
    {MASK | METRIC, LAYERS},
    {HIDDEN, LAYERS},
    {SHARED, LAYERS - 1},
    {ODD, LAYERS - 1},
    {DIFFERENT, LAYERS - 1},
    {MASK | ODD | METRIC, LAYERS - 1},
};

/* x + dropout(tanh(n a) b + tanh(n a) c), n = norm(x) */
static void write_layer(struct remat_text *t, uint32_t l, uint32_t features)
{
    int hidden = features & ODD && l == 2 ? 256 : 128;
    const char *type = "f32[2,16,64]",
               *activation = features & DIFFERENT && l == 5 ? "sigmoid" : "tanh";
    remat_text_append(t,
                      "parameter %%a%u : f32[64,%d] = normal(0.0, 0.02)\n"
                      "parameter %%b%u : f32[%d,64] = normal(0.0, 0.02)\n"
                      "parameter %%c%u : f32[%d,64] = normal(0.0, 0.02)\n"
                      "parameter %%g%u : f32[64] = constant(1.0)\n",
                      l, hidden, l, hidden, l, hidden, l);
    remat_text_append(
        t,
        "%%n%u : %s, %%n%u.1 : f32[2,16,1] = rms_norm %%x%u %%g%u { epsilon = 1e-05 } "
        "phase forward\n"
        "%%h%u : f32[2,16,%d] = linear %%n%u %%a%u phase forward\n",
        l, type, l, l, l, l, hidden, l, l);
    for (int k = 1; k <= 2; k++)
        remat_text_append(t, "%%k%u.%d : f32[2,16,%d] = %s %%h%u phase forward\n", l, k, hidden,
                          activation, l);
    remat_text_append(t,
                      "%%p%u : %s = linear %%k%u.1 %%b%u phase forward\n"
                      "%%q%u : %s = linear %%k%u.%d %%c%u phase forward\n"
                      "%%s%u : %s = add %%p%u %%q%u phase forward\n",
                      l, type, l, l, l, type, l, features & SHARED && l == 3 ? 1 : 2, l, l, type, l,
                      l);
    remat_text_append(t, "%%d%u : %s = dropout %%s%u %%rng { p = 0.1, site = %u } phase forward\n",
                      l, type, l, l);
    remat_text_append(t, "%%m%u : %s = mul %%d%u %%mask phase forward\n", l, type, l);
    remat_text_append(t, "%%x%u : %s = add %%x%u %%%c%u phase forward\n", l + 1, type, l,
                      features & MASK ? 'm' : 'd', l);
}

static remat_status write_own(struct subject_bench *b, uint32_t features, struct remat_graph **out)
{
    struct remat_text t = {.arena = &b->s.arena};
    remat_text_append(&t,
                      "graph \"own.%u\"\ninput %%ids : i32[2,16]\ninput %%rng : i32[4]\n"
                      "input %%mask : f32[2,16,1]\n"
                      "parameter %%head : f32[64,64] = normal(0.0, 0.02)\n",
                      features);
    if (features & HIDDEN)
        remat_text_append(&t, "input %%x0 : f32[2,16,64]\n");
    else
        remat_text_append(&t, "parameter %%table : f32[64,64] = normal(0.0, 0.02)\n"
                              "%%x0 : f32[2,16,64] = embedding %%table %%ids phase forward\n");
    for (uint32_t l = 0; l < LAYERS; l++)
        write_layer(&t, l, features);
    remat_text_append(&t,
                      "%%logits : f32[2,16,64] = linear %%x%d %%head phase forward\n"
                      "%%loss : f32[] output, %%lse : f32[2,16,1] = cross_entropy %%logits %%ids "
                      "phase loss\n",
                      LAYERS);
    if (features & METRIC)
        remat_text_append(&t, "%%metric : f32[2,16,1] output = row_sum %%x3 phase forward\n");
    remat_text_append(&t, "output %%loss\n%s", features & METRIC ? "output %metric\n" : "");
    return remat_graph_parse(b->s.ctx, "own", t.items, t.count, &b->s.arena, out);
}

static void check_own(const struct own *own)
{
    remat_status st = REMAT_OK;
    struct subject_bench b = {0};
    struct remat_graph *source;
    subject_init(&b.s);
    REMAT_TRY(write_own(&b, own->features, &source));
    REMAT_TRY(remat_device_description_read(b.s.ctx, &b.s.arena, "h100-sxm", 0, &b.s.device));
    REMAT_TRY(subject_prepare_graph(&b.s, source, 0));
    REMAT_TRY(subject_bench_extract(&b));
    CHECK(b.model.layer_count == own->expected, "%s: %u layers, not %u", b.s.graph->name,
          b.model.layer_count, own->expected);
fail:
    CHECK_OK(b.s.ctx, st, "%u", own->features);
    subject_release(&b.s);
}

int main(void)
{
    for (size_t row = 0; row < sizeof families / sizeof *families; row++)
        check_family(&families[row]);
    for (size_t row = 0; row < sizeof owns / sizeof *owns; row++)
        check_own(&owns[row]);
    return check_exit();
}
