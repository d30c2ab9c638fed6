/* SPDX-License-Identifier: Apache-2.0 */
/* Options of a host, and the compiler's settings that they become. */
#include "library.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <time.h>

remat_status remat_compile_options_create(remat_context *ctx, remat_compile_options **out)
{
    remat_compile_options *o = *out = remat_handle_open(ctx, sizeof *o);
    if (o)
        o->target = "cpu";
    return o ? REMAT_OK : REMAT_ERROR_MEMORY;
}

void remat_compile_options_destroy(remat_compile_options **options)
{
    remat_handle_close(*options);
    *options = NULL;
}

/* --- values --- */

struct option_row {
    const char *name;
    remat_status (*set)(remat_compile_options *o, const struct option_row *option,
                        const char *value);
    size_t field; /* of `o`, for functions that serve several options */
};

static void *field_of(remat_compile_options *o, const struct option_row *option)
{
    return (char *)o + option->field;
}

static remat_status refuse(remat_compile_options *o, const struct option_row *option,
                           const char *value, const char *accepted)
{
    return remat_error(o->handle.ctx, REMAT_ERROR_USAGE, "%s '%.200s' is unknown (accepted: %s)",
                       option->name, value, accepted);
}

static remat_status read_number(remat_compile_options *o, const struct option_row *option,
                                const char *value, uint64_t most, uint64_t *out)
{
    char *end;
    errno = 0;
    unsigned long long number = strtoull(value, &end, 10);
    if (*value < '0' || *value > '9' || *end || errno || number > most)
        return remat_error(o->handle.ctx, REMAT_ERROR_USAGE,
                           "%s '%.200s' is no whole number (accepted: up to %llu)", option->name,
                           value, (unsigned long long)most);
    *out = number;
    return REMAT_OK;
}

static remat_status set_text(remat_compile_options *o, const struct option_row *option,
                             const char *value)
{
    const char **field = field_of(o, option);
    const char *copy = remat_arena_string(&o->handle.arena, value, strlen(value));
    *field = copy ? copy : *field;
    return copy ? REMAT_OK : REMAT_ERROR_MEMORY;
}

static remat_status set_flag(remat_compile_options *o, const struct option_row *option,
                             const char *value)
{
    bool *field = field_of(o, option);
    if (strcmp(value, "true") != 0 && strcmp(value, "false") != 0)
        return refuse(o, option, value, "true, false");
    *field = *value == 't';
    return REMAT_OK;
}

static remat_status set_budget(remat_compile_options *o, const struct option_row *option,
                               const char *value)
{
    REMAT_CHECK(read_number(o, option, value, INT64_MAX, &o->budget_bytes));
    o->has_budget = true;
    return REMAT_OK;
}

static remat_status set_reserve(remat_compile_options *o, const struct option_row *option,
                                const char *value)
{
    REMAT_CHECK(read_number(o, option, value, INT64_MAX, &o->reserve_bytes));
    o->has_reserve = true;
    return REMAT_OK;
}

static remat_status set_threads(remat_compile_options *o, const struct option_row *option,
                                const char *value)
{
    uint64_t threads;
    REMAT_CHECK(read_number(o, option, value, 1024, &threads));
    o->threads = (uint32_t)threads;
    return REMAT_OK;
}

static remat_status set_solver(remat_compile_options *o, const struct option_row *option,
                               const char *value)
{
    if (strcmp(value, "per-op") != 0 && strcmp(value, "manual") != 0)
        return refuse(o, option, value, "per-op, manual");
    o->solver = *value == 'p' ? REMAT_SOLVER_PER_OP : REMAT_SOLVER_MANUAL;
    return REMAT_OK;
}

static remat_status set_time_limit(remat_compile_options *o, const struct option_row *option,
                                   const char *value)
{
    char *end;
    double seconds = strtod(value, &end);
    if (end == value || *end || !(seconds > 0) || isinf(seconds))
        return remat_error(o->handle.ctx, REMAT_ERROR_USAGE,
                           "%s '%.200s' is no number of seconds above 0", option->name, value);
    o->limit_s = seconds;
    return REMAT_OK;
}

static remat_status set_recompute_num_layers(remat_compile_options *o,
                                             const struct option_row *option, const char *value)
{
    uint64_t layers;
    REMAT_CHECK(read_number(o, option, value, INT32_MAX, &layers));
    o->policy.has_recompute_num_layers = true;
    o->policy.recompute_num_layers = (int64_t)layers;
    return REMAT_OK;
}

struct glob_addition { /* arguments of a guarded call */
    remat_compile_options *o;
    struct globs *to;
    const char *glob;
};

static remat_status push_glob(void *user)
{
    struct glob_addition *a = user;
    struct remat_arena *arena = &a->o->handle.arena;
    REMAT_PUSH(arena, a->to, remat_string(arena, a->glob, strlen(a->glob)));
    return REMAT_OK;
}

static remat_status add_glob(remat_compile_options *o, const struct option_row *option,
                             const char *value)
{
    struct glob_addition a = {o, field_of(o, option), value};
    return remat_guard(o->handle.ctx, push_glob, &a);
}

/* --- names --- */

static const struct option_row rows[] = {
    {"budget", set_budget, 0},
    {"reserve", set_reserve, 0},
    {"target", set_text, offsetof(struct remat_compile_options, target)},
    {"threads", set_threads, 0},
    {"solver", set_solver, 0},
    {"time-limit", set_time_limit, 0},
    {"explain", set_flag, offsetof(struct remat_compile_options, explain)},
#define TEXT(field, name)   {name, set_text, offsetof(struct remat_compile_options, policy.field)},
#define FLAG(field, name)   {name, set_flag, offsetof(struct remat_compile_options, policy.field)},
#define NUMBER(field, name) {name, set_##field, 0},
#define GLOBS(field, name)  {name, add_glob, offsetof(struct remat_compile_options, field)},
#include "policy_settings.def"
};

static remat_status refuse_name(remat_compile_options *o, const char *name)
{
    struct remat_text names = {.arena = &o->handle.arena};
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
        remat_text_append(&names, "%s%s", k ? ", " : "", rows[k].name);
    return remat_error(o->handle.ctx, REMAT_ERROR_USAGE,
                       "no option is named '%.200s' (accepted: %s)", name,
                       names.failed ? "" : names.items);
}

remat_status remat_compile_options_set(remat_compile_options *options, const char *name,
                                       const char *value)
{
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
        if (strcmp(rows[k].name, name) == 0)
            return rows[k].set(options, &rows[k], value);
    return refuse_name(options, name);
}

void remat_compile_options_watch(remat_compile_options *options, remat_is_cancelled is_cancelled,
                                 void *user)
{
    options->is_cancelled = is_cancelled;
    options->user = user;
}

/* --- the end of a search --- */

/* Of one call. With something found the search alone is ended, which then says what it has. */
struct option_watch {
    const remat_compile_options *options;
    double end_s;
    bool found;
};

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static bool ends(const struct option_watch *w, uint64_t best_ns, uint64_t bound_ns)
{
    const remat_compile_options *o = w->options;
    return (o->is_cancelled && o->is_cancelled(o->user, best_ns, bound_ns)) ||
           (o->limit_s > 0 && now_s() >= w->end_s);
}

static bool is_over(void *user, const struct remat_search_state *state)
{
    struct option_watch *w = user;
    w->found |= state->best_ns != 0;
    return ends(w, state->best_ns, state->bound_ns);
}

static bool is_late(void *user)
{
    const struct option_watch *w = user;
    return !w->found && ends(w, 0, 0);
}

static void watch(struct remat_arena *arena, const remat_compile_options *o,
                  struct remat_compile_settings *out)
{
    struct option_watch *w;
    REMAT_NEW(arena, w, 1);
    *w = (struct option_watch){.options = o, .end_s = now_s() + o->limit_s};
    out->search.is_over = is_over;
    out->search.is_over_user = w;
    out->is_late = is_late;
}

remat_status remat_read_options(struct remat_arena *arena, const remat_compile_options *o,
                                struct remat_compile_settings *out)
{
    *out = (struct remat_compile_settings){.search = {.has_budget = o->has_budget,
                                                      .budget_bytes = o->budget_bytes,
                                                      .policy = o->policy,
                                                      .solver = o->solver},
                                           .has_reserve = o->has_reserve,
                                           .reserve_bytes = o->reserve_bytes,
                                           .explains = o->explain,
                                           .without_cuda = true,
                                           .passes.microbatches = 1};
    out->search.policy.save = o->save.items;
    out->search.policy.save_count = (uint32_t)o->save.count;
    out->search.policy.recompute = o->recompute.items;
    out->search.policy.recompute_count = (uint32_t)o->recompute.count;
    if (o->is_cancelled || o->limit_s > 0)
        watch(arena, o, out);
    return remat_device_description_read(arena->ctx, arena, o->target, o->threads, &out->device);
}
