/* SPDX-License-Identifier: Apache-2.0 */
/* A division as it is typed: the command of remat-compile, and the options of Megatron-LM and
 * torchtitan (docs/policies.md). */
#include "divisions.h"

#include "mesh.h"
#include "options.h"

#include <inttypes.h>

/* What a command without the option means is left out. */
static bool is_needed(const struct division *d, uint32_t option)
{
    switch (option) {
    case OPTION_mesh:
        return d->mesh.axis_count > 0;
    case OPTION_sequence_parallel:
        return d->sequence_parallel;
    case OPTION_zero:
        return d->zero > 0;
    default:
        return d->microbatches > 1;
    }
}

/* NULL: out of memory. */
static const char *value_of(struct remat_arena *arena, const struct division *d, uint32_t option)
{
    char mesh[REMAT_MESH_TEXT_BYTES];
    switch (option) {
    case OPTION_mesh:
        remat_mesh_print(&d->mesh, mesh);
        return remat_arena_format(arena, "%s", mesh);
    case OPTION_sequence_parallel:
        return "";
    default:
        return remat_arena_format(arena, "%" PRIu32,
                                  option == OPTION_zero ? d->zero : d->microbatches);
    }
}

static remat_status add(struct remat_arena *arena, const struct division *d, uint32_t option,
                        struct cli_arguments *out)
{
    const char *value = value_of(arena, d, option);
    out->given[out->given_count++] = (struct cli_given){option, value};
    return value ? REMAT_OK : REMAT_ERROR_MEMORY;
}

/* What is chosen stands in place of the options that ask for it. */
remat_status division_arguments(struct remat_arena *arena, const struct divisions *divisions,
                                const struct division *d, struct cli_arguments *out)
{
    static const uint32_t open[] = {OPTION_mesh, OPTION_sequence_parallel, OPTION_zero,
                                    OPTION_microbatches};
    remat_status st = REMAT_OK;
    const struct cli_arguments *args = divisions->args;
    *out = *args;
    out->given_count = 0;
    REMAT_TRY_NEW(arena, out->given, args->given_count + sizeof open / sizeof *open);
    for (uint32_t i = 0; i < args->given_count; i++) {
        struct cli_given next = args->given[i];
        bool batch = next.option == OPTION_global_batch && !cli_has(args, OPTION_bind);
        if (next.option == OPTION_bind || batch)
            out->given[out->given_count++] = (struct cli_given){OPTION_bind, divisions->bindings};
        else if (next.option == OPTION_microbatches && d)
            REMAT_TRY(add(arena, d, OPTION_microbatches, out));
        else if (next.option != OPTION_ranks && next.option != OPTION_global_batch)
            out->given[out->given_count++] = next;
        for (size_t o = 0; next.option == OPTION_ranks && o < sizeof open / sizeof *open; o++)
            if (!cli_has(args, open[o]) && is_needed(d, open[o]))
                REMAT_TRY(add(arena, d, open[o], out));
    }
fail:
    return st;
}

static bool is_plain(const char *word)
{
    return *word &&
           word[strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                             "%+,-./:=@_")] == 0;
}

void shell_word_append(struct remat_text *out, const char *word)
{
    if (is_plain(word)) {
        remat_text_append(out, "%s", word);
        return;
    }
    remat_text_append(out, "'");
    for (; *word; word++)
        remat_text_append(out, *word == '\'' ? "'\\''" : "%c", *word);
    remat_text_append(out, "'");
}

/* What bears on the plan, and not on where it or something else is written. */
static bool is_of_plan(uint32_t option)
{
    return option != OPTION_output && option != OPTION_format && option != OPTION_verbose &&
           option != OPTION_print_after && option != OPTION_print_plan &&
           option != OPTION_explain && option != OPTION_emit_cuda && option != OPTION_curve &&
           option != OPTION_time_limit;
}

static remat_status write_command(struct remat_arena *arena, const struct divisions *divisions,
                                  const struct division *d, struct remat_text *out)
{
    remat_status st = REMAT_OK;
    struct cli_arguments args;
    REMAT_TRY(division_arguments(arena, divisions, d, &args));
    remat_text_append(out, "%s ", args.tool->name);
    shell_word_append(out, args.operands[0]);
    for (uint32_t i = 0; i < args.given_count; i++) {
        const struct cli_option *option = &args.tool->options[args.given[i].option];
        if (!is_of_plan(args.given[i].option))
            continue;
        remat_text_append(out, " --%s", option->name);
        if (option->kind == CLI_FLAG)
            continue;
        remat_text_append(out, *args.given[i].value == '-' ? "=" : " ");
        shell_word_append(out, args.given[i].value);
    }
fail:
    return st;
}

const struct remat_manual *division_manual(const struct division *d, enum remat_system system)
{
    for (uint32_t i = 0; i < d->manual_count; i++)
        if (strcmp(d->manuals[i].system, remat_system_name(system)) == 0)
            return &d->manuals[i];
    return NULL;
}

/* Sequences that a rank computes at once. */
static int64_t microbatch_of(const struct divisions *divisions, const struct division *d)
{
    return divisions->batch / remat_mesh_size(&d->mesh, "dp") / d->microbatches;
}

/* Its parameters are always divided once the forward pass is over: what keeps them is another
 * setting. */
static bool megatron_has(const struct division *d, const struct remat_manual *manual)
{
    return d->zero != 3 || *manual->flags;
}

static void write_megatron(const struct divisions *divisions, const struct division *d,
                           const struct remat_manual *manual, struct remat_text *out)
{
    static const char *const stages[] = {
        "", " --use-distributed-optimizer", "",
        " --use-megatron-fsdp --data-parallel-sharding-strategy optim_grads_params"
        " --no-gradient-accumulation-fusion --use-distributed-optimizer --ckpt-format "
        "fsdp_dtensor"};
    remat_text_append(out, "--tensor-model-parallel-size %" PRIu32 "%s%s",
                      remat_mesh_size(&d->mesh, "tp"),
                      d->sequence_parallel ? " --sequence-parallel" : "", stages[d->zero]);
    if (divisions->batch)
        remat_text_append(out, " --micro-batch-size %" PRId64 " --global-batch-size %" PRId64,
                          microbatch_of(divisions, d), divisions->batch);
    remat_text_append(out, "%s%s", *manual->flags ? " " : "", manual->flags);
}

/* It divides parameters and all that belongs to them, or nothing; and where nothing, along no other
 * axis. */
static bool torchtitan_has(const struct division *d)
{
    uint32_t dp = remat_mesh_size(&d->mesh, "dp"), tp = remat_mesh_size(&d->mesh, "tp");
    return dp == 1 || d->zero == 3 || (d->zero == 0 && tp == 1);
}

static void write_torchtitan(const struct divisions *divisions, const struct division *d,
                             const struct remat_manual *manual, struct remat_text *out)
{
    uint32_t dp = remat_mesh_size(&d->mesh, "dp"), tp = remat_mesh_size(&d->mesh, "tp");
    remat_text_append(out,
                      "--parallelism.data_parallel_replicate_degree %" PRIu32
                      " --parallelism.data_parallel_shard_degree %" PRIu32,
                      d->zero == 3 ? 1 : dp, d->zero == 3 ? dp : 1);
    if (d->zero == 3)
        remat_text_append(out, " --parallelism.fsdp_reshard_after_forward %s",
                          strcmp(manual->policy, "none") == 0 ? "never" : "always");
    remat_text_append(out, " --parallelism.tensor_parallel_degree %" PRIu32 "%s", tp,
                      tp > 1 && !d->sequence_parallel ? " --parallelism.no-enable-sequence-parallel"
                                                      : "");
    if (divisions->batch)
        remat_text_append(
            out, " --training.local_batch_size %" PRId64 " --training.global_batch_size %" PRId64,
            microbatch_of(divisions, d), divisions->batch);
    remat_text_append(out, " %s", manual->flags);
}

remat_status division_describe(struct remat_arena *arena, const struct divisions *divisions,
                               struct division *d)
{
    remat_status st = REMAT_OK;
    struct remat_text command = {.arena = arena}, megatron = command, torchtitan = command;
    const struct remat_manual *there = division_manual(d, REMAT_SYSTEM_MEGATRON);
    REMAT_TRY(write_command(arena, divisions, d, &command));
    if (there && megatron_has(d, there))
        write_megatron(divisions, d, there, &megatron);
    there = division_manual(d, REMAT_SYSTEM_TORCHTITAN);
    if (there && torchtitan_has(d))
        write_torchtitan(divisions, d, there, &torchtitan);
    d->command = command.items;
    d->flags[REMAT_SYSTEM_MEGATRON] = megatron.items;
    d->flags[REMAT_SYSTEM_TORCHTITAN] = torchtitan.items;
    if (command.failed || megatron.failed || torchtitan.failed)
        st = REMAT_ERROR_MEMORY;
fail:
    return st;
}
