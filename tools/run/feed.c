/* SPDX-License-Identifier: Apache-2.0 */
#include "feed.h"

#include <assert.h>
#include <stdlib.h>

remat_status feed_open(remat_context *ctx, const struct model *model, remat_session *session,
                       struct feed *out)
{
    *out = (struct feed){ctx, model, session,
                         calloc(model->batch * model_longest_row(model) + 1, sizeof *out->ids)};
    return out->ids ? REMAT_OK : cli_error(ctx, REMAT_ERROR_MEMORY, "out of memory");
}

void feed_close(struct feed *feed)
{
    free(feed->ids);
    feed->ids = NULL;
}

/* `count` ids of each of the step's rows. */
static remat_status read_ids(const struct feed *feed, const struct rows *rows, uint64_t step,
                             uint64_t offset, uint64_t count)
{
    remat_status st = REMAT_OK;
    uint64_t batch = feed->model->batch, first = (step - 1) * batch;
    for (uint64_t b = 0; b < batch; b++)
        RUN_TRY(rows_read(feed->ctx, rows, first + b, offset, count, feed->ids + b * count));
fail:
    return st;
}

static remat_status write_ids(const struct feed *feed, const char *input, uint64_t count)
{
    return remat_session_write(feed->session, input, feed->ids,
                               feed->model->batch * count * sizeof *feed->ids);
}

static remat_status write_masked(const struct feed *feed, const struct rows *rows, uint64_t step)
{
    static const char *const inputs[] = {
        [TEXT_MASK_TOKENS] = "tokens", [TEXT_MASK_TARGETS] = "targets"};
    remat_status st = REMAT_OK;
    const struct model *model = feed->model;
    for (int i = TEXT_MASK_TOKENS; i <= TEXT_MASK_TARGETS; i++) {
        RUN_TRY(read_ids(feed, rows, step, 0, model->seq));
        text_mask(step, model->batch, model->seq, model->vocabulary, feed->ids, (enum text_mask)i);
        RUN_TRY(write_ids(feed, inputs[i], model->seq));
    }
fail:
    return st;
}

static remat_status write_next(const struct feed *feed, const struct rows *rows, uint64_t step)
{
    remat_status st = REMAT_OK;
    uint64_t seq = feed->model->seq, source_seq = feed->model->source_seq;
    uint64_t tokens = rows_tokens_offset(rows);
    RUN_TRY(read_ids(feed, rows, step, tokens, seq));
    RUN_TRY(write_ids(feed, "tokens", seq));
    RUN_TRY(read_ids(feed, rows, step, tokens + 1, seq));
    RUN_TRY(write_ids(feed, "targets", seq));
    if (source_seq) {
        RUN_TRY(read_ids(feed, rows, step, 0, source_seq));
        RUN_TRY(write_ids(feed, "source", source_seq));
    }
fail:
    return st;
}

remat_status feed_write(const struct feed *feed, const struct rows *rows,
                        const struct step_inputs *in)
{
    assert(in->step > 0);
    remat_status st = REMAT_OK;
    const struct model *model = feed->model;
    remat_session *session = feed->session;
    int32_t number = (int32_t)in->step;
    const uint32_t rng[4] = {(uint32_t)in->seed, (uint32_t)(in->seed >> 32), (uint32_t)in->step,
                             0}; /* the last: number of the microbatch */
    if (model->batch)
        RUN_TRY((model->feeding == FEED_MASKED ? write_masked : write_next)(feed, rows, in->step));
    if (model->has_rng)
        RUN_TRY(remat_session_write(session, "rng", rng, sizeof rng));
    if (model->has_lr)
        RUN_TRY(remat_session_write(session, "lr", &in->lr, sizeof in->lr));
    if (model->has_step)
        RUN_TRY(remat_session_write(session, "step", &number, sizeof number));
fail:
    return st;
}
