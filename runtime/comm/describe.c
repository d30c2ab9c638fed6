/* SPDX-License-Identifier: Apache-2.0 */
#include "base.h"

#include <remat/engine.h>

#include <inttypes.h>
#include <stdio.h>

void remat_transfer_describe(const remat_transfer *t, uint32_t count, char *out, size_t bytes)
{
    char numbers[64];
    snprintf(numbers, sizeof numbers, "at transfer %" PRIu64, t->sequence);
    if (count > 1)
        snprintf(numbers, sizeof numbers, "at transfers %" PRIu64 " to %" PRIu64 ", first",
                 t->sequence, t->sequence + count - 1);
    snprintf(out, bytes, "%s \"%.128s\" of %" PRIu64 " bytes %s %.32s (%" PRIu32 " ranks)", numbers,
             t->name, t->whole_bytes, t->axis ? "along" : "among", t->axis ? t->axis : "all",
             t->size);
}
