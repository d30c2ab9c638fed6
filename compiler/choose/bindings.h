/* SPDX-License-Identifier: Apache-2.0 */
/* Values of a graph's symbols. */
#ifndef REMAT_BINDINGS_H
#define REMAT_BINDINGS_H

#include "request.h"

/* In a step, on all ranks. */
uint32_t remat_microbatches(const struct remat_compile_settings *settings);

/* The request's graph without symbols, in `arena`, its batch that of a microbatch of a rank. */
remat_status remat_asked_bind(const struct remat_request *request,
                              const struct remat_compile_settings *settings, const char *bindings,
                              struct remat_arena *arena, struct remat_graph **out);

/* Tokens or, without lengths, sequences of a step of all ranks, by the values of symbols; *unit is
 * "tokens" or "sequences". NULL: not known, as there is no batch. */
double remat_asked_work(const struct remat_graph *symbols, const char **unit);

#endif
