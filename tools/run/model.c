/* SPDX-License-Identifier: Apache-2.0 */
#include "model.h"

#include "safetensors.h"

#include <stdlib.h>

static bool find_tensor(const remat_plan *plan, const char *name, remat_tensor_info *out)
{
    *out = (remat_tensor_info){.struct_size = sizeof *out};
    return remat_plan_get_tensor(plan, remat_plan_find_tensor(plan, name), out);
}

static remat_status check_ids(remat_context *ctx, const remat_plan *plan, const char *name,
                              remat_tensor_info *out)
{
    if (!find_tensor(plan, name, out))
        return cli_error(ctx, REMAT_ERROR_INVALID, "the plan has no input \"%s\"", name);
    if (out->role != REMAT_TENSOR_INPUT || out->element != REMAT_ELEMENT_I32 || out->rank != 2)
        return cli_error(ctx, REMAT_ERROR_INVALID,
                         "\"%s\" is not an input of i32 [batch, sequence]", name);
    return REMAT_OK;
}

/* Rows of the family's table of token embeddings, without padding. */
static int64_t find_vocabulary(const remat_plan *plan, const struct family *family)
{
    remat_tensor_info table;
    bool found = family && find_tensor(plan, family->embeddings, &table) && table.rank == 2;
    return found ? table.unpadded_rows : INT64_MAX;
}

static void inspect_microbatches(struct model *model)
{
    const char *microbatches = remat_plan_setting(model->plan, "microbatches");
    remat_plan_info info = {.struct_size = sizeof info};
    unsigned ranks;
    remat_plan_get_info(model->plan, &info);
    if (sscanf(info.mesh, "dp=%u", &ranks) != 1) /* dp is the first axis if it is there */
        ranks = 1;
    model->mesh = info.mesh;
    model->chosen_by = info.chosen_by;
    model->data_ranks = ranks;
    model->microbatches = ranks * (microbatches ? strtoull(microbatches, NULL, 10) : 1);
}

/* Where a byte may be the element that is ignored, the session tells which ones it refuses. */
static void narrow_vocabulary(struct model *model, const remat_tensor_info *ids)
{
    int64_t bound = ids->index_bound ? ids->index_bound : INT64_MAX;
    bool ignores_byte = ids->index_ignored >= bound && ids->index_ignored <= UINT8_MAX;
    if (!ignores_byte && bound < model->vocabulary)
        model->vocabulary = bound;
}

static remat_status inspect_source(remat_context *ctx, struct model *model)
{
    remat_status st = REMAT_OK;
    remat_tensor_info source;
    if (!find_tensor(model->plan, "source", &source))
        return REMAT_OK;
    RUN_TRY(check_ids(ctx, model->plan, "source", &source));
    if ((uint64_t)source.shape[0] != model->batch)
        RUN_FAIL(ctx, REMAT_ERROR_INVALID, "\"source\" and \"tokens\" differ in batch");
    model->source_seq = (uint64_t)source.shape[1];
    narrow_vocabulary(model, &source);
fail:
    return st;
}

static const struct setting_number { /* an input of few elements that a plan may have */
    const char *name;
    remat_element element;
    uint32_t count;
} rng = {"rng", REMAT_ELEMENT_I32, 4}, lr = {"lr", REMAT_ELEMENT_F32, 1},
  step = {"step", REMAT_ELEMENT_I32, 1};

static remat_status inspect_number(remat_context *ctx, const remat_plan *plan,
                                   const struct setting_number *number, bool *has)
{
    remat_tensor_info found;
    *has = find_tensor(plan, number->name, &found);
    if (*has && (found.role != REMAT_TENSOR_INPUT || found.element != number->element ||
                 found.bytes != 4 * (uint64_t)number->count))
        return cli_error(ctx, REMAT_ERROR_INVALID, "\"%s\" is not an input of %s [%u]",
                         number->name, number->element == REMAT_ELEMENT_F32 ? "f32" : "i32",
                         number->count);
    return REMAT_OK;
}

bool model_writes(const char *input)
{
    const char *const names[] = {"tokens", "targets", "source", rng.name, lr.name, step.name};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i], input) == 0)
            return true;
    return false;
}

static bool has_entry(const remat_plan *plan, const char *entry)
{
    for (uint32_t e = 0; e < remat_plan_entry_count(plan); e++)
        if (strcmp(remat_plan_entry_name(plan, e), entry) == 0)
            return true;
    return false;
}

static remat_status check_entries(remat_context *ctx, const remat_plan *plan,
                                  const char *const *entries)
{
    for (; *entries; entries++)
        if (!has_entry(plan, *entries))
            return cli_error(
                ctx, REMAT_ERROR_INVALID, "the plan has no entry point \"%s\"%s", *entries,
                strcmp(*entries, "train") == 0 ? ": its graph trains nothing (--eval evaluates it)"
                                               : "");
    return REMAT_OK;
}

/* Of ids that this tool writes. */
static bool has_ids(const remat_plan *plan)
{
    remat_tensor_info any;
    return find_tensor(plan, "tokens", &any) || find_tensor(plan, "targets", &any) ||
           find_tensor(plan, "source", &any);
}

static remat_status inspect_ids(remat_context *ctx, struct model *model)
{
    remat_status st = REMAT_OK;
    remat_tensor_info tokens, targets;
    RUN_TRY(check_ids(ctx, model->plan, "tokens", &tokens));
    RUN_TRY(check_ids(ctx, model->plan, "targets", &targets));
    if (tokens.bytes != targets.bytes)
        RUN_FAIL(ctx, REMAT_ERROR_INVALID, "\"tokens\" and \"targets\" differ in shape");
    narrow_vocabulary(model, &tokens);
    narrow_vocabulary(model, &targets);
    model->batch = (uint64_t)tokens.shape[0];
    model->seq = (uint64_t)tokens.shape[1];
    RUN_TRY(inspect_source(ctx, model));
fail:
    return st;
}

remat_status model_inspect(remat_context *ctx, const remat_plan *plan, const char *const *entries,
                           struct model *out)
{
    remat_status st = REMAT_OK;
    remat_tensor_info other;
    const struct family *family = family_of(plan);
    *out = (struct model){.plan = plan,
                          .feeding = family ? family->feeding : FEED_NEXT,
                          .vocabulary = find_vocabulary(plan, family)};
    RUN_TRY(check_entries(ctx, plan, entries));
    if (has_ids(plan))
        RUN_TRY(inspect_ids(ctx, out));
    inspect_microbatches(out);
    if (!find_tensor(plan, "loss", &other) || other.bytes != sizeof(float) ||
        other.element != REMAT_ELEMENT_F32)
        RUN_FAIL(ctx, REMAT_ERROR_INVALID, "the plan has no output \"loss\" of one f32");
    RUN_TRY(inspect_number(ctx, plan, &rng, &out->has_rng));
    RUN_TRY(inspect_number(ctx, plan, &lr, &out->has_lr));
    RUN_TRY(inspect_number(ctx, plan, &step, &out->has_step));
    out->has_flag = find_tensor(plan, "not_finite", &other) && other.element == REMAT_ELEMENT_I32 &&
                    other.bytes == sizeof(int32_t);
    out->has_parts = safetensors_has_parts(plan, safetensors_is_parameter);
fail:
    return st;
}

uint64_t model_step_tokens(const struct model *model)
{
    return model->batch * (model->seq + model->source_seq);
}

uint64_t model_longest_row(const struct model *model)
{
    return model->seq > model->source_seq ? model->seq : model->source_seq;
}
