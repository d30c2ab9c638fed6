/* SPDX-License-Identifier: Apache-2.0 */
/* A division as it is typed: the command of remat-compile, and the options of Megatron-LM and
 * torchtitan (docs/policies.md). */
#include "divisions.h"

#include "mesh.h"

#include <inttypes.h>

/* An option that a command has only where it does not mean what is meant without it. */
struct division_option {
    const char *name, *value;
    bool needed;
};
enum { DIVISION_OPTIONS = 4, MICROBATCHES = DIVISION_OPTIONS - 1 };

static remat_status list_options(struct remat_arena *arena, const struct remat_division_trial *d,
                                 struct division_option out[DIVISION_OPTIONS])
{
    char mesh[REMAT_MESH_TEXT_BYTES];
    remat_mesh_print(&d->mesh, mesh);
    out[0] = (struct division_option){"mesh", remat_arena_format(arena, "%s", mesh),
                                      d->mesh.axis_count > 0};
    out[1] = (struct division_option){"sequence-parallel", "", d->sequence_parallel};
    out[2] = (struct division_option){"zero", remat_arena_format(arena, "%" PRIu32, d->zero),
                                      d->zero > 0};
    out[MICROBATCHES] = (struct division_option){
        "microbatches", remat_arena_format(arena, "%" PRIu32, d->microbatches),
        d->microbatches > 1};
    for (size_t o = 0; o < DIVISION_OPTIONS; o++)
        if (!out[o].value)
            return REMAT_ERROR_MEMORY;
    return REMAT_OK;
}

static void add(struct remat_asked *out, const char *name, const char *value)
{
    out->items[out->count++] = (struct remat_setting){name, value};
}

/* What is chosen stands in place of the options that ask for it. */
remat_status remat_division_arguments(struct remat_arena *arena,
                                      const struct remat_divisions *divisions,
                                      const struct remat_division_trial *d, struct remat_asked *out)
{
    remat_status st = REMAT_OK;
    const struct remat_asked *asked = divisions->asked;
    struct division_option options[DIVISION_OPTIONS];
    *out = (struct remat_asked){.model = asked->model};
    REMAT_TRY_NEW(arena, out->items, asked->count + DIVISION_OPTIONS);
    if (d)
        REMAT_TRY(list_options(arena, d, options));
    for (size_t i = 0; i < asked->count; i++) {
        const char *name = asked->items[i].name;
        bool ranks = strcmp(name, "ranks") == 0, batch = strcmp(name, "global-batch") == 0;
        if (strcmp(name, "bind") == 0 || (batch && !remat_asks(asked, "bind")))
            add(out, "bind", divisions->bindings);
        else if (strcmp(name, "microbatches") == 0 && d)
            add(out, name, options[MICROBATCHES].value);
        else if (!ranks && !batch)
            add(out, name, asked->items[i].value);
        for (size_t o = 0; ranks && d && o < DIVISION_OPTIONS; o++)
            if (!remat_asks(asked, options[o].name) && options[o].needed)
                add(out, options[o].name, options[o].value);
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

void remat_shell_word_append(struct remat_text *out, const char *word)
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

static remat_status write_command(struct remat_arena *arena,
                                  const struct remat_divisions *divisions,
                                  const struct remat_division_trial *d, struct remat_text *out)
{
    remat_status st = REMAT_OK;
    struct remat_asked asked;
    REMAT_TRY(remat_division_arguments(arena, divisions, d, &asked));
    remat_text_append(out, "remat-compile ");
    remat_shell_word_append(out, asked.model);
    for (size_t i = 0; i < asked.count; i++) {
        const char *value = asked.items[i].value;
        if (strcmp(asked.items[i].name, "time-limit") == 0)
            continue;
        remat_text_append(out, " --%s", asked.items[i].name);
        if (!*value)
            continue;
        remat_text_append(out, *value == '-' ? "=" : " ");
        remat_shell_word_append(out, value);
    }
fail:
    return st;
}

const struct remat_manual *remat_division_manual(const struct remat_division_trial *d,
                                                 enum remat_system system)
{
    for (uint32_t i = 0; i < d->manual_count; i++)
        if (strcmp(d->manuals[i].system, remat_system_name(system)) == 0)
            return &d->manuals[i];
    return NULL;
}

/* Sequences that a rank computes at once. */
static int64_t microbatch_of(const struct remat_divisions *divisions,
                             const struct remat_division_trial *d)
{
    return divisions->batch / remat_mesh_size(&d->mesh, "dp") / d->microbatches;
}

/* Its parameters are always divided once the forward pass is over: what keeps them is another
 * setting. */
static bool megatron_has(const struct remat_division_trial *d, const struct remat_manual *manual)
{
    return d->zero != 3 || *manual->flags;
}

static void write_megatron(const struct remat_divisions *divisions,
                           const struct remat_division_trial *d, const struct remat_manual *manual,
                           struct remat_text *out)
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
static bool torchtitan_has(const struct remat_division_trial *d)
{
    uint32_t dp = remat_mesh_size(&d->mesh, "dp"), tp = remat_mesh_size(&d->mesh, "tp");
    return dp == 1 || d->zero == 3 || (d->zero == 0 && tp == 1);
}

static void write_torchtitan(const struct remat_divisions *divisions,
                             const struct remat_division_trial *d,
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

remat_status remat_division_describe(struct remat_arena *arena,
                                     const struct remat_divisions *divisions,
                                     struct remat_division_trial *d)
{
    remat_status st = REMAT_OK;
    struct remat_text command = {.arena = arena}, megatron = command, torchtitan = command;
    const struct remat_manual *there = remat_division_manual(d, REMAT_SYSTEM_MEGATRON);
    REMAT_TRY(write_command(arena, divisions, d, &command));
    if (there && megatron_has(d, there))
        write_megatron(divisions, d, there, &megatron);
    there = remat_division_manual(d, REMAT_SYSTEM_TORCHTITAN);
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
