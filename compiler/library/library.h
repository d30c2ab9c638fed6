/* SPDX-License-Identifier: Apache-2.0 */
/* Private to this folder: what handles hold. */
#ifndef REMAT_LIBRARY_H
#define REMAT_LIBRARY_H

#include "compile.h"
#include "handle.h"

#include <remat/compile.h>

struct remat_graph_builder {
    struct remat_handle handle;
    struct remat_graph *graph;
    struct REMAT_LIST(remat_value) outputs;
    bool finished;
};

struct globs REMAT_LIST(const char *);

struct remat_compile_options {
    struct remat_handle handle;
    const char *target;
    uint32_t threads; /* 0: the target's own */
    bool has_budget, has_reserve;
    uint64_t budget_bytes, reserve_bytes;
    enum remat_solver solver;
    struct remat_policy_settings policy; /* but for its globs */
    struct globs save, recompute;
    bool explain;
    double limit_s;                  /* 0: none */
    remat_is_cancelled is_cancelled; /* NULL: never */
    void *user;
};

/* The settings, which point to `options`; the rest lies in the arena. A time limit begins. */
remat_status remat_read_options(struct remat_arena *arena, const remat_compile_options *options,
                                struct remat_compile_settings *out);

#endif
