/* SPDX-License-Identifier: Apache-2.0 */
/* The name that was meant: the one with the least edit distance (Levenshtein), case aside. */
#include "suggest.h"

#include <ctype.h>
#include <strings.h>

#define WORD_MOST 63 /* longer words are not compared */

static uint32_t edit_distance(const char *a, const char *b)
{
    uint32_t row[WORD_MOST + 1];
    size_t la = strlen(a), lb = strlen(b);
    if (la > WORD_MOST || lb > WORD_MOST)
        return UINT32_MAX;
    for (uint32_t j = 0; j <= lb; j++)
        row[j] = j;
    for (uint32_t i = 1; i <= la; i++) {
        uint32_t diagonal = row[0];
        row[0] = i;
        for (uint32_t j = 1; j <= lb; j++) {
            bool same = tolower((unsigned char)a[i - 1]) == tolower((unsigned char)b[j - 1]);
            uint32_t best = diagonal + !same;
            diagonal = row[j];
            best = best < row[j] + 1 ? best : row[j] + 1;
            row[j] = best < row[j - 1] + 1 ? best : row[j - 1] + 1;
        }
    }
    return row[lb];
}

struct remat_suggestion remat_suggest(const char *prefix, const char *word,
                                      const char *(*name)(const void *user, uint32_t i),
                                      const void *user, uint32_t count)
{
    struct remat_suggestion suggestion = {""};
    size_t length = strlen(word);
    uint32_t least = UINT32_MAX;
    for (uint32_t i = 0; i < count; i++) {
        const char *candidate = name(user, i);
        bool abbreviated = length >= 3 && strncasecmp(word, candidate, length) == 0;
        uint32_t distance = abbreviated ? 1 : edit_distance(word, candidate);
        if (distance >= least || distance > 1 + length / 4)
            continue;
        least = distance;
        snprintf(suggestion.text, sizeof suggestion.text, ": did you mean '%s%s'?", prefix,
                 candidate);
    }
    return suggestion;
}
