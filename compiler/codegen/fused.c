/* SPDX-License-Identifier: Apache-2.0 */
/* A fused kernel's command: one launch, or with sums of columns several. */
#include "emitter.h"

#include "body.h"
#include "unwind.h"

static remat_status emit_columns(struct cuda_emitter *e, struct cuda_source *s)
{
    if (cuda_columns_shared_bytes(s) > REMAT_CUDA_STATIC_MAX)
        return CUDA_INVALID(s, "%s", "too many sums of columns in one kernel of CUDA text");
    REMAT_CHECK(cuda_use_workspace(e, s, cuda_columns_workspace_bytes(s)));
    for (uint32_t pass = 0; pass < s->pass_count; pass++) {
        if (!cuda_begin_pass(s, pass))
            continue;
        cuda_write_partial_sums(s, pass);
        REMAT_CHECK(cuda_add_launch(e, s));
        if (!cuda_pass_reduces(s, pass))
            continue;
        cuda_write_column_totals(s, pass);
        REMAT_CHECK(cuda_add_launch(e, s));
    }
    return REMAT_OK;
}

remat_status cuda_emit_fused(struct cuda_emitter *e, const struct remat_command *command)
{
    struct cuda_source s = cuda_start_source(e, command, CUDA_POINTWISE);
    REMAT_CHECK(cuda_source_read(&s, e->program));
    cuda_choose_geometry(&s, e->settings);
    if (s.shape == CUDA_COLUMNS)
        return emit_columns(e, &s);
    if (s.shape == CUDA_TEAM)
        cuda_write_team(&s);
    else if (s.shape == CUDA_BLOCK)
        cuda_write_block(&s);
    else
        cuda_write_pointwise(&s);
    return cuda_add_launch(e, &s);
}
