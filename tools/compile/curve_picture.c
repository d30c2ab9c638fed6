/* SPDX-License-Identifier: Apache-2.0 */
#include "curve_picture.h"

#include "mesh.h"
#include "unwind.h"

#include <assert.h>
#include <inttypes.h>

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
    if (settings->microbatches > 1) {
        remat_text_append(&sizes, "%s%" PRIu32 " microbatches", separator, settings->microbatches);
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
static const struct row {
    struct remat_policy_settings settings;
    uint32_t quarters; /* of the layers, their first ones */
} rows[] = {
    {{.ac_mode = "full"}, 0},
    {{.ac_mode = "selective", .ac_option = "op"}, 0},
    {{.recompute_granularity = "selective", .recompute_modules = "core_attn"}, 0},
    {{.ac_mode = "selective", .ac_option = "2"}, 0},
    {{.recompute_granularity = "full", .recompute_method = "block"}, 2},
    {{.ac_mode = "none"}, 0},
    {{.recompute_granularity = "selective", .recompute_modules = "core_attn,mlp"}, 0},
    {{.recompute_granularity = "full", .recompute_method = "block"}, 3},
    {{.recompute_granularity = "full", .recompute_method = "block"}, 1},
    {{.ac_mode = "selective", .ac_option = "3"}, 0},
    {{.ac_mode = "selective", .ac_option = "4"}, 0},
};
enum { ROWS = sizeof rows / sizeof *rows };

struct candidate {
    struct curve_mark mark;
    uint32_t systems; /* bits */
};

/* Each system has one, and what several have another. */
static uint32_t kind_of(uint32_t systems)
{
    for (enum remat_system k = 0; k < REMAT_SYSTEM_COUNT; k++)
        if (systems == 1u << k)
            return 1 + k;
    return 0;
}
static_assert((int)REMAT_SYSTEM_COUNT < (int)CURVE_KINDS, "a kind of each system");

/* systems 0: no system has it for this graph. */
static remat_status look_up(remat_context *ctx, struct remat_arena *arena,
                            const struct remat_graph *graph,
                            const struct remat_policy_settings *settings, struct candidate *out)
{
    remat_status st = REMAT_OK;
    struct remat_policy policy;
    struct remat_text systems = {.arena = arena};
    *out = (struct candidate){0};
    st = remat_policy_resolve(ctx, arena, graph, settings, &policy);
    if (st == REMAT_ERROR_USAGE)
        return REMAT_OK;
    REMAT_TRY(st);
    for (enum remat_system k = 0; k < REMAT_SYSTEM_COUNT; k++)
        if (remat_policy_flags(arena, &policy, k)) {
            remat_text_append(&systems, "%s%s", out->systems ? ", " : "", remat_system_name(k));
            out->systems |= 1u << k;
        }
    out->mark = (struct curve_mark){
        .name = policy.name, .kind = kind_of(out->systems), .systems = systems.items};
    if (systems.failed)
        st = REMAT_ERROR_MEMORY;
fail:
    return st;
}

/* A plan under the policy; time 0: there is none. */
static remat_status measure(remat_context *ctx, const struct remat_graph *graph,
                            const struct remat_compile_settings *settings,
                            const struct remat_policy_settings *policy, struct curve_mark *mark)
{
    struct remat_arena *scratch = remat_scratch_open(ctx);
    struct remat_program *program;
    struct remat_compile_settings given = {.has_reserve = settings->has_reserve,
                                           .reserve_bytes = settings->reserve_bytes,
                                           .device = settings->device,
                                           .policy = *policy,
                                           .mesh = settings->mesh,
                                           .microbatches = settings->microbatches,
                                           .zero = settings->zero,
                                           .exchange_bytes = settings->exchange_bytes,
                                           .loss_chunk = settings->loss_chunk};
    remat_status st = remat_compile(ctx, scratch, graph, &given, &program);
    if (st == REMAT_OK) {
        mark->budget = program->peak_bytes + program->reserve_bytes;
        mark->time = (double)program->step_ns;
    }
    remat_scratch_close(scratch);
    return st == REMAT_ERROR_MEMORY ? st : REMAT_OK;
}

static bool is_beaten(const struct candidate *candidates, uint32_t count, uint32_t which)
{
    const struct candidate *c = &candidates[which];
    for (uint32_t i = 0; i < count; i++) {
        const struct candidate *other = &candidates[i];
        if (i != which && (other->systems & c->systems) == c->systems &&
            other->mark.budget <= c->mark.budget && other->mark.time <= c->mark.time)
            return true;
    }
    return false;
}

static bool is_over(const struct remat_compile_settings *settings, const struct remat_frontier *f)
{
    const struct remat_search_state state = {.best_ns = f->points[0].step_ns,
                                             .least_bytes = f->points[f->count - 1].live_peak_bytes,
                                             .seen_count = f->evaluated_count,
                                             .to_see_count = f->decision_count};
    return f->cut_short || (settings->is_over && settings->is_over(settings->is_over_user, &state));
}

remat_status curve_picture_mark(remat_context *ctx, struct remat_arena *arena,
                                const struct remat_graph *graph,
                                const struct remat_compile_settings *settings,
                                const struct remat_frontier *frontier,
                                struct curve_picture *picture)
{
    remat_status st = REMAT_OK;
    struct candidate candidates[ROWS];
    struct curve_mark *marks;
    uint32_t count = 0, layers = remat_graph_layers(graph);
    REMAT_TRY_NEW(arena, marks, ROWS);
    for (uint32_t r = 0; r < ROWS && !is_over(settings, frontier); r++) {
        struct remat_policy_settings policy = rows[r].settings;
        struct candidate *c = &candidates[count];
        policy.has_recompute_num_layers = rows[r].quarters > 0;
        policy.recompute_num_layers = layers * rows[r].quarters / QUARTERS;
        REMAT_TRY(look_up(ctx, arena, graph, &policy, c));
        for (uint32_t i = 0; i < count && c->systems; i++)
            if (strcmp(candidates[i].mark.name, c->mark.name) == 0)
                c->systems = 0;
        if (!c->systems)
            continue;
        REMAT_TRY(measure(ctx, graph, settings, &policy, &c->mark));
        count += c->mark.time > 0;
    }
    for (uint32_t i = 0; i < count; i++)
        if (!is_beaten(candidates, count, i))
            marks[picture->mark_count++] = candidates[i].mark;
    picture->marks = marks;
fail:
    return st;
}
