/* SPDX-License-Identifier: Apache-2.0 */
#include "refusal_text.h"

#include "report.h"
#include "show.h"
#include "size.h"
#include "tool.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static bool is_recomputable(const struct remat_refused_resident *resident)
{
    return strcmp(resident->removal, "recompute") == 0;
}

static void write_lines(const struct remat_refusal *r, struct remat_text *out)
{
    remat_text_append(out, "  %s = arena %s + reserve %s; the budget is %s\n",
                      cli_enough(r->smallest_bytes).text,
                      cli_short(r->smallest_bytes - r->reserve_bytes).text,
                      cli_short(r->reserve_bytes).text, cli_short(r->budget_bytes).text);
    if (r->floor_bytes)
        remat_text_append(
            out, "  Proven: %sno choice of what to recompute needs less than %" PRIu64 " B (%s)\n",
            r->pinned ? "with these pins " : "", r->floor_bytes, cli_short(r->floor_bytes).text);
    remat_text_append(out, "  live peak %s, of it %s persistent\n  at \"",
                      cli_short(r->live_peak_bytes).text, cli_short(r->static_bytes).text);
    remat_text_show(out, r->binding);
    remat_text_append(out, "\" (%s), where the largest buffers are\n", r->phase);
    uint64_t workspace_bytes = r->workspace_bytes;
    for (uint32_t i = 0; i < r->resident_count; i++) {
        const struct remat_refused_resident *resident = &r->residents[i];
        if (workspace_bytes > resident->bytes) {
            remat_text_append(out, "  %10s  workspace: persistent\n",
                              cli_short(workspace_bytes).text);
            workspace_bytes = 0;
        }
        remat_text_append(out, "  %10s  ", cli_short(resident->bytes).text);
        remat_text_show(out, resident->name);
        if (!is_recomputable(resident))
            remat_text_append(out, ": %s\n", resident->removal);
        else
            remat_text_append(out, ": %s%s a step if recomputed\n",
                              resident->recompute_extra_ns < 0 ? "-" : "+",
                              cli_time((uint64_t)llabs(resident->recompute_extra_ns)).text);
    }
}

static void print_json(const struct remat_refusal *r)
{
    printf("{\n  \"schema\": \"remat-refusal/1\",\n  \"budget_bytes\": %" PRIu64
           ",\n  \"smallest_budget_bytes\": %" PRIu64 ",",
           r->budget_bytes, r->smallest_bytes);
    if (r->floor_bytes)
        printf("\n  \"floor_bytes\": %" PRIu64 ",", r->floor_bytes);
    printf("\n  \"reserve_bytes\": %" PRIu64 ",\n  \"peak_bytes\": %" PRIu64
           ",\n  \"static_bytes\": %" PRIu64 ",\n  \"workspace_bytes\": %" PRIu64
           ",\n  \"binding_command\": {\"name\": ",
           r->reserve_bytes, r->live_peak_bytes, r->static_bytes, r->workspace_bytes);
    report_print_json_string(r->binding);
    printf(", \"phase\": \"%s\"},\n  \"residents\": [", r->phase);
    for (uint32_t i = 0; i < r->resident_count; i++) {
        const struct remat_refused_resident *resident = &r->residents[i];
        printf("%s\n    {\"name\": ", i ? "," : "");
        report_print_json_string(resident->name);
        printf(", \"bytes\": %" PRIu64 ", \"removal\": \"%s\", \"recompute_extra_ns\": ",
               resident->bytes, resident->removal);
        if (is_recomputable(resident))
            printf("%" PRId64 "}", resident->recompute_extra_ns);
        else
            printf("null}");
    }
    printf("\n  ]\n}\n");
}

/* Names are the compiler's, which are gone afterwards. */
static const char *copy_name(struct refusal_kept *kept, const char *name)
{
    const char *copy = remat_arena_string(kept->arena, name, strlen(name));
    kept->failed |= !copy;
    return copy ? copy : "";
}

static void keep(void *user, const struct remat_refusal *refusal)
{
    struct refusal_kept *kept = user;
    if (kept->refusal.smallest_bytes && kept->refusal.smallest_bytes <= refusal->smallest_bytes)
        return;
    kept->refusal = *refusal;
    kept->refusal.binding = copy_name(kept, refusal->binding);
    kept->refusal.residents = kept->residents;
    for (uint32_t i = 0; i < refusal->resident_count; i++) {
        kept->residents[i] = refusal->residents[i];
        kept->residents[i].name = copy_name(kept, refusal->residents[i].name);
    }
}

void refusal_watch(struct remat_arena *arena, struct remat_compile_settings *settings,
                   struct refusal_kept *out)
{
    *out = (struct refusal_kept){.arena = arena};
    settings->refused = keep;
    settings->refused_user = out;
}

remat_status refusal_print(remat_context *ctx, const struct refusal_kept *kept, bool json)
{
    struct remat_text lines = {.arena = kept->arena};
    if (!kept->refusal.smallest_bytes)
        return REMAT_ERROR_INFEASIBLE;
    write_lines(&kept->refusal, &lines);
    if (lines.failed || kept->failed)
        return remat_error(ctx, REMAT_ERROR_MEMORY, "out of memory");
    cli_explain(lines.items);
    if (json)
        print_json(&kept->refusal);
    return remat_error(ctx, REMAT_ERROR_INFEASIBLE, "%s (%s)", remat_context_message(ctx),
                       cli_enough(kept->refusal.smallest_bytes).text);
}
