/* SPDX-License-Identifier: Apache-2.0 */
#include "explain.h"

#include "dump.h"
#include "options.h"
#include "size.h"
#include "tool.h"

remat_status explain_check(remat_context *ctx, const struct cli_arguments *args)
{
    static const uint32_t others[] = {OPTION_print_plan, OPTION_print_after};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (cli_has(args, OPTION_explain) && cli_has(args, others[i]))
            return remat_error(ctx, REMAT_ERROR_USAGE, "--explain and --%s: one of them",
                               args->tool->options[others[i]].name);
    return REMAT_OK;
}

static remat_status explain_text(remat_context *ctx, struct remat_arena *arena,
                                 const struct remat_program *program,
                                 const struct dump_asked *asked, uint64_t smallest_bytes,
                                 struct remat_text *out)
{
    if (smallest_bytes)
        remat_text_append(out, "no plan fits; of the one that needs least, %s:\n",
                          remat_exact_text(smallest_bytes).text);
    return dump_why_text(ctx, arena, program, asked, out);
}

static remat_status explain_json(remat_context *ctx, struct remat_arena *arena,
                                 const struct remat_program *program,
                                 const struct dump_asked *asked, uint64_t smallest_bytes,
                                 struct remat_text *out)
{
    remat_status st = REMAT_OK;
    struct dump_json json = {json_object(), false};
    dump_set(&json, "schema", json_string("remat-plan/1"));
    if (smallest_bytes)
        dump_set(&json, "smallest_budget_bytes", dump_bytes(smallest_bytes));
    REMAT_TRY(dump_why_json(ctx, arena, program, asked, &json));
    REMAT_TRY(dump_print_json(ctx, &json, out));
fail:
    json_decref(json.object);
    return st;
}

remat_status explain(remat_context *ctx, struct remat_arena *arena,
                     const struct cli_arguments *args, const struct remat_program *program,
                     uint64_t smallest_bytes, struct remat_text *out)
{
    struct dump_asked asked = {0};
    asked.globs = cli_texts(arena, args, OPTION_explain, &asked.glob_count);
    if (!asked.globs)
        return REMAT_ERROR_MEMORY;
    bool json = cli_choice(args, OPTION_format, 0) != 0;
    remat_status st =
        (json ? explain_json : explain_text)(ctx, arena, program, &asked, smallest_bytes, out);
    if (st == REMAT_OK && out->failed)
        st = remat_error(ctx, REMAT_ERROR_MEMORY, "out of memory");
    return st;
}

void explain_print(const struct remat_text *text)
{
    struct remat_text shown = {.arena = text->arena};
    const char *line = text->items ? text->items : "", *end;
    for (; *line; line = end + 1) {
        end = line + strcspn(line, "\n");
        const char *copy = remat_arena_string(text->arena, line, (size_t)(end - line));
        remat_text_show(&shown, copy ? copy : "");
        remat_text_append(&shown, "\n");
        if (!*end)
            break;
    }
    fputs(shown.items ? shown.items : "", stdout);
}

void explain_nothing(const struct cli_arguments *args)
{
    if (cli_has(args, OPTION_explain))
        cli_explain("  --explain: there is no plan of which it could say something\n");
}
