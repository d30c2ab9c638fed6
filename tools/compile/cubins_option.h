/* SPDX-License-Identifier: Apache-2.0 */
/* --arch, --nvrtc, --cache: the cubins of a plan. */
#ifndef REMAT_TOOLS_CUBINS_OPTION_H
#define REMAT_TOOLS_CUBINS_OPTION_H

#include "cli.h"
#include "device_description.h"
#include "program.h"

/* --arch names architectures. */
bool cubins_asked(const struct cli_arguments *args);

/* REMAT_ERROR_USAGE: an option about cubins where there are to be none, or a list that is none. */
remat_status cubins_check(remat_context *ctx, const struct cli_arguments *args);

/* Compiles the kernels of the plan for --arch. Of a GPU's plan without that option a note says when
 * they are compiled. */
remat_status cubins_add(remat_context *ctx, struct remat_arena *arena,
                        const struct cli_arguments *args,
                        const struct remat_device_description *target,
                        struct remat_program *program);

#endif
