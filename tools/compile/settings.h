/* SPDX-License-Identifier: Apache-2.0 */
/* The command line as settings. */
#ifndef REMAT_TOOLS_COMPILE_SETTINGS_H
#define REMAT_TOOLS_COMPILE_SETTINGS_H

#include "cli.h"
#include "compile.h"

/* Everything but the callbacks and what is recorded. */
remat_status settings_read(remat_context *ctx, struct remat_arena *arena,
                           const struct cli_arguments *args, struct remat_compile_settings *out);

/* Records in a plan the settings that bear on its contents, not where it was written. `bindings`
 * are those in use. */
remat_status settings_record(struct remat_arena *arena, const struct cli_arguments *args,
                             const char *bindings, struct remat_compile_settings *out);

/* Those of one plan of many that are compared: nothing is shown of it, and it is not kept. */
struct remat_compile_settings settings_of_trial(const struct remat_compile_settings *settings);

#define SETTINGS_SMALLEST_PIECE_BYTES ((uint64_t)1 << 20)
/* Whether pieces down to that size may be smaller than a gradient: ranks exchange some, the graph's
 * are large enough, and --exchange-size was not given. */
bool settings_may_cut_gradients(const struct cli_arguments *args, const struct remat_graph *graph,
                                const struct remat_compile_settings *settings);

#endif
