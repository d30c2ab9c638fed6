/* SPDX-License-Identifier: Apache-2.0 */
/* A request as settings of the compiler. */
#ifndef REMAT_SETTINGS_H
#define REMAT_SETTINGS_H

#include "asked.h"
#include "compile.h"

/* Everything but the callbacks and what is recorded. */
remat_status remat_settings_read(remat_context *ctx, struct remat_arena *arena,
                                 const struct remat_asked *asked,
                                 struct remat_compile_settings *out);

/* On a budget that the device does not have. */
void remat_settings_warn(remat_context *ctx, const struct remat_compile_settings *settings);

/* Records in a plan the settings that bear on its commands. `bindings` are those in use. */
remat_status remat_settings_record(struct remat_arena *arena, const struct remat_asked *asked,
                                   const char *bindings, struct remat_compile_settings *out);

/* Those of one plan of many that are compared: nothing is shown of it, and it is not kept. */
struct remat_compile_settings
remat_settings_of_trial(const struct remat_compile_settings *settings);

#define REMAT_SMALLEST_PIECE_BYTES ((uint64_t)1 << 20)
/* Whether pieces down to that size may be smaller than a gradient: ranks exchange some, the graph's
 * are large enough, and --exchange-size was not given. */
bool remat_may_cut_gradients(const struct remat_asked *asked, const struct remat_graph *graph,
                             const struct remat_compile_settings *settings);

#endif
