/* SPDX-License-Identifier: Apache-2.0 */
/* Private to this folder: what handles hold. */
#ifndef REMAT_LIBRARY_H
#define REMAT_LIBRARY_H

#include "asked.h"
#include "explanation.h"
#include "handle.h"
#include "observe.h"
#include "planned.h"
#include "request.h"

#include <remat/compile.h>

struct remat_graph_builder {
    struct remat_handle handle;
    const char *label; /* starts messages: the file */
    uint32_t tag;      /* of ids of its values */
    struct remat_graph *graph;
    struct REMAT_LIST(remat_value) outputs;
    struct REMAT_LIST(struct remat_update) updates;
    struct remat_index constants; /* with data */
    bool finished;
};

struct remat_compile_options {
    struct remat_handle handle;
    struct remat_asked asked;
    struct remat_globs explain, print_after;
    bool advise, marks, cuda, print_plan, verbose;
    double begin_s, limit_s;         /* of the time limit; 0: there is none */
    remat_is_cancelled is_cancelled; /* NULL: never */
    void *user;
    remat_show_text show; /* NULL: nothing is shown */
    void *show_user;
    remat_make_adapters adapt; /* NULL: nobody can */
    void *adapt_user;
};

/* --- options.c --- */

/* A request for the graph, which is copied, in the handle's arena, where `asked` is of the options,
 * too. With the options' observers, and callbacks from option_watch.c. */
remat_status remat_read_options(struct remat_handle *handle, const remat_compile_options *options,
                                const remat_graph_builder *graph, struct remat_asked *asked,
                                struct remat_request *out);

/* --- option_watch.c --- */

/* Has searches ended by the options' time limit or cancellation, if they have one. `plans`: a plan
 * is lowered and written after the search. In the request's arena. */
void remat_watch_request(const remat_compile_options *options, bool plans,
                         struct remat_request *request);
/* Whether it has been cancelled. */
bool remat_is_ended(const struct remat_request *request);
double remat_now_s(void);

/* --- compiled.c --- */

/* Starts the message of REMAT_ERROR_INVALID, which it returns, with the graph's label, as what is
 * wrong with a graph is found in its file. */
remat_status remat_name_graph(remat_context *ctx, const char *label);
const struct remat_planned *remat_compiled_planned(const remat_compiled *compiled);

/* --- trade.c --- */

struct remat_report;
void remat_trade_describe(const remat_trade *trade, struct remat_report *report);

/* --- graph_builder.c --- */

/* REMAT_ERROR_USAGE: it is no graph that is finished. */
remat_status remat_check_finished(remat_context *ctx, const remat_graph_builder *graph);

#endif
