/* SPDX-License-Identifier: Apache-2.0 */
#include "asked_settings.h"

#include "profile.h"

#include <inttypes.h>
#include <stdlib.h>

static const char *const *list_values(struct remat_arena *arena, const struct remat_asked *asked,
                                      const char *name, uint32_t *count)
{
    const char **values = remat_arena_array(arena, asked->count, sizeof *values);
    *count = 0;
    for (size_t i = 0; values && i < asked->count; i++)
        if (strcmp(asked->items[i].name, name) == 0)
            values[(*count)++] = asked->items[i].value;
    return values;
}

static remat_status read_policy(struct remat_arena *arena, const struct remat_asked *asked,
                                struct remat_policy_settings *out)
{
    *out = (struct remat_policy_settings){0};
#define TEXT(field, name) out->field = remat_asked_text(asked, name, NULL);
#define FLAG(field, name) out->field = remat_asks(asked, name);
#define NUMBER(field, name)                                                                        \
    out->has_##field = remat_asks(asked, name);                                                    \
    out->field = remat_asked_integer(asked, name, 1);                                              \
    out->field##_text = remat_asked_text(asked, name, NULL);
#define GLOBS(field, name)                                                                         \
    out->field = list_values(arena, asked, name, &out->field##_count);                             \
    if (!out->field)                                                                               \
        return REMAT_ERROR_MEMORY;
#include "policy_settings.def"
    return REMAT_OK;
}

/* Of the options that are set, but have nothing to divide or only tell how code is made. */
static bool is_idle(const char *name, const struct remat_compile_settings *settings)
{
    static const char *const others[] = {"arch", "nvrtc", "cache"};
    bool idle = (strcmp(name, "mesh") == 0 && settings->mesh.axis_count == 0) ||
                (strcmp(name, "zero") == 0 && settings->passes.zero == 0);
    for (size_t k = 0; k < sizeof others / sizeof *others; k++)
        idle |= strcmp(name, others[k]) == 0;
    return idle;
}

remat_status remat_settings_record(struct remat_arena *arena, const struct remat_asked *asked,
                                   const char *bindings, struct remat_compile_settings *out)
{
    remat_status st = REMAT_OK;
    struct remat_setting *settings;
    REMAT_TRY_NEW(arena, settings, asked->count + 1);
    out->setting_count = 0;
    for (size_t i = 0; i < asked->count; i++) {
        struct remat_setting setting = asked->items[i];
        if (is_idle(setting.name, out))
            continue;
        if (strcmp(setting.name, "bind") == 0)
            setting.value = bindings;
        settings[out->setting_count++] = setting;
    }
    if (out->passes.exchange_bytes && !remat_asks(asked, "exchange-size")) {
        const char *size = remat_arena_format(arena, "%" PRIu64, out->passes.exchange_bytes);
        if (!size)
            return REMAT_ERROR_MEMORY;
        settings[out->setting_count++] = (struct remat_setting){"exchange-size", size};
    }
    out->settings = settings;
fail:
    return st;
}

struct remat_compile_settings remat_settings_of_trial(const struct remat_compile_settings *settings)
{
    struct remat_compile_settings out = *settings;
    out.after_pass = NULL;
    out.pass_time = NULL;
    out.search.bounded = NULL;
    out.search.tried = NULL;
    out.without_cuda = !out.needs_cuda;
    return out;
}

/* As an accumulator in f32. */
static uint64_t gradient_bytes(const struct remat_value_info *value)
{
    uint64_t bytes = value->trainable || value->role == REMAT_ROLE_GRADIENT ? sizeof(float) : 0;
    for (uint32_t d = 0; d < value->shape.rank && bytes; d++)
        bytes = value->shape.dims[d] > 0
                    ? remat_mul_saturated(bytes, (uint64_t)value->shape.dims[d])
                    : UINT64_MAX; /* a symbol */
    return bytes;
}

bool remat_may_cut_gradients(const struct remat_asked *asked, const struct remat_graph *graph,
                             const struct remat_compile_settings *settings)
{
    bool cut = false;
    for (uint32_t v = 0; v < graph->value_count; v++)
        cut |= gradient_bytes(&graph->values[v]) > REMAT_SMALLEST_PIECE_BYTES;
    return cut && !remat_asks(asked, "exchange-size") && remat_mesh_size(&settings->mesh, "dp") > 1;
}

static remat_status read_zero(remat_context *ctx, const struct remat_asked *asked, uint32_t *out)
{
    const char *text = remat_asked_text(asked, "zero", "0");
    bool known = *text && !text[1] && strchr("013", *text);
    *out = known ? (uint32_t)(*text - '0') : 0;
    if (known)
        return REMAT_OK;
    if (strcmp(text, "2") == 0)
        return remat_error(
            ctx, REMAT_ERROR_USAGE,
            "--zero 2: there is no such stage: 1 divides optimizer state, and without "
            "microbatches a gradient is gone once it is exchanged; 3 also divides "
            "parameters and what microbatches add up (accepted: 0|1|3)");
    return remat_error(ctx, REMAT_ERROR_USAGE, "--zero '%s' is unknown (accepted: 0|1|3)", text);
}

/* ROWS, auto or off. */
static remat_status read_loss_chunk(remat_context *ctx, const struct remat_asked *asked,
                                    uint32_t *out)
{
    const char *text = remat_asked_text(asked, "loss-chunk", "off");
    char *end;
    *out = strcmp(text, "auto") == 0 ? REMAT_LOSS_CHUNK_AUTO : 0;
    if (*out || strcmp(text, "off") == 0)
        return REMAT_OK;
    long long rows = strtoll(text, &end, 10);
    if (*end || end == text || rows < 1 || rows > INT32_MAX)
        return remat_error(ctx, REMAT_ERROR_USAGE,
                           "--loss-chunk: \"%s\" is neither a number of rows nor auto nor off",
                           text);
    *out = (uint32_t)rows;
    return REMAT_OK;
}

remat_status remat_settings_read(remat_context *ctx, struct remat_arena *arena,
                                 const struct remat_asked *asked,
                                 struct remat_compile_settings *out)
{
    remat_status st = REMAT_OK;
    *out = (struct remat_compile_settings){0};
    REMAT_TRY(remat_device_description_read(ctx, arena, remat_asked_text(asked, "target", "cpu"),
                                            (uint32_t)remat_asked_integer(asked, "threads", 0),
                                            &out->device));
    if (remat_asks(asked, "profile"))
        REMAT_TRY(remat_profile_read(ctx, arena, remat_asked_text(asked, "profile", NULL),
                                     "remat " REMAT_VERSION, &out->device, &out->device.profile));
    uint64_t capacity = out->device.capacity_bytes;
    if (strcmp(remat_asked_text(asked, "microbatches", ""), "auto") == 0)
        out->passes.microbatches = 1; /* until it is chosen */
    else
        out->passes.microbatches = (uint32_t)remat_asked_integer(asked, "microbatches", 1);
    if (remat_asks(asked, "mesh"))
        REMAT_TRY(remat_mesh_parse(ctx, remat_asked_text(asked, "mesh", ""), &out->mesh));
    REMAT_TRY(read_zero(ctx, asked, &out->passes.zero));
    out->passes.sequence_parallel = remat_asks(asked, "sequence-parallel");
    REMAT_TRY(read_loss_chunk(ctx, asked, &out->passes.loss_chunk));
    REMAT_TRY(remat_asked_size(ctx, asked, "exchange-size", capacity, &out->passes.exchange_bytes));
    out->search.has_budget = remat_asks(asked, "budget");
    out->has_reserve = remat_asks(asked, "reserve");
    out->reserve_bytes = out->device.reserve_bytes;
    REMAT_TRY(remat_asked_size(ctx, asked, "budget", capacity, &out->search.budget_bytes));
    REMAT_TRY(remat_asked_size(ctx, asked, "reserve", capacity, &out->reserve_bytes));
    REMAT_TRY(read_policy(arena, asked, &out->search.policy));
    out->search.solver = strcmp(remat_asked_text(asked, "solver", ""), "manual") == 0
                             ? REMAT_SOLVER_MANUAL
                             : REMAT_SOLVER_PER_OP;
fail:
    return st;
}

void remat_settings_warn(remat_context *ctx, const struct remat_compile_settings *settings)
{
    uint64_t capacity = settings->device.capacity_bytes, budget = settings->search.budget_bytes;
    if (settings->search.has_budget && capacity && budget > capacity)
        remat_log(ctx, REMAT_SEVERITY_WARNING,
                  "budget %" PRIu64 " B exceeds the %" PRIu64
                  " B of %s; the plan will not run there",
                  budget, capacity, settings->device.name);
}
