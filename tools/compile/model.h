/* SPDX-License-Identifier: Apache-2.0 */
/* The graph, and the values of its symbols. */
#ifndef REMAT_TOOLS_COMPILE_MODEL_H
#define REMAT_TOOLS_COMPILE_MODEL_H

#include "cli.h"
#include "compile.h"
#include "progress.h"
#include "sizes.h"

remat_status model_read(remat_context *ctx, struct remat_arena *arena, const char *path,
                        struct remat_graph **out);

/* A graph without symbols, its batch that of a microbatch of a rank. `parsed` stays as it is. */
remat_status model_bind(remat_context *ctx, struct remat_arena *arena, const char *path,
                        const struct remat_graph *parsed, const char *bindings,
                        const struct remat_compile_settings *settings, struct remat_graph **out);

/* Tokens or, without lengths, sequences of a step of all ranks, by the values of symbols; *unit is
 * "tokens" or "sequences". NULL: not known, as there is no batch. */
double model_work(const struct remat_graph *symbols, const char **unit);

/* The bindings to compile with: those given, with the best size in place of auto. */
remat_status model_choose_bindings(remat_context *ctx, struct remat_arena *arena,
                                   const struct cli_arguments *args,
                                   const struct remat_graph *parsed,
                                   const struct remat_compile_settings *settings,
                                   struct progress *progress, struct sizes *sizes,
                                   const char **out);

#endif
