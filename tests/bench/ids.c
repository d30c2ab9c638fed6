/* SPDX-License-Identifier: Apache-2.0 */
#include "ids.h"

#include "text.h"

#include <stdlib.h>

static remat_status write_input(remat_context *ctx, remat_session *session,
                                const remat_tensor_info *input, uint64_t first, char *seen,
                                uint64_t *distinct)
{
    uint64_t count = input->bytes / sizeof(int32_t);
    int32_t *ids = malloc(input->bytes);
    if (!ids)
        return cli_error(ctx, REMAT_ERROR_MEMORY, "out of memory");
    text_zipf(first, count, input->index_bound, ids);
    for (uint64_t i = 0; i < count; i++) {
        *distinct += !seen[ids[i]];
        seen[ids[i]] = 1;
    }
    remat_status st = remat_session_write(session, input->name, ids, input->bytes);
    free(ids);
    return st;
}

remat_status ids_write(remat_context *ctx, remat_session *session, const remat_plan *plan,
                       uint64_t *distinct)
{
    remat_status st = REMAT_OK;
    uint64_t first = 0;
    char *seen = calloc(1, INT32_MAX); /* pages that are never touched take nothing */
    *distinct = 0;
    if (!seen)
        return cli_error(ctx, REMAT_ERROR_MEMORY, "out of memory");
    for (uint32_t t = 0; t < remat_plan_tensor_count(plan); t++) {
        remat_tensor_info info = {.struct_size = sizeof info};
        remat_plan_get_tensor(plan, t, &info);
        if (info.role != REMAT_TENSOR_INPUT || info.index_bound == 0)
            continue;
        RUN_TRY(write_input(ctx, session, &info, first, seen, distinct));
        first += info.bytes / sizeof(int32_t);
    }
fail:
    free(seen);
    return st;
}
