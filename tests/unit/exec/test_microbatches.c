/* SPDX-License-Identifier: Apache-2.0 */
/* Scripts, microbatches and the number that the session writes; what is refused of them. */
#include "borrowed_plan.h"
#include "check.h"
#include "program.h"
#include "sample_microbatches.h"
#include "session_testing.h"

enum { ELEMENTS = SAMPLE_ROWS * SAMPLE_COLUMNS };

struct seen {
    int32_t parts[8][ELEMENTS];
    int count;
};

static int see_part(void *user, const remat_trace_event *event)
{
    struct seen *seen = user;
    if (strcmp(event->name, "part") == 0 && seen->count < 8)
        memcpy(seen->parts[seen->count++], event->values[0].data, sizeof seen->parts[0]);
    return 0;
}

static void test_parts(remat_context *ctx, struct sample_microbatches *s)
{
    const struct remat_plan plan = borrowed_plan(&s->program);
    int32_t batch[SAMPLE_PARTS * ELEMENTS], index = -1;
    struct seen seen = {.count = 0};
    remat_session_params params;
    remat_session *session;
    remat_session_params_init(&params);
    params.threads = 2;
    params.trace = see_part;
    params.trace_user = &seen;
    for (int i = 0; i < SAMPLE_PARTS * ELEMENTS; i++)
        batch[i] = 1000003 * i;
    CHECK_OK(ctx, remat_session_create(ctx, &plan, &params, &session));
    CHECK_OK(ctx, remat_session_run(session, "init"));
    CHECK_OK(ctx, remat_session_write(session, "index", &index, sizeof index));
    CHECK_OK(ctx, remat_session_write(session, "batch", batch, sizeof batch));
    for (int step = 0; step < 2; step++)
        CHECK_OK(ctx, remat_session_run(session, "train"));
    CHECK(seen.count == 2 * SAMPLE_PARTS, "%d parts", seen.count);
    for (int k = 0; k < seen.count; k++)
        CHECK(memcmp(seen.parts[k], batch + (k + 1) % SAMPLE_PARTS * ELEMENTS,
                     sizeof seen.parts[k]) == 0,
              "part %d", k);
    CHECK_OK(ctx, remat_session_read(session, "index", &index, sizeof index));
    CHECK(index == 0, "%d", index);
    static const uint32_t bad[] = {SAMPLE_PARTS, INT32_MAX, UINT32_MAX};
    for (int k = 0; k < 3; k++) {
        s->calls[2].first = bad[k];
        CHECK_STATUS(ctx, remat_session_run(session, "train"), REMAT_ERROR_INVALID,
                     "command \"part\": part ");
    }
    s->calls[2].first = 0;
    CHECK_OK(ctx, remat_session_run(session, "train"));
    remat_session_destroy(&session);
}

/* --- what is refused --- */

#define REFUSED(statement, part)                                                                   \
    do {                                                                                           \
        sample_microbatches(&s);                                                                   \
        statement;                                                                                 \
        CHECK_STATUS(ctx, remat_program_verify(ctx, &s.program), REMAT_ERROR_INVALID, part);       \
    } while (0)

static void test_refused(remat_context *ctx)
{
    struct sample_microbatches s;
    sample_microbatches(&s);
    CHECK_OK(ctx, remat_program_verify(ctx, &s.program));
    CHECK_OK(ctx, remat_program_simulate(ctx, &s.program));
    struct remat_operand *in = &s.operands[1], *index = &s.operands[2], *out = &s.operands[3];
    REFUSED(in->shape[0] = 5, "batch_slice: out is no whole part of in");
    REFUSED(in->shape[1] = 4, "batch_slice: in [N b, ..] and out [b, ..]");
    REFUSED((in->rank = 1, in->strides[0] = 1), "batch_slice: in [N b, ..] and out [b, ..]");
    REFUSED(in->strides[0] = 4, "batch_slice: strides of an operand");
    REFUSED(out->strides[0] = 0, "batch_slice: strides of an operand");
    REFUSED(*index = *in, "batch_slice: the shape of index does not fit . [1] .");
    REFUSED(s.values[1].dtype = index->dtype = REMAT_F32,
            "batch_slice: dtype or access of an operand");
    REFUSED(out->access = REMAT_ACCESS_READ, "batch_slice: dtype or access of an operand");
    REFUSED(s.parameters[0] = 0.5, "fill: the value is no i32");
    REFUSED(s.parameters[0] = 3e9, "fill: the value is no i32");
}

int main(void)
{
    struct sample_microbatches s;
    remat_context *ctx = remat_context_create(NULL, NULL);
    sample_microbatches(&s);
    test_parts(ctx, &s);
    test_refused(ctx);
    remat_context_destroy(&ctx);
    return check_exit();
}
