/* SPDX-License-Identifier: Apache-2.0 */
/* What is said of a budget that nothing fits. */
#ifndef REMAT_TOOLS_COMPILE_REFUSAL_TEXT_H
#define REMAT_TOOLS_COMPILE_REFUSAL_TEXT_H

#include "compile.h"

/* Of several attempts, as to find a batch, the one that needs least. */
struct refusal_kept {
    struct remat_arena *arena;
    struct remat_refusal refusal; /* smallest_bytes 0: there was none */
    struct remat_refused_resident residents[REMAT_REFUSED_RESIDENTS];
    bool failed;
};

/* Has refusals kept; `out` outlives the compilation. */
void refusal_watch(struct remat_arena *arena, struct remat_compile_settings *settings,
                   struct refusal_kept *out);

/* After REMAT_ERROR_INFEASIBLE, which it returns: the size needed at the end of its message,
 * rounded up, lines behind it, and with `json` an object on standard output. */
remat_status refusal_print(remat_context *ctx, const struct refusal_kept *kept, bool json);

#endif
