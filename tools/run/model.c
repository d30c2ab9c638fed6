/* SPDX-License-Identifier: Apache-2.0 */
#include "model.h"

#include "safetensors.h"

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

static remat_status inspect_rng(remat_context *ctx, struct model *model)
{
    remat_tensor_info rng;
    model->has_rng = find_tensor(model->plan, "rng", &rng);
    if (model->has_rng && (rng.role != REMAT_TENSOR_INPUT || rng.element != REMAT_ELEMENT_I32 ||
                           rng.bytes != 4 * sizeof(int32_t)))
        return cli_error(ctx, REMAT_ERROR_INVALID, "\"rng\" is not an input of i32 [4]");
    return REMAT_OK;
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

remat_status model_inspect(remat_context *ctx, const remat_plan *plan, const char *const *entries,
                           struct model *out)
{
    remat_status st = REMAT_OK;
    remat_tensor_info tokens, targets, other;
    const struct family *family = family_of(plan);
    *out = (struct model){.plan = plan,
                          .feeding = family ? family->feeding : FEED_NEXT,
                          .vocabulary = find_vocabulary(plan, family)};
    RUN_TRY(check_entries(ctx, plan, entries));
    RUN_TRY(check_ids(ctx, plan, "tokens", &tokens));
    RUN_TRY(check_ids(ctx, plan, "targets", &targets));
    if (tokens.bytes != targets.bytes)
        RUN_FAIL(ctx, REMAT_ERROR_INVALID, "\"tokens\" and \"targets\" differ in shape");
    narrow_vocabulary(out, &tokens);
    narrow_vocabulary(out, &targets);
    out->batch = (uint64_t)tokens.shape[0];
    out->seq = (uint64_t)tokens.shape[1];
    if (!find_tensor(plan, "loss", &other) || other.bytes != sizeof(float) ||
        other.element != REMAT_ELEMENT_F32)
        RUN_FAIL(ctx, REMAT_ERROR_INVALID, "the plan has no output \"loss\" of one f32");
    RUN_TRY(inspect_source(ctx, out));
    RUN_TRY(inspect_rng(ctx, out));
    out->has_lr = find_tensor(plan, "lr", &other);
    out->has_step = find_tensor(plan, "step", &other);
    out->has_flag = find_tensor(plan, "not_finite", &other) && other.element == REMAT_ELEMENT_I32 &&
                    other.bytes == sizeof(int32_t);
    out->has_parts = safetensors_has_parts(plan, safetensors_is_parameter);
fail:
    return st;
}

uint64_t model_longest_row(const struct model *model)
{
    return model->seq > model->source_seq ? model->seq : model->source_seq;
}
