/* SPDX-License-Identifier: Apache-2.0 */
#include "settings.h"

#include "cubins_option.h"
#include "emit_cuda.h"
#include "options.h"
#include "profile.h"
#include "tool.h"

#include <inttypes.h>
#include <stdlib.h>

static remat_status read_policy(struct remat_arena *arena, const struct cli_arguments *args,
                                struct remat_policy_settings *out)
{
    *out = (struct remat_policy_settings){0};
#define TEXT(field, name) out->field = cli_text(args, OPTION_##field, NULL);
#define FLAG(field, name) out->field = cli_has(args, OPTION_##field);
#define NUMBER(field, name)                                                                        \
    out->has_##field = cli_has(args, OPTION_##field);                                              \
    out->field = cli_integer(args, OPTION_##field, 1);                                             \
    out->field##_text = cli_text(args, OPTION_##field, NULL);
#define GLOBS(field, name)                                                                         \
    out->field = cli_texts(arena, args, OPTION_##field, &out->field##_count);                      \
    if (!out->field)                                                                               \
        return REMAT_ERROR_MEMORY;
#include "policy_settings.def"
    return REMAT_OK;
}

remat_status settings_record(struct remat_arena *arena, const struct cli_arguments *args,
                             const char *bindings, struct remat_compile_settings *out)
{
    remat_status st = REMAT_OK;
    struct remat_setting *settings;
    REMAT_TRY_NEW(arena, settings, args->given_count + 1);
    out->setting_count = 0;
    for (uint32_t i = 0; i < args->given_count; i++) {
        uint32_t option = args->given[i].option;
        if (option == OPTION_output || option == OPTION_format || option == OPTION_verbose ||
            option == OPTION_print_after || option == OPTION_print_plan ||
            option == OPTION_explain || option == OPTION_emit_cuda || option == OPTION_arch ||
            option == OPTION_nvrtc || option == OPTION_cache || option == OPTION_curve ||
            (option == OPTION_mesh && out->mesh.axis_count == 0) ||
            (option == OPTION_zero && out->passes.zero == 0))
            continue;
        settings[out->setting_count++] =
            (struct remat_setting){args->tool->options[option].name,
                                   option == OPTION_bind ? bindings : args->given[i].value};
    }
    if (out->passes.exchange_bytes && !cli_has(args, OPTION_exchange_size)) {
        const char *size = remat_arena_format(arena, "%" PRIu64, out->passes.exchange_bytes);
        if (!size)
            return REMAT_ERROR_MEMORY;
        settings[out->setting_count++] = (struct remat_setting){"exchange-size", size};
    }
    out->settings = settings;
fail:
    return st;
}

struct remat_compile_settings settings_of_trial(const struct remat_compile_settings *settings)
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

bool settings_may_cut_gradients(const struct cli_arguments *args, const struct remat_graph *graph,
                                const struct remat_compile_settings *settings)
{
    bool cut = false;
    for (uint32_t v = 0; v < graph->value_count; v++)
        cut |= gradient_bytes(&graph->values[v]) > SETTINGS_SMALLEST_PIECE_BYTES;
    return cut && !cli_has(args, OPTION_exchange_size) &&
           remat_mesh_size(&settings->mesh, "dp") > 1;
}

static remat_status read_zero(remat_context *ctx, const struct cli_arguments *args, uint32_t *out)
{
    const char *text = cli_text(args, OPTION_zero, "0");
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
static remat_status read_loss_chunk(remat_context *ctx, const struct cli_arguments *args,
                                    uint32_t *out)
{
    const char *text = cli_text(args, OPTION_loss_chunk, "off");
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

remat_status settings_read(remat_context *ctx, struct remat_arena *arena,
                           const struct cli_arguments *args, struct remat_compile_settings *out)
{
    remat_status st = REMAT_OK;
    *out = (struct remat_compile_settings){0};
    REMAT_TRY(remat_device_description_read(ctx, arena, cli_text(args, OPTION_target, "cpu"),
                                            (uint32_t)cli_integer(args, OPTION_threads, 0),
                                            &out->device));
    if (cli_has(args, OPTION_profile))
        REMAT_TRY(remat_profile_read(ctx, arena, cli_text(args, OPTION_profile, NULL),
                                     cli_producer(), &out->device, &out->device.profile));
    REMAT_TRY(cubins_check(ctx, args));
    if (cli_has(args, OPTION_emit_cuda))
        REMAT_TRY(emit_cuda_check(ctx, cli_text(args, OPTION_emit_cuda, "")));
    out->needs_cuda = cubins_asked(args) || cli_has(args, OPTION_emit_cuda);
    uint64_t capacity = out->device.capacity_bytes;
    if (strcmp(cli_text(args, OPTION_microbatches, ""), "auto") == 0)
        out->passes.microbatches = 1; /* until it is chosen */
    else
        out->passes.microbatches = (uint32_t)cli_integer(args, OPTION_microbatches, 1);
    if (cli_has(args, OPTION_mesh))
        REMAT_TRY(remat_mesh_parse(ctx, cli_text(args, OPTION_mesh, ""), &out->mesh));
    REMAT_TRY(read_zero(ctx, args, &out->passes.zero));
    out->passes.sequence_parallel = cli_has(args, OPTION_sequence_parallel);
    REMAT_TRY(read_loss_chunk(ctx, args, &out->passes.loss_chunk));
    REMAT_TRY(cli_size(ctx, args, OPTION_exchange_size, capacity, &out->passes.exchange_bytes));
    out->search.has_budget = cli_has(args, OPTION_budget);
    out->has_reserve = cli_has(args, OPTION_reserve);
    out->reserve_bytes = out->device.reserve_bytes;
    REMAT_TRY(cli_size(ctx, args, OPTION_budget, capacity, &out->search.budget_bytes));
    REMAT_TRY(cli_size(ctx, args, OPTION_reserve, capacity, &out->reserve_bytes));
    REMAT_TRY(read_policy(arena, args, &out->search.policy));
    out->search.solver = (enum remat_solver)cli_choice(args, OPTION_solver, REMAT_SOLVER_PER_OP);
    if (out->search.has_budget && capacity && out->search.budget_bytes > capacity)
        remat_log(ctx, REMAT_SEVERITY_WARNING,
                  "budget %" PRIu64 " B exceeds the %" PRIu64
                  " B of %s; the plan will not run there",
                  out->search.budget_bytes, capacity, out->device.name);
fail:
    return st;
}
