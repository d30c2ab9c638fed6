/* SPDX-License-Identifier: Apache-2.0 */
/* Drops the nodes that no graph output, update or parameter gradient needs. */
#include "rebuild.h"

REMAT_PASS(eliminate_dead)
{
    remat_status st = REMAT_OK;
    struct remat_rebuild r;
    REMAT_TRY(remat_rebuild_start(&r, ctx, arena, graph));
    REMAT_TRY(remat_rebuild_live(&r));
    REMAT_TRY(remat_rebuild_finish(&r, out));
fail:
    return st;
}
