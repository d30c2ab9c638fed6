/* SPDX-License-Identifier: Apache-2.0 */
/* The name that was meant, for messages about one that is unknown. */
#ifndef REMAT_SUGGEST_H
#define REMAT_SUGGEST_H

#include "base.h"

struct remat_suggestion {
    char text[96];
};

/* ": did you mean '`prefix`NAME'?" with the name that is nearest to `word`, if one is near enough
 * to be meant, else "". */
struct remat_suggestion remat_suggest(const char *prefix, const char *word,
                                      const char *(*name)(const void *user, uint32_t i),
                                      const void *user, uint32_t count);

#endif
