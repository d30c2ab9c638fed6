/* SPDX-License-Identifier: Apache-2.0 */
#include "curve_marks.h"

#include <assert.h>

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

remat_status remat_curve_policies(remat_context *ctx, struct remat_arena *arena,
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
    struct remat_curve_mark mark;
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
    assert(next < REMAT_CURVE_KINDS);
    return next;
}

static bool is_beaten(const struct mark_candidate *candidates, uint32_t count, uint32_t which)
{
    const struct mark_candidate *c = &candidates[which];
    for (uint32_t i = 0; i < count; i++) {
        const struct mark_candidate *other = &candidates[i];
        if (i != which && other->mark.step_ns > 0 && (other->systems & c->systems) == c->systems &&
            other->mark.budget_bytes <= c->mark.budget_bytes &&
            other->mark.step_ns <= c->mark.step_ns)
            return true;
    }
    return false;
}

remat_status remat_curve_marks(struct remat_arena *arena, const struct remat_front *front,
                               struct remat_curve_mark **out, uint32_t *out_count)
{
    remat_status st = REMAT_OK;
    uint32_t count = front->policy_count;
    *out_count = 0;
    struct mark_candidate *candidates;
    struct remat_curve_mark *marks;
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
                                     names.items, budget, point->step_ns},
                                    systems};
    }
    for (uint32_t i = 0; i < count; i++)
        if (candidates[i].mark.step_ns > 0 && !is_beaten(candidates, count, i))
            marks[(*out_count)++] = candidates[i].mark;
    *out = marks;
    st = names.failed ? REMAT_ERROR_MEMORY : REMAT_OK;
fail:
    return st;
}
