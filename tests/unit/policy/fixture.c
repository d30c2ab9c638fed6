/* SPDX-License-Identifier: Apache-2.0 */
#include "fixture.h"

#include "models.h"
#include "passes.h"
#include "policy.h"

static const struct remat_pass_settings undivided;

remat_status fixture_expand(struct remat_arena *arena, struct remat_graph *graph,
                            struct remat_graph **out)
{
    remat_status st = REMAT_OK;
    REMAT_TRY(remat_pass_autodiff(arena, graph, &undivided, out));
    REMAT_TRY(remat_pass_optimizer(arena, *out, &undivided, out));
    REMAT_TRY(remat_pass_eliminate_common(arena, *out, &undivided, out));
    REMAT_TRY(remat_pass_expand(arena, *out, &undivided, out));
    REMAT_TRY(remat_pass_fold(arena, *out, &undivided, out));
    REMAT_TRY(remat_pass_eliminate_dead(arena, *out, &undivided, out));
fail:
    return st;
}

remat_status fixture_graph(remat_context *ctx, struct remat_arena *arena, const char *preset,
                           bool expanded, struct remat_graph **out)
{
    remat_status st = REMAT_OK;
    struct remat_model_settings settings;
    REMAT_TRY(remat_model_preset(ctx, preset, &settings));
    REMAT_TRY(remat_model_generate(ctx, arena, &settings, out));
    if (expanded)
        REMAT_TRY(fixture_expand(arena, *out, out));
fail:
    return st;
}

remat_status fixture_decide(remat_context *ctx, struct remat_arena *arena,
                            const struct remat_graph *graph,
                            const struct remat_policy_settings *settings,
                            struct remat_policy *policy, struct remat_decision *decision,
                            struct remat_notes *notes)
{
    remat_status st = REMAT_OK;
    struct remat_policy_facts *shared;
    *notes = (struct remat_notes){0};
    REMAT_TRY(remat_policy_resolve(ctx, arena, graph, settings, policy));
    REMAT_TRY(remat_policy_prepare(ctx, arena, graph, settings, &shared));
    remat_policy_decide(shared, arena, policy, decision, notes);
fail:
    return st;
}
