/* SPDX-License-Identifier: Apache-2.0 */
/* Private to this folder: cubins of a plan. */
#ifndef REMAT_CUBINS_H
#define REMAT_CUBINS_H

#include "asked.h"
#include "device_description.h"

#include <remat/compile.h>

bool remat_cubins_asked(const struct remat_asked *asked);
/* REMAT_ERROR_USAGE: the options about them contradict each other. */
remat_status remat_cubins_check(remat_context *ctx, const struct remat_asked *asked);

/* Adds them to the program, or a note on what becomes of its kernels. */
remat_status remat_cubins_add(remat_context *ctx, struct remat_arena *arena,
                              const struct remat_asked *asked,
                              const struct remat_device_description *target,
                              remat_cubins_spec *spec, struct remat_program *program);

#endif
