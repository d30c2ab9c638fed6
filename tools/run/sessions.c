/* SPDX-License-Identifier: Apache-2.0 */
#include "sessions.h"

#include "machine.h"
#include "options.h"
#include "settings.h"
#include "size.h"
#include "tool.h"

/* Beside the plan: which algorithms cuBLASLt chose for it. */
static remat_status name_gemm_table(remat_context *ctx, const char *plan, char *out, size_t bytes)
{
    int length = snprintf(out, bytes, "%s.gemm.json", plan);
    return length < (int)bytes
               ? REMAT_OK
               : cli_error(ctx, REMAT_ERROR_USAGE, "%s: the name is too long", plan);
}

static remat_session_params session_params(const struct cli_arguments *args,
                                           const struct train_settings *settings,
                                           const remat_plan *plan, uint32_t rank)
{
    remat_session_params params;
    remat_plan_info info = {.struct_size = sizeof info};
    remat_session_params_init(&params);
    remat_plan_get_info(plan, &info);
    /* One for a GPU runs on the CPU only when the user says so. */
    params.device = cli_text(args, OPTION_device, *info.target_arch ? "cuda" : NULL);
    params.cuda_libraries = cli_text(args, OPTION_cuda_libraries, NULL);
    params.threads = (uint32_t)cli_integer(args, OPTION_threads, 0);
    params.seed = settings->seed;
    params.engine = ranks_engine(settings->ranks, rank);
    params.transfer_timeout_ns = settings_timeout_ns(args);
    params.ungrouped = cli_has(args, OPTION_profile);
    params.cuda_graph_ranks = cli_has(args, OPTION_cuda_graph);
    if (settings->ranks)
        params.device = ranks_device(settings->ranks);
    if (settings->ranks)
        params.ordinal = ranks_ordinal(settings->ranks, rank);
    if (settings->ranks && !params.threads)
        params.threads = ranks_cores(settings->ranks);
    if (settings->hash || settings->json || settings->gradients_path)
        params.trace_copies = 1u << REMAT_TENSOR_OUTPUT | 1u << REMAT_TENSOR_GRADIENT;
    return params;
}

/* A GPU's memory is held against by its session. */
static bool is_on_cpu(remat_context *ctx, const remat_plan *plan,
                      const remat_session_params *params)
{
    remat_plan_info info = {.struct_size = sizeof info};
    remat_plan_get_info(plan, &info);
    if (params->device)
        return strcmp(params->device, "cpu") == 0;
    return info.budget_bytes || remat_gpu_count(ctx, params->cuda_libraries) == 0;
}

/* Of several processes all look before one of them takes its memory: they meet in `agree`. */
remat_status sessions_check_memory(remat_context *ctx, const struct cli_arguments *args,
                                   const struct train_settings *settings, const remat_plan *plan)
{
    remat_status st = REMAT_OK;
    const char remedy[] = "compile with a smaller --budget, or end what else runs there";
    remat_session_params params = session_params(args, settings, plan, 0);
    uint64_t each;
    if (!is_on_cpu(ctx, plan, &params))
        return REMAT_OK;
    params.device = "cpu";
    params.threads = params.threads ? params.threads : 1; /* how many fit is said by create */
    RUN_TRY(remat_session_memory_bytes(ctx, plan, &params, &each));
    struct free_memory left = machine_free_memory("");
    uint64_t shared = each * ranks_on_machine(settings->ranks);
    uint64_t own = each * ranks_here(settings->ranks);
    if (own > left.own_bytes)
        RUN_FAIL(ctx, REMAT_ERROR_MEMORY,
                 "the limit of this process's address space (ulimit -v) leaves %s, the plan needs "
                 "%s: raise it, or compile with a smaller --budget",
                 remat_exact_text(left.own_bytes).text, remat_exact_text(own).text);
    if (shared > left.shared_bytes)
        RUN_FAIL(ctx, REMAT_ERROR_MEMORY, "%s has %s of memory free, the plan needs %s: %s",
                 left.shared_by, remat_exact_text(left.shared_bytes).text,
                 remat_exact_text(shared).text, remedy);
fail:
    return st;
}

remat_status sessions_create(remat_context *ctx, const struct cli_arguments *args,
                             const struct train_settings *settings, const remat_plan *plan,
                             uint32_t rank, remat_session **out)
{
    remat_status st = REMAT_OK;
    remat_session_params params = session_params(args, settings, plan, rank);
    remat_plan_info info = {.struct_size = sizeof info};
    char table[4096], cache[4096];
    remat_plan_get_info(plan, &info);
    if (params.cuda_graph_ranks && params.engine && !params.engine->on_device)
        RUN_FAIL(ctx, REMAT_ERROR_USAGE,
                 "--cuda-graph ranks: engine %s moves memory of the host, and no graph has that",
                 params.engine->name);
    RUN_TRY(name_gemm_table(ctx, args->operands[0], table, sizeof table));
    params.gemm_table = table;
    RUN_TRY(cli_cache_folder(ctx, cli_text(args, OPTION_cache, NULL), cache, sizeof cache));
    params.cubin_cache = *cache ? cache : NULL;
    st = remat_session_create(ctx, plan, &params, out);
    if (st == REMAT_ERROR_IO && !cli_has(args, OPTION_device) && *info.target_arch)
        RUN_FAIL(ctx, st, "the plan is for %s: %s", info.target, remat_context_message(ctx));
fail:
    return st;
}
