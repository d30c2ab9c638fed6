/* SPDX-License-Identifier: Apache-2.0 */
/* A compilation as it goes on, as text: the graph after passes, searches, and times. */
#ifndef REMAT_OBSERVE_H
#define REMAT_OBSERVE_H

#include "compile.h"
#include "explanation.h"

struct remat_observer {
    remat_context *ctx;
    struct remat_globs passes; /* their names, whose graphs are shown */
    bool search, times;        /* are shown */
    bool search_begun;         /* something of a search has been shown */
    /* `time`: the text is a line about time. */
    void (*show)(void *user, bool time, const char *text);
    void *user;
};

/* Has `observer`, which outlives the compilation, called. */
void remat_observe(struct remat_observer *observer, struct remat_compile_settings *settings);
/* REMAT_ERROR_USAGE: there is no pass of this name, which lists all. */
remat_status remat_observe_check(remat_context *ctx, struct remat_arena *arena, const char *pass);

#endif
