/* SPDX-License-Identifier: Apache-2.0 */
#include "observe.h"

#include "graph_text.h"
#include "prepare.h"
#include "size.h"

#include <inttypes.h>

enum { KEPT_NAMED = 10 };

static void print_kept(const struct remat_binding *b, struct remat_text *out)
{
    uint64_t rest_bytes = b->kept_bytes;
    for (uint32_t i = 0; i < b->kept_count && i < KEPT_NAMED; i++) {
        const struct remat_kept *kept = &b->kept[i];
        remat_text_append(out, "%16" PRIu64 "  ", kept->bytes);
        if (kept->layer.i == REMAT_NONE)
            remat_text_append(out, "%-10s", "no layer");
        else
            remat_text_append(out, "layer %-4" PRIu32, kept->layer.i);
        remat_text_show(out, kept->value);
        remat_text_append(out, "\n");
        rest_bytes -= kept->bytes;
    }
    if (b->kept_count > KEPT_NAMED)
        remat_text_append(out, "%16" PRIu64 "  ... and %" PRIu32 " more\n", rest_bytes,
                          b->kept_count - KEPT_NAMED);
}

/* An empty line between searches. */
static void begin(struct remat_observer *observer, struct remat_text *out)
{
    if (observer->search_begun)
        remat_text_append(out, "\n");
    observer->search_begun = true;
}

static void show(const struct remat_observer *observer, bool time, const struct remat_text *text)
{
    observer->show(observer->user, time, text->items ? text->items : "");
}

static void print_plan_bound(const struct remat_binding *b, struct remat_text *out)
{
    remat_text_append(out, "lower bound: %" PRIu64 " ns a step, found at \"", b->bound_ns);
    remat_text_show(out, b->kernel);
    remat_text_append(out, "\" (%s)\n", b->phase);
    remat_text_append(out, "%16" PRIu64 "  bytes persistent\n", b->static_bytes);
    remat_text_append(out, "%16" PRIu64 "  bytes live there in every plan\n", b->other_bytes);
    remat_text_append(out, "%16" PRIu64 "  bytes of room for what is saved\n", b->room_bytes);
    remat_text_append(out, "%16" PRIu64 "  ns by the cut at %.4g ps a byte\n", b->priced_ns,
                      b->price_ps);
    remat_text_append(out, "%16" PRIu64 "  bytes kept by it, %" PRIu32 " values:\n", b->kept_bytes,
                      b->kept_count);
    print_kept(b, out);
}

/* "none", "path 2 step 31", "neighbour 4" */
static void print_name(const struct remat_tried *t, struct remat_text *out)
{
    if (strcmp(t->policy, "per-op") != 0)
        remat_text_show(out, t->policy);
    else if (remat_is_none(t->path.i))
        remat_text_append(out, "neighbour %" PRIu32, t->step);
    else
        remat_text_append(out, "path %" PRIu32 " step %" PRIu32, t->path.i, t->step);
    remat_text_append(out, "\n");
}

static void print_number(uint64_t number, uint64_t unknown, struct remat_text *out)
{
    if (number == unknown)
        remat_text_append(out, "%16s", "-");
    else
        remat_text_append(out, "%16" PRIu64, number);
}

static void print_plan_tried(const struct remat_tried_list *list, struct remat_text *out)
{
    remat_text_append(out, "%s", list->name);
    if (list->proposal_count != 1 || list->count != 1)
        remat_text_append(out, ": %" PRIu32 " of %" PRIu32 " scheduled, %" PRIu32 " never",
                          list->count, list->proposal_count, list->proposal_count - list->count);
    remat_text_append(out, "\n");
    if (list->count > 0)
        remat_text_append(out, "%16s%16s%16s%16s%16s\n", "at least ns", "time ns", "at least B",
                          "live peak B", "arena B");
    for (uint32_t i = 0; i < list->count; i++) {
        const struct remat_tried *t = &list->items[i];
        print_number(t->least_ns, 0, out);
        remat_text_append(out, "%16" PRIu64, t->step_ns);
        print_number(t->least_bytes, 0, out);
        print_number(t->live_peak_bytes, UINT64_MAX, out);
        print_number(t->arena_bytes, UINT64_MAX, out);
        remat_text_append(out, "  %-4s  ", t->fits ? "fits" : "");
        print_name(t, out);
    }
}

static bool wants_pass(const struct remat_observer *observer, const char *pass)
{
    for (size_t i = 0; i < observer->passes.count; i++)
        if (strcmp(observer->passes.items[i], pass) == 0)
            return true;
    return false;
}

/* --- what the compiler calls --- */

static void show_bound(void *user, const struct remat_binding *b)
{
    struct remat_observer *observer = user;
    struct remat_arena *scratch = remat_scratch_open(observer->ctx);
    struct remat_text text = {.arena = scratch};
    begin(observer, &text);
    print_plan_bound(b, &text);
    show(observer, false, &text);
    remat_scratch_close(scratch);
}

static void show_tried(void *user, const struct remat_tried_list *list)
{
    struct remat_observer *observer = user;
    struct remat_arena *scratch = remat_scratch_open(observer->ctx);
    struct remat_text text = {.arena = scratch};
    begin(observer, &text);
    print_plan_tried(list, &text);
    show(observer, false, &text);
    remat_scratch_close(scratch);
}

static void show_graph(void *user, const char *pass, const struct remat_graph *graph)
{
    struct remat_observer *observer = user;
    if (!wants_pass(observer, pass))
        return;
    struct remat_arena *scratch = remat_scratch_open(observer->ctx);
    struct remat_text text = {.arena = scratch};
    remat_text_append(&text, "# after %s\n", pass);
    remat_graph_print(graph, &text);
    show(observer, false, &text);
    remat_scratch_close(scratch);
}

static void show_time(void *user, const char *pass, uint64_t ns, uint32_t runs)
{
    const struct remat_observer *observer = user;
    char line[160], times[32] = "";
    if (runs > 1)
        snprintf(times, sizeof times, " in %" PRIu32 " runs", runs);
    snprintf(line, sizeof line, "%-20s %s%s\n", pass, remat_time_text(ns).text, times);
    observer->show(observer->user, true, line);
}

remat_status remat_observe_check(remat_context *ctx, struct remat_arena *arena, const char *pass)
{
    const char *name;
    struct remat_text names = {.arena = arena};
    for (size_t p = 0; (name = remat_pass_name(p)); p++) {
        if (strcmp(name, pass) == 0)
            return REMAT_OK;
        remat_text_append(&names, "%s%s", p ? ", " : "", name);
    }
    return remat_error(ctx, REMAT_ERROR_USAGE, "--print-after '%s' is unknown (accepted: %s)", pass,
                       names.items ? names.items : "");
}

void remat_observe(struct remat_observer *observer, struct remat_compile_settings *settings)
{
    if (observer->passes.count) {
        settings->after_pass = show_graph;
        settings->after_pass_user = observer;
    }
    if (observer->search) {
        settings->search.bounded = show_bound;
        settings->search.tried = show_tried;
        settings->search.search_user = observer;
    }
    if (observer->times) {
        settings->pass_time = show_time;
        settings->pass_time_user = observer;
    }
}
