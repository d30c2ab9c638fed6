/* SPDX-License-Identifier: Apache-2.0 */
#include "restore.h"

#include "parts.h"
#include "safetensors.h"

#include <assert.h>

/* Elements [begin, until) of this rank's part; padding is 0. */
static remat_status read_runs(remat_context *ctx, const struct safetensors_file *file,
                              const struct safetensors_tensor *from, const remat_tensor_info *to,
                              uint32_t rank, uint64_t begin, uint64_t until, char *out)
{
    remat_status st = REMAT_OK;
    uint64_t size = element_bytes(to->element), end = safetensors_whole(to).bytes / size;
    struct part_run run;
    memset(out, 0, (until - begin) * size);
    for (uint64_t i = begin; i < until && st == REMAT_OK; i += run.count) {
        run = part_run_at(to->parts, rank, i, until, end);
        if (run.kept)
            st = safetensors_read_part(ctx, file, from, run.whole * size, out + (i - begin) * size,
                                       run.kept * size);
    }
    return st;
}

remat_status restore_tensor(remat_context *ctx, const struct safetensors_file *file,
                            const struct safetensors_tensor *from, const remat_tensor_info *to,
                            uint32_t rank, remat_session *session, void *buffer)
{
    assert(to->bytes % element_bytes(to->element) == 0);
    remat_status st = REMAT_OK;
    uint64_t size = element_bytes(to->element), most = RESTORE_BYTES / size;
    uint64_t end = to->bytes / size;
    for (uint64_t at = 0; at < end; at += most) {
        uint64_t until = end - at < most ? end : at + most;
        RUN_TRY(read_runs(ctx, file, from, to, rank, at, until, buffer));
        RUN_TRY(
            remat_session_write_part(session, to->name, at * size, buffer, (until - at) * size));
    }
fail:
    return st;
}
