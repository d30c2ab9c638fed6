/* SPDX-License-Identifier: Apache-2.0 */
/* Private to this folder: a plan with what was chosen for it. */
#ifndef REMAT_COMPILED_H
#define REMAT_COMPILED_H

#include "library.h"
#include "plan_report.h"
#include "refusal.h"

struct remat_compiled {
    struct remat_handle handle;
    const remat_compile_options *options; /* during the call alone */
    const remat_graph_builder *graph;     /* the same */
    struct remat_asked asked;
    struct remat_globs explain;
    struct remat_request request;
    struct remat_planned planned;
    struct remat_report report;
    struct remat_refused refused;
    bool is_refused;         /* it says what needs least */
    struct remat_text lines; /* after the message of a failure */
    const void *data;
    size_t bytes;
};

/* REMAT_ERROR_USAGE: there is no plan. */
remat_status remat_check_planned(remat_context *ctx, const remat_compiled *compiled);

#endif
