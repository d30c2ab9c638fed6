/* SPDX-License-Identifier: Apache-2.0 */
#include "division.h"

#include "options.h"

#include <inttypes.h>

bool division_is_auto(const struct cli_arguments *args)
{
    return strcmp(cli_text(args, OPTION_microbatches, ""), "auto") == 0;
}

bool division_asked(const struct cli_arguments *args)
{
    return cli_has(args, OPTION_ranks) || division_is_auto(args);
}

struct division_text division_options(const struct division *d)
{
    struct division_text out;
    char mesh[REMAT_MESH_TEXT_BYTES], zero[32] = "";
    remat_mesh_print(&d->mesh, mesh);
    if (d->zero)
        snprintf(zero, sizeof zero, "--zero %" PRIu32 " ", d->zero);
    snprintf(out.text, sizeof out.text, "%s%s%s%s%s--microbatches %" PRIu32, *mesh ? "--mesh " : "",
             mesh, *mesh ? " " : "", d->sequence_parallel ? "--sequence-parallel " : "", zero,
             d->microbatches);
    return out;
}
