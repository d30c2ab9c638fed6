/* SPDX-License-Identifier: Apache-2.0 */
/* --check: whether a plan carries the CUDA code that its commands mean. No view, as what it says
 * depends on the NVRTC of the machine. */
#ifndef REMAT_TOOLS_DUMP_CHECK_H
#define REMAT_TOOLS_DUMP_CHECK_H

#include "dump.h"

struct check {     /* of what was compared nothing differs */
    bool has_text; /* else there is nothing to compare */
    const char
        *uncompared; /* why the cubins were not compared; NULL: they were, or there are none */
};

/* REMAT_ERROR_INVALID names the first that differs. `nvrtc`: its folder, NULL: the loader knows;
 * REMAT_ERROR_IO when it is given and has none. */
remat_status check_plan(remat_context *ctx, struct remat_arena *arena, const char *path,
                        const struct remat_program *program, const char *nvrtc, struct check *out);
void check_print(const struct check *check, const struct remat_program *program,
                 struct remat_text *out);
void check_set(const struct check *check, const struct remat_program *program,
               struct dump_json *out);

#endif
