/* SPDX-License-Identifier: Apache-2.0 */
/* The name that was meant, for messages about one that is unknown. */
#ifndef REMAT_SUGGEST_H
#define REMAT_SUGGEST_H

#include "base.h"

typedef const char *(*remat_name_at)(const void *user, uint32_t i);

/* The index of the name that is nearest to `word`; `count`: none is near enough to be meant.
 * Case and punctuation do not count. */
uint32_t remat_nearest(const char *word, remat_name_at name, const void *user, uint32_t count);

struct remat_suggestion {
    char text[96];
};

/* ": did you mean '`prefix`NAME'?" with the nearest name, else "". */
struct remat_suggestion remat_suggest(const char *prefix, const char *word, remat_name_at name,
                                      const void *user, uint32_t count);

#endif
