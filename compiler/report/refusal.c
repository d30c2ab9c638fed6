/* SPDX-License-Identifier: Apache-2.0 */
#include "refusal.h"

#include "plan_report.h"
#include "size.h"

#include <inttypes.h>
#include <stdlib.h>

static bool is_recomputable(const struct remat_refusal_resident *resident)
{
    return strcmp(resident->removal.how, "recompute") == 0;
}

static void write_lines(const struct remat_refused *kept, struct remat_text *out)
{
    const struct remat_refusal *r = &kept->refusal;
    remat_text_append(out, "  %s = arena %s + reserve %s; the budget is %s\n",
                      remat_enough_text(r->smallest_bytes).text,
                      remat_short_text(r->smallest_bytes - r->reserve_bytes).text,
                      remat_short_text(r->reserve_bytes).text,
                      remat_short_text(r->budget_bytes).text);
    if (r->floor_bytes)
        remat_text_append(
            out, "  Proven: %sno choice of what to recompute needs less than %" PRIu64 " B (%s)\n",
            r->pinned ? "with these pins " : "", r->floor_bytes,
            remat_short_text(r->floor_bytes).text);
    remat_text_append(out, "  live peak %s, of it %s persistent\n  at \"",
                      remat_short_text(kept->live_peak_bytes).text,
                      remat_short_text(kept->static_bytes).text);
    remat_text_show(out, kept->binding);
    remat_text_append(out, "\" (%s), where the largest buffers are\n", kept->phase);
    uint64_t workspace_bytes = kept->workspace_bytes;
    for (uint32_t i = 0; i < kept->resident_count; i++) {
        const struct remat_refusal_resident *resident = &kept->residents[i];
        if (workspace_bytes > resident->bytes) {
            remat_text_append(out, "  %10s  workspace: persistent\n",
                              remat_short_text(workspace_bytes).text);
            workspace_bytes = 0;
        }
        remat_text_append(out, "  %10s  ", remat_short_text(resident->bytes).text);
        remat_text_show(out, resident->name);
        if (!is_recomputable(resident))
            remat_text_append(out, ": %s\n", resident->removal.how);
        else
            remat_text_append(out, ": %s%s a step if recomputed\n",
                              resident->removal.extra_ns < 0 ? "-" : "+",
                              remat_time_text((uint64_t)llabs(resident->removal.extra_ns)).text);
    }
}

static void write_advice(const struct remat_refused *kept, struct remat_text *out)
{
    for (size_t i = 0; i < kept->advices.count; i++) {
        const struct remat_advice *advice = &kept->advices.items[i];
        remat_text_append(out, "  %s %s\n", advice->step_ns ? "fits with" : "smaller with",
                          advice->text);
    }
}

void remat_refusal_json(const struct remat_refused *kept, struct remat_text *out)
{
    const struct remat_refusal *r = &kept->refusal;
    remat_text_append(out,
                      "{\n  \"schema\": \"remat-refusal/1\",\n  \"budget_bytes\": %" PRIu64
                      ",\n  \"smallest_budget_bytes\": %" PRIu64 ",",
                      r->budget_bytes, r->smallest_bytes);
    if (r->floor_bytes)
        remat_text_append(out, "\n  \"floor_bytes\": %" PRIu64 ",", r->floor_bytes);
    remat_text_append(out,
                      "\n  \"reserve_bytes\": %" PRIu64 ",\n  \"peak_bytes\": %" PRIu64
                      ",\n  \"static_bytes\": %" PRIu64 ",\n  \"workspace_bytes\": %" PRIu64
                      ",\n  \"binding_command\": {\"name\": ",
                      r->reserve_bytes, kept->live_peak_bytes, kept->static_bytes,
                      kept->workspace_bytes);
    remat_text_json(out, kept->binding);
    remat_text_append(out, ", \"phase\": \"%s\"},\n  \"residents\": [", kept->phase);
    for (uint32_t i = 0; i < kept->resident_count; i++) {
        const struct remat_refusal_resident *resident = &kept->residents[i];
        remat_text_append(out, "%s\n    {\"name\": ", i ? "," : "");
        remat_text_json(out, resident->name);
        remat_text_append(out,
                          ", \"bytes\": %" PRIu64 ", \"removal\": \"%s\", \"recompute_extra_ns\": ",
                          resident->bytes, resident->removal.how);
        if (is_recomputable(resident))
            remat_text_append(out, "%" PRId64 "}", resident->removal.extra_ns);
        else
            remat_text_append(out, "null}");
    }
    remat_text_append(out, "\n  ],\n");
    remat_report_advice_json(&kept->advices, out);
    remat_text_append(out, "\n}\n");
}

/* Names are the compiler's, which are gone afterwards. */
static const char *copy_name(struct remat_refused *kept, const char *name)
{
    const char *copy = remat_arena_string(kept->arena, name, strlen(name));
    kept->failed |= !copy;
    return copy ? copy : "";
}

static void keep_residents(struct remat_refused *kept, const struct remat_program *program)
{
    struct remat_arena scratch;
    struct dump_residents found = {0};
    remat_arena_init(&scratch, kept->arena->ctx);
    const uint8_t *classes = dump_classify(&scratch, program);
    kept->failed |= !classes || dump_residents(&scratch, program, classes, program->peak_command,
                                               &found) != REMAT_OK;
    kept->resident_count = 0;
    for (size_t i = 0; i < found.count && i < REMAT_REFUSAL_RESIDENTS; i++) {
        const struct dump_resident *resident = &found.items[i];
        const char *name =
            resident->value == REMAT_NONE ? "-" : program->values[resident->value].name;
        kept->residents[kept->resident_count++] = (struct remat_refusal_resident){
            copy_name(kept, name), resident->buffer->bytes, resident->removal};
    }
    kept->failed |= remat_advice_measure(&scratch, program, &kept->facts) != REMAT_OK;
    kept->facts.step_ns = 0;
    remat_arena_release(&scratch);
}

static void keep_explanation(struct remat_refused *kept, const struct remat_program *plan)
{
    remat_context *ctx = kept->arena->ctx;
    uint64_t bytes = kept->refusal.smallest_bytes;
    kept->explanation = kept->explanation_json = (struct remat_text){.arena = kept->arena};
    kept->unexplained = NULL;
    if (!kept->globs->count)
        return;
    remat_status st =
        remat_explanation_text(ctx, kept->arena, kept->globs, plan, bytes, &kept->explanation);
    if (st == REMAT_OK)
        st = remat_explanation_json(ctx, kept->arena, kept->globs, plan, bytes,
                                    &kept->explanation_json);
    if (st != REMAT_OK)
        kept->unexplained = copy_name(kept, remat_context_message(ctx));
    kept->failed |= st == REMAT_ERROR_MEMORY;
}

static void keep(void *user, const struct remat_refusal *refusal)
{
    struct remat_refused *kept = user;
    const struct remat_program *plan = refusal->smallest;
    if (!plan) {
        kept->proven_bytes = refusal->floor_bytes;
        kept->refusal.budget_bytes = refusal->budget_bytes;
        return;
    }
    const struct remat_command *binding = &plan->commands[plan->peak_command];
    if (kept->refusal.smallest_bytes && kept->refusal.smallest_bytes <= refusal->smallest_bytes)
        return;
    kept->refusal = *refusal;
    kept->refusal.smallest = NULL;
    kept->live_peak_bytes = plan->peak_bytes;
    kept->static_bytes = plan->static_bytes;
    kept->workspace_bytes = plan->workspace_bytes;
    kept->binding = copy_name(kept, binding->name);
    kept->phase = remat_phase_name(binding->phase);
    keep_residents(kept, plan);
    keep_explanation(kept, plan);
    kept->facts.needed_bytes = refusal->smallest_bytes;
}

void remat_refusal_watch(struct remat_arena *arena, const struct remat_globs *globs,
                         struct remat_compile_settings *settings, struct remat_refused *out)
{
    *out = (struct remat_refused){.arena = arena, .globs = globs};
    settings->search.refused = keep;
    settings->search.refused_user = out;
}

void remat_refusal_explain_nothing(struct remat_text *lines)
{
    remat_text_append(lines, "  --explain: there is no plan of which it could say something\n");
}

remat_status remat_refusal_conclude(remat_context *ctx, const struct remat_refused *kept,
                                    struct remat_text *lines)
{
    if (!kept->refusal.smallest_bytes && kept->globs->count)
        remat_refusal_explain_nothing(lines);
    if (!kept->refusal.smallest_bytes && kept->proven_bytes)
        return remat_error(ctx, REMAT_ERROR_INFEASIBLE,
                           "budget %" PRIu64 " B is too small: no choice of what to recompute "
                           "needs less than %" PRIu64 " B (%s); there was no time to look for "
                           "what needs least",
                           kept->refusal.budget_bytes, kept->proven_bytes,
                           remat_short_text(kept->proven_bytes).text);
    if (!kept->refusal.smallest_bytes)
        return REMAT_ERROR_INFEASIBLE;
    write_lines(kept, lines);
    write_advice(kept, lines);
    if (kept->unexplained)
        remat_text_append(lines, "  --explain: %s\n", kept->unexplained);
    if (lines->failed || kept->failed)
        return remat_error(ctx, REMAT_ERROR_MEMORY, "out of memory");
    return remat_error(ctx, REMAT_ERROR_INFEASIBLE, "%s (%s)", remat_context_message(ctx),
                       remat_enough_text(kept->refusal.smallest_bytes).text);
}
