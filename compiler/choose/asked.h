/* SPDX-License-Identifier: Apache-2.0 */
/* Requests: options by the names of remat-compile, with their values as typed. */
#ifndef REMAT_ASKED_H
#define REMAT_ASKED_H

#include "program.h"

/* In the order in which they were given; a flag has the value "", and no other option. A list
 * (REMAT_LIST). */
struct remat_asked {
    struct remat_setting *items;
    size_t count, capacity;
    const char *model; /* the graph's name in messages: its file */
};

/* The options by number; NULL: no more. */
const char *remat_asked_name(size_t number);
/* REMAT_ERROR_USAGE: the option, which there is, cannot have the value. */
remat_status remat_asked_check(remat_context *ctx, const char *name, const char *value);
bool remat_asked_is_flag(const char *name);
bool remat_asked_repeats(const char *name); /* given several times, each counts */

bool remat_asks(const struct remat_asked *asked, const char *name);
const char *remat_asked_text(const struct remat_asked *asked, const char *name,
                             const char *otherwise);
/* The value has been checked. */
int64_t remat_asked_integer(const struct remat_asked *asked, const char *name, int64_t otherwise);
/* Leaves *bytes alone when absent. `capacity`: what "N%" refers to; 0: not known, then N% fails. */
remat_status remat_asked_size(remat_context *ctx, const struct remat_asked *asked, const char *name,
                              uint64_t capacity, uint64_t *bytes);

#endif
