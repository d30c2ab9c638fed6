/* SPDX-License-Identifier: Apache-2.0 */
/* Options of a host, and the compiler's settings that they become. */
#include "library.h"

#include <errno.h>
#include <stdlib.h>

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

static remat_status set_number(remat_compile_options *o, const char *name, const char *value,
                               uint64_t most, uint64_t *out)
{
    char *end;
    errno = 0;
    unsigned long long number = strtoull(value, &end, 10);
    if (*value < '0' || *value > '9' || *end || errno || number > most)
        return remat_error(o->handle.ctx, REMAT_ERROR_USAGE,
                           "%s '%.200s' is no whole number (accepted: up to %llu)", name, value,
                           (unsigned long long)most);
    *out = number;
    return REMAT_OK;
}

static remat_status set_budget(remat_compile_options *o, const char *value)
{
    o->has_budget = true;
    return set_number(o, "budget", value, INT64_MAX, &o->budget_bytes);
}

static remat_status set_reserve(remat_compile_options *o, const char *value)
{
    o->has_reserve = true;
    return set_number(o, "reserve", value, INT64_MAX, &o->reserve_bytes);
}

static remat_status set_threads(remat_compile_options *o, const char *value)
{
    uint64_t threads;
    REMAT_CHECK(set_number(o, "threads", value, 1024, &threads));
    o->threads = (uint32_t)threads;
    return REMAT_OK;
}

static remat_status set_target(remat_compile_options *o, const char *value)
{
    const char *copy = remat_arena_string(&o->handle.arena, value, strlen(value));
    o->target = copy ? copy : o->target;
    return copy ? REMAT_OK : REMAT_ERROR_MEMORY;
}

remat_status remat_compile_options_set(remat_compile_options *options, const char *name,
                                       const char *value)
{
    static const struct {
        const char *name;
        remat_status (*set)(remat_compile_options *, const char *);
    } rows[] = {{"budget", set_budget},
                {"reserve", set_reserve},
                {"target", set_target},
                {"threads", set_threads}};
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
        if (strcmp(rows[k].name, name) == 0)
            return rows[k].set(options, value);
    return remat_error(options->handle.ctx, REMAT_ERROR_USAGE,
                       "no option is named '%.200s' (accepted: budget, reserve, target, threads)",
                       name);
}

void remat_compile_options_watch(remat_compile_options *options, remat_is_cancelled is_cancelled,
                                 void *user)
{
    options->is_cancelled = is_cancelled;
    options->user = user;
}

static bool is_over(void *user, const struct remat_search_state *state)
{
    const remat_compile_options *o = user;
    return o->is_cancelled(o->user, state->best_ns, state->bound_ns);
}

static bool is_late(void *user)
{
    const remat_compile_options *o = user;
    return o->is_cancelled(o->user, 0, 0);
}

remat_status remat_read_options(struct remat_arena *arena, const remat_compile_options *o,
                                struct remat_compile_settings *out)
{
    *out = (struct remat_compile_settings){
        .search = {.has_budget = o->has_budget, .budget_bytes = o->budget_bytes},
        .has_reserve = o->has_reserve,
        .reserve_bytes = o->reserve_bytes,
        .without_cuda = true,
        .passes.microbatches = 1};
    if (o->is_cancelled) {
        out->search.is_over = is_over;
        out->search.is_over_user = (void *)o;
        out->is_late = is_late;
    }
    return remat_device_description_read(arena->ctx, arena, o->target, o->threads, &out->device);
}
