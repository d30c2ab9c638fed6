/* SPDX-License-Identifier: Apache-2.0 */
#include "records.h"

remat_status records_open(remat_context *ctx, const remat_plan *plan, uint32_t rank, bool traced,
                          bool profiled, struct records *out)
{
    remat_status st = REMAT_OK;
    if (traced)
        RUN_TRY(chrome_trace_open_part(ctx, rank, &out->trace));
    if (profiled)
        RUN_TRY(profiler_open(ctx, plan, &out->profiler));
fail:
    return st;
}

void records_release(struct records *records)
{
    chrome_trace_release_part(&records->trace);
    profiler_release(&records->profiler);
}
