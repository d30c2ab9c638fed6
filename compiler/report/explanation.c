/* SPDX-License-Identifier: Apache-2.0 */
#include "explanation.h"

#include "dump.h"
#include "size.h"

/* Each line as people are shown it. */
static remat_status show_lines(remat_context *ctx, const struct remat_text *text,
                               struct remat_text *out)
{
    char *line = text->items, *end;
    for (; line && *line; line = end + 1) {
        end = line + strcspn(line, "\n");
        bool last = !*end;
        *end = 0;
        remat_text_show(out, line);
        remat_text_append(out, "\n");
        if (last)
            break;
    }
    return text->failed || out->failed ? remat_error(ctx, REMAT_ERROR_MEMORY, "out of memory")
                                       : REMAT_OK;
}

remat_status remat_explanation_text(remat_context *ctx, struct remat_arena *arena,
                                    const struct remat_globs *globs,
                                    const struct remat_program *program, uint64_t smallest_bytes,
                                    struct remat_text *out)
{
    remat_status st = REMAT_OK;
    struct remat_text text = {.arena = arena};
    const struct dump_asked asked = {.globs = globs->items, .glob_count = (uint32_t)globs->count};
    if (smallest_bytes)
        remat_text_append(&text, "no plan fits; of the one that needs least, %s:\n",
                          remat_exact_text(smallest_bytes).text);
    REMAT_TRY(dump_why_text(ctx, arena, program, &asked, &text));
    st = show_lines(ctx, &text, out);
fail:
    return st;
}

remat_status remat_explanation_json(remat_context *ctx, struct remat_arena *arena,
                                    const struct remat_globs *globs,
                                    const struct remat_program *program, uint64_t smallest_bytes,
                                    struct remat_text *out)
{
    remat_status st = REMAT_OK;
    struct remat_text text = {.arena = arena};
    const struct dump_asked asked = {.globs = globs->items, .glob_count = (uint32_t)globs->count};
    struct dump_json json = {json_object(), false};
    dump_set(&json, "schema", json_string("remat-plan/1"));
    if (smallest_bytes)
        dump_set(&json, "smallest_budget_bytes", dump_bytes(smallest_bytes));
    REMAT_TRY(dump_why_json(ctx, arena, program, &asked, &json));
    REMAT_TRY(dump_print_json(ctx, &json, &text));
    st = show_lines(ctx, &text, out);
fail:
    json_decref(json.object);
    return st;
}
