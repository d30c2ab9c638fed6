/* SPDX-License-Identifier: Apache-2.0 */
/* Options of a host, and the request that they become. */
#include "library.h"

#include "asked_settings.h"
#include "size.h"

remat_status remat_compile_options_create(remat_context *ctx, remat_compile_options **out)
{
    *out = remat_handle_open(ctx, "options", sizeof **out);
    return *out ? REMAT_OK : REMAT_ERROR_MEMORY;
}

void remat_compile_options_destroy(remat_compile_options **options)
{
    remat_handle_close(*options);
    *options = NULL;
}

/* --- those that are no part of a plan --- */

static const struct option_row {
    const char *name;
    size_t field; /* of remat_compile_options */
    bool repeats; /* a list of names; else a flag */
} rows[] = {
    {"explain", offsetof(struct remat_compile_options, explain), true},
    {"print-after", offsetof(struct remat_compile_options, print_after), true},
    {"print-plan", offsetof(struct remat_compile_options, print_plan), false},
    {"verbose", offsetof(struct remat_compile_options, verbose), false},
    {"advise", offsetof(struct remat_compile_options, advise), false},
    {"marks", offsetof(struct remat_compile_options, marks), false},
    {"cuda", offsetof(struct remat_compile_options, cuda), false},
};
enum { ROWS = sizeof rows / sizeof *rows };

struct option_value { /* arguments of a guarded call */
    remat_compile_options *o;
    const char *name, *value;
};

static const char *copy(struct remat_arena *arena, const char *text)
{
    return remat_string(arena, text, strlen(text));
}

static remat_status read_flag(remat_context *ctx, const struct option_value *given, bool *out)
{
    *out = strcmp(given->value, "true") == 0;
    if (*out || strcmp(given->value, "false") == 0)
        return REMAT_OK;
    return remat_error(ctx, REMAT_ERROR_USAGE, "--%s '%.200s' is unknown (accepted: true, false)",
                       given->name, given->value);
}

static remat_status set_row(const struct option_value *given, const struct option_row *row)
{
    remat_context *ctx = given->o->handle.ctx;
    struct remat_arena *arena = &given->o->handle.arena;
    void *field = (char *)given->o + row->field;
    if (!row->repeats)
        return read_flag(ctx, given, field);
    if (strcmp(given->name, "print-after") == 0)
        REMAT_CHECK(remat_observe_check(ctx, arena, given->value));
    struct remat_globs *globs = field;
    REMAT_PUSH(arena, globs, copy(arena, given->value));
    return REMAT_OK;
}

/* --- those of remat_asked --- */

static void remove_asked(struct remat_asked *asked, const char *name)
{
    size_t kept = 0;
    for (size_t i = 0; i < asked->count; i++)
        if (strcmp(asked->items[i].name, name) != 0)
            asked->items[kept++] = asked->items[i];
    asked->count = kept;
}

static remat_status set_asked(const struct option_value *given)
{
    remat_compile_options *o = given->o;
    struct remat_setting setting = {given->name, given->value};
    bool is_flag = remat_asked_is_flag(given->name), on = true;
    if (is_flag) {
        REMAT_CHECK(read_flag(o->handle.ctx, given, &on));
        setting.value = "";
    }
    REMAT_CHECK(remat_asked_check(o->handle.ctx, setting.name, setting.value));
    if (strcmp(given->name, "time-limit") == 0) {
        REMAT_CHECK(remat_duration_parse(o->handle.ctx, "--time-limit", given->value, &o->limit_s));
        o->begin_s = remat_now_s();
    }
    if (!remat_asked_repeats(given->name))
        remove_asked(&o->asked, given->name);
    setting.name = copy(&o->handle.arena, setting.name);
    setting.value = copy(&o->handle.arena, setting.value);
    if (on)
        REMAT_PUSH(&o->handle.arena, &o->asked, setting);
    return REMAT_OK;
}

static remat_status set(void *user)
{
    const struct option_value *given = user;
    const char *name;
    struct remat_text names = {.arena = &given->o->handle.arena};
    for (size_t k = 0; k < ROWS; k++) {
        if (strcmp(rows[k].name, given->name) == 0)
            return set_row(given, &rows[k]);
        remat_text_append(&names, "%s, ", rows[k].name);
    }
    for (size_t k = 0; (name = remat_asked_name(k)); k++) {
        if (strcmp(name, given->name) == 0)
            return set_asked(given);
        remat_text_append(&names, "%s%s", k ? ", " : "", name);
    }
    return remat_error(given->o->handle.ctx, REMAT_ERROR_USAGE,
                       "no option is named '%.100s' (accepted: %s)", given->name, names.items);
}

remat_status remat_compile_options_set(remat_compile_options *options, const char *name,
                                       const char *value)
{
    struct option_value given = {options, name, value};
    REMAT_CHECK(remat_handle_check(NULL, options, "options"));
    return remat_guard(options->handle.ctx, set, &given);
}

void remat_compile_options_watch(remat_compile_options *options, remat_is_cancelled is_cancelled,
                                 void *user)
{
    options->is_cancelled = is_cancelled;
    options->user = user;
}

void remat_compile_options_show(remat_compile_options *options, remat_show_text show, void *user)
{
    options->show = show;
    options->show_user = user;
}

void remat_compile_options_adapt(remat_compile_options *options, remat_make_adapters make,
                                 void *user)
{
    options->adapt = make;
    options->adapt_user = user;
}

/* --- a request --- */

static void observe(struct remat_arena *arena, const remat_compile_options *o,
                    struct remat_compile_settings *settings)
{
    struct remat_observer *observer;
    if (!o->show)
        return;
    REMAT_NEW(arena, observer, 1);
    *observer = (struct remat_observer){.ctx = arena->ctx,
                                        .passes = o->print_after,
                                        .search = o->print_plan,
                                        .times = o->verbose,
                                        .show = o->show,
                                        .user = o->show_user};
    remat_observe(observer, settings);
}

static void copy_keys(struct remat_arena *arena, struct remat_node_info *node)
{
    struct remat_attribute *attributes =
        remat_copy(arena, node->attributes, node->attribute_count, sizeof *attributes);
    for (uint32_t a = 0; a < node->attribute_count; a++)
        attributes[a].key = copy(arena, attributes[a].key);
    node->attributes = attributes;
}

/* What plans refer to lies in the arena. */
static const struct remat_graph *copy_graph(struct remat_arena *arena,
                                            const struct remat_graph *graph)
{
    struct remat_graph *out = remat_graph_deep_copy(arena, graph);
    for (uint32_t v = 0; v < out->value_count; v++) {
        struct remat_value_info *info = &out->values[v];
        info->data = info->data ? remat_copy(arena, info->data, remat_value_bytes(info), 1) : NULL;
    }
    for (uint32_t n = 0; n < out->node_count; n++)
        copy_keys(arena, &out->nodes[n]);
    out->config = graph->config ? copy(arena, graph->config) : NULL;
    out->plan_only = graph->plan_only ? copy(arena, graph->plan_only) : NULL;
    return out;
}

remat_status remat_read_options(struct remat_handle *handle, const remat_compile_options *o,
                                const remat_graph_builder *graph, struct remat_asked *asked,
                                struct remat_request *out)
{
    struct remat_arena *arena = &handle->arena;
    *asked = (struct remat_asked){.model = copy(arena, graph->label)};
    for (size_t i = 0; i < o->asked.count; i++)
        REMAT_PUSH(arena, asked,
                   ((struct remat_setting){copy(arena, o->asked.items[i].name),
                                           copy(arena, o->asked.items[i].value)}));
    *out = (struct remat_request){.ctx = handle->ctx,
                                  .arena = arena,
                                  .asked = asked,
                                  .graph = copy_graph(arena, graph->graph)};
    REMAT_CHECK(remat_settings_read(handle->ctx, arena, asked, &out->settings));
    out->settings.explains = o->explain.count > 0;
    observe(arena, o, &out->settings);
    return REMAT_OK;
}
