/* SPDX-License-Identifier: Apache-2.0 */
#include "peers.h"

#include <stdlib.h>

remat_status peers_gather(remat_context *ctx, const struct peers *peers, const char *name,
                          uint64_t sequence, uint64_t bytes, const void *mine, void *all)
{
    char message[REMAT_ENGINE_MESSAGE_BYTES] = "";
    const remat_engine *engine = peers->engine;
    const remat_transfer transfer = {.struct_size = sizeof transfer,
                                     .name = name,
                                     .sequence = sequence,
                                     .size = engine->ranks,
                                     .position = engine->rank,
                                     .part_bytes = bytes,
                                     .whole_bytes = engine->ranks * bytes,
                                     .from = mine,
                                     .to = all,
                                     .timeout_ns = peers->timeout_ns};
    remat_status st = engine->gather(engine->user, &transfer, 1, message);
    return st ? cli_error(ctx, st, "%s", message) : REMAT_OK;
}

remat_status peers_any(remat_context *ctx, const struct peers *peers, const char *name,
                       uint64_t sequence, bool *value)
{
    remat_status st = REMAT_OK;
    uint32_t count = peers->engine->ranks;
    bool mine = *value, *all = calloc(count, sizeof *all);
    if (!all)
        RUN_FAIL(ctx, REMAT_ERROR_MEMORY, "out of memory");
    RUN_TRY(peers_gather(ctx, peers, name, sequence, sizeof mine, &mine, all));
    for (uint32_t r = 0; r < count; r++)
        *value |= all[r];
fail:
    free(all);
    return st;
}
