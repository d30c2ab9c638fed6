/* SPDX-License-Identifier: Apache-2.0 */
/* Drops the nodes that no graph output, update or parameter gradient needs. */
#include "rebuild.h"

REMAT_PASS(eliminate_dead)
{
    struct remat_rebuild r = remat_rebuild_begin(arena, graph, 1);
    remat_rebuild_live(&r);
    *out = remat_rebuild_finish(&r);
    return REMAT_OK;
}
