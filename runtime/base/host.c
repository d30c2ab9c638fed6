/* SPDX-License-Identifier: Apache-2.0 */
#include "base.h"

#include <unistd.h>

void remat_host_name(char out[REMAT_HOST_BYTES])
{
    if (gethostname(out, REMAT_HOST_BYTES))
        *out = 0;
    out[REMAT_HOST_BYTES - 1] = 0;
}
