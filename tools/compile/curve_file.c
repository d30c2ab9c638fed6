/* SPDX-License-Identifier: Apache-2.0 */
#include "curve_file.h"

#include <inttypes.h>
#include <math.h>

static void write_json(struct remat_text *text, const struct curve *curve,
                       const struct remat_front *f)
{
    remat_text_append(text,
                      "{\n  \"schema\": \"remat-curve/1\",\n  \"reserve\": %" PRIu64
                      ",\n  \"floor\": %" PRIu64 ",\n  \"total_time\": %" PRIu64
                      ",\n  \"decisions\": %" PRIu32 ",\n  \"seen\": %" PRIu32
                      ",\n  \"evaluated\": %" PRIu32 ",\n  \"cut_short\": %s,\n  \"points\": ",
                      f->reserve_bytes, f->floor_bytes, f->base_ns, f->decision_count,
                      f->seen_count, f->evaluated_count, f->cut_short ? "true" : "false");
    curve_json(text, curve);
    remat_text_append(text, "\n}\n");
}

static void write_csv(struct remat_text *text, const struct curve *curve,
                      const struct remat_front *f)
{
    (void)f;
    curve_csv(text, curve);
}

static void write_svg(struct remat_text *text, const struct curve *curve,
                      const struct remat_front *f)
{
    (void)f;
    curve_svg(text, curve);
}

static const struct {
    const char *ending;
    void (*write)(struct remat_text *text, const struct curve *curve,
                  const struct remat_front *front);
} forms[] = {{".csv", write_csv}, {".json", write_json}, {".svg", write_svg}};
enum { FORMS = sizeof forms / sizeof *forms };

/* FORMS: none. */
static size_t form_of(const char *path)
{
    const char *ending = strrchr(path, '.');
    size_t f = 0;
    while (f < FORMS && !(ending && strcmp(ending, forms[f].ending) == 0))
        f++;
    return f;
}

remat_status curve_file_check(remat_context *ctx, const char *path)
{
    if (form_of(path) < FORMS)
        return REMAT_OK;
    return remat_error(ctx, REMAT_ERROR_USAGE, "--curve '%s' ends in none of .csv, .json, .svg",
                       path);
}

remat_status curve_file_write(struct remat_arena *arena, struct remat_outputs *outputs,
                              const char *path, const struct remat_front *f,
                              const struct curve_picture *picture)
{
    remat_status st = REMAT_OK;
    struct remat_text text = {.arena = arena};
    struct curve_point *points;
    REMAT_TRY_NEW(arena, points, f->count);
    for (uint32_t i = 0; i < f->count; i++) {
        const struct remat_front_point *p = &f->points[i];
        points[i] = (struct curve_point){.budget = p->live_peak_bytes + f->reserve_bytes,
                                         .fits = true,
                                         .peak = p->live_peak_bytes,
                                         .time = (double)p->step_ns,
                                         .lower_bound = f->bounded ? (double)p->bound_ns : NAN,
                                         .plan = p->policy};
    }
    forms[form_of(path)].write(&text,
                               &(struct curve){points, f->count, (double)f->base_ns, picture}, f);
    if (text.failed)
        return REMAT_ERROR_MEMORY;
    REMAT_TRY(remat_outputs_write(outputs, path, text.items, text.count));
fail:
    return st;
}

remat_status curve_picture_name(struct remat_arena *arena, const struct remat_graph *model,
                                const struct remat_compile_settings *settings,
                                struct curve_picture *picture)
{
    struct remat_text sizes = {.arena = arena};
    char mesh[REMAT_MESH_TEXT_BYTES];
    const char *separator = "";
    for (uint32_t k = 0; k < model->symbol_count; k++) {
        bool length = strcmp(model->symbols[k].name, "seq") == 0;
        remat_text_append(&sizes, "%s%s %" PRId64, separator,
                          length ? "sequence" : model->symbols[k].name, model->symbols[k].value);
        separator = ", ";
    }
    if (settings->passes.microbatches > 1) {
        remat_text_append(&sizes, "%s%" PRIu32 " microbatches", separator,
                          settings->passes.microbatches);
        separator = ", ";
    }
    remat_mesh_print(&settings->mesh, mesh);
    if (*mesh)
        remat_text_append(&sizes, "%s%s, memory of a rank", separator, mesh);
    picture->title = remat_arena_format(arena, "%s on %s", model->name, settings->device.name);
    picture->time = "predicted step time";
    picture->subtitle = sizes.items;
    picture->device = settings->device.name;
    picture->capacity = settings->device.capacity_bytes;
    return picture->title && !sizes.failed ? REMAT_OK : REMAT_ERROR_MEMORY;
}

/* What people set, the settings known best first: a graph need not have all of them. */
enum { QUARTERS = 4 };
static const struct policy_row {
    struct remat_policy_settings settings;
    uint32_t quarters; /* of the layers, their first ones */
} rows[] = {
    {{.ac_mode = "full"}, 0},
    {{.ac_mode = "selective", .ac_option = "op"}, 0},
    {{.ac_mode = "selective", .ac_option = "attention"}, 0},
    {{.recompute_granularity = "selective", .recompute_modules = "core_attn"}, 0},
    {{.ac_mode = "selective", .ac_option = "2"}, 0},
    {{.gradient_checkpointing_kwargs = "every_n_layers=2"}, 0},
    {{.recompute_granularity = "full", .recompute_method = "block"}, 2},
    {{.ac_mode = "none"}, 0},
    {{.recompute_granularity = "selective", .recompute_modules = "core_attn,mlp"}, 0},
    {{.recompute_granularity = "full", .recompute_method = "block"}, 3},
    {{.recompute_granularity = "full", .recompute_method = "block"}, 1},
    {{.ac_mode = "selective", .ac_option = "3"}, 0},
    {{.gradient_checkpointing_kwargs = "every_n_layers=4"}, 0},
    {{.ac_mode = "selective", .ac_option = "4"}, 0},
};

enum { ALL_SYSTEMS = (1u << REMAT_SYSTEM_COUNT) - 1 };

/* By system a bit: those that have flags for it. Their names for the legend. */
static uint32_t systems_of(struct remat_arena *arena, const struct remat_policy *policy,
                           struct remat_text *names)
{
    uint32_t systems = 0;
    for (enum remat_system k = 0; k < REMAT_SYSTEM_COUNT; k++)
        if (remat_policy_flags(arena, policy, k)) {
            remat_text_append(names, "%s%s", systems ? ", " : "", remat_system_name(k));
            systems |= 1u << k;
        }
    if (systems == ALL_SYSTEMS) {
        *names = (struct remat_text){.arena = arena};
        remat_text_append(names, "all of these");
    }
    return systems;
}

static bool has(const struct remat_policies *policies, const char *name)
{
    for (size_t i = 0; i < policies->count; i++)
        if (strcmp(policies->items[i].name, name) == 0)
            return true;
    return false;
}

remat_status curve_picture_policies(remat_context *ctx, struct remat_arena *arena,
                                    const struct remat_graph *graph, struct remat_policies *out)
{
    remat_status st = REMAT_OK;
    uint32_t layers = remat_graph_layers(graph);
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        struct remat_policy_settings settings = rows[r].settings;
        struct remat_policy policy;
        struct remat_text names = {.arena = arena};
        settings.has_recompute_num_layers = rows[r].quarters > 0;
        settings.recompute_num_layers = layers * rows[r].quarters / QUARTERS;
        st = remat_policy_resolve(ctx, arena, graph, &settings, &policy);
        if (st == REMAT_ERROR_USAGE)
            continue; /* the graph has no such ops or layers */
        REMAT_TRY(st);
        if (systems_of(arena, &policy, &names) && !has(out, policy.name))
            REMAT_PUSH(arena, out, policy);
    }
    st = REMAT_OK;
fail:
    return st;
}

struct mark_candidate {
    struct curve_mark mark;
    uint32_t systems;
};

/* Those that the same systems have are one kind: of all systems, of each that has some of its own,
 * and of what transformers and axolotl share, with Megatron-LM where it is the first layer. */
static uint32_t kind_of(const struct mark_candidate *candidates, uint32_t count, uint32_t systems)
{
    uint32_t next = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (candidates[i].systems == systems)
            return candidates[i].mark.kind;
        next = candidates[i].mark.kind >= next ? candidates[i].mark.kind + 1 : next;
    }
    assert(next < CURVE_KINDS);
    return next;
}

static bool is_beaten(const struct mark_candidate *candidates, uint32_t count, uint32_t which)
{
    const struct mark_candidate *c = &candidates[which];
    for (uint32_t i = 0; i < count; i++) {
        const struct mark_candidate *other = &candidates[i];
        if (i != which && other->mark.time > 0 && (other->systems & c->systems) == c->systems &&
            other->mark.budget <= c->mark.budget && other->mark.time <= c->mark.time)
            return true;
    }
    return false;
}

remat_status curve_picture_mark(struct remat_arena *arena, const struct remat_front *front,
                                struct curve_picture *picture)
{
    remat_status st = REMAT_OK;
    uint32_t count = front->policy_count;
    struct mark_candidate *candidates;
    struct curve_mark *marks;
    struct remat_text names = {.arena = arena};
    REMAT_TRY_NEW(arena, candidates, count);
    REMAT_TRY_NEW(arena, marks, count);
    for (uint32_t i = 0; i < count; i++) {
        const struct remat_front_point *point = &front->priced[i];
        names = (struct remat_text){.arena = arena};
        uint32_t systems = systems_of(arena, &front->policies[i], &names);
        uint64_t budget = point->live_peak_bytes + front->reserve_bytes;
        candidates[i] =
            (struct mark_candidate){{front->policies[i].name, kind_of(candidates, i, systems),
                                     names.items, budget, (double)point->step_ns},
                                    systems};
    }
    for (uint32_t i = 0; i < count; i++)
        if (candidates[i].mark.time > 0 && !is_beaten(candidates, count, i))
            marks[picture->mark_count++] = candidates[i].mark;
    picture->marks = marks;
    st = names.failed ? REMAT_ERROR_MEMORY : REMAT_OK;
fail:
    return st;
}
