/* SPDX-License-Identifier: Apache-2.0 */
/* A graph, and what a user asks for: the rest of a plan is chosen here. */
#ifndef REMAT_REQUEST_H
#define REMAT_REQUEST_H

#include "asked.h"
#include "compile.h"

struct remat_sizes;
struct remat_divisions;
struct remat_division_trial;

/* The size or division that is looked at now. */
struct remat_attempt {
    const struct remat_sizes *sizes; /* among which `value` is; NULL: there is one */
    uint32_t value;
    bool chosen;                             /* it is the one that the search for sizes chose */
    const struct remat_divisions *divisions; /* among which `division` is; NULL: there is one */
    const struct remat_division_trial *division;
};

struct remat_request {
    remat_context *ctx;
    struct remat_arena *arena; /* of what is kept */
    const struct remat_asked *asked;
    const struct remat_graph *graph; /* with its symbols */
    struct remat_compile_settings settings;
    /* Callbacks, each of which may be NULL: */
    bool (*is_over)(void *user); /* true ends the choice with the best so far */
    void (*look)(void *user, const struct remat_attempt *attempt);
    void *user;
};

static inline bool remat_request_is_over(const struct remat_request *r)
{
    return r->is_over && r->is_over(r->user);
}

static inline void remat_request_look(const struct remat_request *r, struct remat_attempt attempt)
{
    if (r->look)
        r->look(r->user, &attempt);
}

#endif
