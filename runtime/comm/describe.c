/* SPDX-License-Identifier: Apache-2.0 */
#include "base.h"

#include <remat/engine.h>

#include <inttypes.h>
#include <stdio.h>

void remat_transfer_describe(const remat_transfer *t, char *out, size_t bytes)
{
    snprintf(out, bytes,
             "at transfer %" PRIu64 " \"%.128s\" of %" PRIu64 " bytes %s %.32s (%" PRIu32 " ranks)",
             t->sequence, t->name, t->whole_bytes, t->axis ? "along" : "among",
             t->axis ? t->axis : "all", t->size);
}
