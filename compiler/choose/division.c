/* SPDX-License-Identifier: Apache-2.0 */
#include "division.h"

#include "mesh.h"

#include <inttypes.h>

bool remat_division_is_auto(const struct remat_asked *asked)
{
    return strcmp(remat_asked_text(asked, "microbatches", ""), "auto") == 0;
}

bool remat_division_asked(const struct remat_asked *asked)
{
    return remat_asks(asked, "ranks") || remat_division_is_auto(asked);
}

struct remat_division_text remat_division_options(const struct remat_division_trial *d)
{
    struct remat_division_text out;
    char mesh[REMAT_MESH_TEXT_BYTES], zero[32] = "";
    remat_mesh_print(&d->mesh, mesh);
    if (d->zero)
        snprintf(zero, sizeof zero, "--zero %" PRIu32 " ", d->zero);
    snprintf(out.text, sizeof out.text, "%s%s%s%s%s--microbatches %" PRIu32, *mesh ? "--mesh " : "",
             mesh, *mesh ? " " : "", d->sequence_parallel ? "--sequence-parallel " : "", zero,
             d->microbatches);
    return out;
}
