/* SPDX-License-Identifier: Apache-2.0 */
#include "observe.h"

#include "graph_text.h"
#include "options.h"
#include "prepare.h"
#include "print_plan.h"
#include "size.h"

#include <inttypes.h>
#include <stdio.h>

static bool wants_pass(const struct cli_arguments *args, const char *pass)
{
    for (uint32_t i = 0; i < args->given_count; i++)
        if (args->given[i].option == OPTION_print_after && strcmp(args->given[i].value, pass) == 0)
            return true;
    return false;
}

static void print_graph(void *user, const char *pass, const struct remat_graph *graph)
{
    struct observer *observer = user;
    if (!wants_pass(observer->args, pass))
        return;
    struct remat_arena *scratch = remat_scratch_open(observer->ctx);
    struct remat_text text = {.arena = scratch};
    remat_graph_print(graph, &text);
    printf("# after %s\n%s", pass, text.items ? text.items : "");
    remat_scratch_close(scratch);
}

static void print_time(void *user, const char *pass, uint64_t ns, uint32_t runs)
{
    (void)user;
    fprintf(stderr, "%-20s %s", pass, cli_time(ns).text);
    if (runs > 1)
        fprintf(stderr, " in %" PRIu32 " runs", runs);
    fputc('\n', stderr);
}

static remat_status check_pass_names(remat_context *ctx, struct remat_arena *arena,
                                     const struct cli_arguments *args)
{
    for (uint32_t i = 0; i < args->given_count; i++) {
        const char *name;
        size_t p = 0;
        if (args->given[i].option != OPTION_print_after)
            continue;
        while ((name = remat_pass_name(p)) && strcmp(name, args->given[i].value) != 0)
            p++;
        if (name)
            continue;
        struct remat_text names = {.arena = arena};
        for (p = 0; (name = remat_pass_name(p)); p++)
            remat_text_append(&names, "%s%s", p ? ", " : "", name);
        return remat_error(ctx, REMAT_ERROR_USAGE, "--print-after '%s' is unknown (accepted: %s)",
                           args->given[i].value, names.items ? names.items : "");
    }
    return REMAT_OK;
}

remat_status observe(remat_context *ctx, struct remat_arena *arena,
                     const struct cli_arguments *args, struct remat_compile_settings *settings,
                     struct observer *observer)
{
    *observer = (struct observer){.ctx = ctx, .args = args};
    if (cli_has(args, OPTION_print_after)) {
        settings->after_pass = print_graph;
        settings->after_pass_user = observer;
    }
    if (cli_has(args, OPTION_print_plan)) {
        settings->bounded = print_plan_bound;
        settings->tried = print_plan_tried;
        settings->search_user = &observer->search_begun;
    }
    if (cli_has(args, OPTION_verbose))
        settings->pass_time = print_time;
    return check_pass_names(ctx, arena, args);
}
