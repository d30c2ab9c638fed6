/* SPDX-License-Identifier: Apache-2.0 */
#include "observe.h"

#include "graph_text.h"
#include "options.h"
#include "prepare.h"
#include "size.h"

#include <inttypes.h>

enum { KEPT_NAMED = 10 };

static void print_kept(const struct remat_binding *b)
{
    uint64_t rest_bytes = b->kept_bytes;
    for (uint32_t i = 0; i < b->kept_count && i < KEPT_NAMED; i++) {
        const struct remat_kept *kept = &b->kept[i];
        printf("%16" PRIu64 "  ", kept->bytes);
        if (kept->layer.i == REMAT_NONE)
            printf("%-10s", "no layer");
        else
            printf("layer %-4" PRIu32, kept->layer.i);
        cli_show(stdout, kept->value);
        putchar('\n');
        rest_bytes -= kept->bytes;
    }
    if (b->kept_count > KEPT_NAMED)
        printf("%16" PRIu64 "  ... and %" PRIu32 " more\n", rest_bytes, b->kept_count - KEPT_NAMED);
}

/* An empty line between what is printed. */
static void begin(bool *begun)
{
    if (*begun)
        putchar('\n');
    *begun = true;
}

/* These two print a search; `user` is a bool, false at first. */
static void print_plan_bound(void *user, const struct remat_binding *b)
{
    begin(user);
    printf("lower bound: %" PRIu64 " ns a step, found at \"", b->bound_ns);
    cli_show(stdout, b->kernel);
    printf("\" (%s)\n", b->phase);
    printf("%16" PRIu64 "  bytes persistent\n", b->static_bytes);
    printf("%16" PRIu64 "  bytes live there in every plan\n", b->other_bytes);
    printf("%16" PRIu64 "  bytes of room for what is saved\n", b->room_bytes);
    printf("%16" PRIu64 "  bytes kept by the cut at %.4g ps a byte, %" PRIu32 " values:\n",
           b->kept_bytes, b->price_ps, b->kept_count);
    print_kept(b);
}

/* "none", "path 2 step 31", "neighbour 4" */
static void print_name(const struct remat_tried *t)
{
    if (strcmp(t->policy, "per-op") != 0)
        cli_show(stdout, t->policy);
    else if (remat_is_none(t->path.i))
        printf("neighbour %" PRIu32, t->step);
    else
        printf("path %" PRIu32 " step %" PRIu32, t->path.i, t->step);
    putchar('\n');
}

static void print_number(uint64_t number, uint64_t unknown)
{
    if (number == unknown)
        printf("%16s", "-");
    else
        printf("%16" PRIu64, number);
}

static void print_plan_tried(void *user, const struct remat_tried_list *list)
{
    begin(user);
    printf("%s", list->name);
    if (list->proposal_count != 1 || list->count != 1)
        printf(": %" PRIu32 " of %" PRIu32 " scheduled, %" PRIu32 " never", list->count,
               list->proposal_count, list->proposal_count - list->count);
    putchar('\n');
    if (list->count > 0)
        printf("%16s%16s%16s%16s%16s\n", "at least ns", "time ns", "at least B", "live peak B",
               "arena B");
    for (uint32_t i = 0; i < list->count; i++) {
        const struct remat_tried *t = &list->items[i];
        print_number(t->least_ns, 0);
        printf("%16" PRIu64, t->step_ns);
        print_number(t->least_bytes, 0);
        print_number(t->live_peak_bytes, UINT64_MAX);
        print_number(t->arena_bytes, UINT64_MAX);
        printf("  %-4s  ", t->fits ? "fits" : "");
        print_name(t);
    }
}

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
    fprintf(stderr, "%-20s %s", pass, remat_time_text(ns).text);
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
        settings->search.bounded = print_plan_bound;
        settings->search.tried = print_plan_tried;
        settings->search.search_user = &observer->search_begun;
    }
    if (cli_has(args, OPTION_verbose))
        settings->pass_time = print_time;
    return check_pass_names(ctx, arena, args);
}
