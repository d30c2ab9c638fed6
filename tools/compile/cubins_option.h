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
remat_status cubins_check(remat_context *ctx, const struct cli_arguments *args,
                          const struct remat_device_description *target);

/* Compiles the kernels of the plan for --arch, by default for the architecture of the target. Where
 * that default cannot be had (no NVRTC, or one that does not know it) the plan says so in a note;
 * where --arch was given it is an error. */
remat_status cubins_add(remat_context *ctx, struct remat_arena *arena,
                        const struct cli_arguments *args,
                        const struct remat_device_description *target,
                        struct remat_program *program);

#endif
