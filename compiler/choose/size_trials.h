/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REMAT_SIZE_TRIALS_H
#define REMAT_SIZE_TRIALS_H

#include "request.h"
#include "sizes.h"

/* The bindings to compile with: those asked for, with the best size in place of auto. */
remat_status remat_sizes_choose(const struct remat_request *request, struct remat_sizes *sizes,
                                const char **out);

#endif
