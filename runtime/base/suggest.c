/* SPDX-License-Identifier: Apache-2.0 */
/* The name that was meant: the one with the least edit distance (Levenshtein) of those that are
 * similar, hold the word's beginning, are in it, or begin with the same part, such as "gpt2". */
#include "suggest.h"

#include <ctype.h>
#include <strings.h>

enum {
    WORD_MOST = 63, /* longer words are not compared */
    PART_LEAST = 3, /* shorter ones say nothing */
};

/* Lower case, without punctuation. */
struct folded {
    size_t length;
    char text[WORD_MOST + 1];
};

static struct folded fold(const char *word)
{
    struct folded out = {0};
    for (; *word && out.length < WORD_MOST; word++)
        if (isalnum((unsigned char)*word))
            out.text[out.length++] = (char)tolower((unsigned char)*word);
    return out;
}

static uint32_t edit_distance(const struct folded *a, const struct folded *b)
{
    uint32_t row[WORD_MOST + 1];
    for (uint32_t j = 0; j <= b->length; j++)
        row[j] = j;
    for (uint32_t i = 1; i <= a->length; i++) {
        uint32_t diagonal = row[0];
        row[0] = i;
        for (uint32_t j = 1; j <= b->length; j++) {
            uint32_t best = diagonal + (a->text[i - 1] != b->text[j - 1]);
            diagonal = row[j];
            best = best < row[j] + 1 ? best : row[j] + 1;
            row[j] = best < row[j - 1] + 1 ? best : row[j - 1] + 1;
        }
    }
    return row[b->length];
}

/* Up to the punctuation, both have the same. */
static bool is_of_family(const char *word, const char *candidate)
{
    size_t length = strcspn(word, "-_./");
    return length >= PART_LEAST && length == strcspn(candidate, "-_./") &&
           strncasecmp(word, candidate, length) == 0;
}

/* Another family counts as two edits. UINT32_MAX: it cannot be meant. */
static uint32_t distance_of(const char *word, const char *candidate)
{
    const struct folded a = fold(word), b = fold(candidate);
    if (strlen(word) > WORD_MOST)
        return UINT32_MAX;
    if (a.length >= PART_LEAST && strncmp(a.text, b.text, a.length) == 0)
        return a.length < b.length;
    uint32_t distance = edit_distance(&a, &b);
    if (is_of_family(word, candidate))
        return distance;
    bool is_in = b.length > PART_LEAST && strstr(a.text, b.text);
    return is_in || distance <= 1 + a.length / 4 ? distance + 2 : UINT32_MAX;
}

uint32_t remat_nearest(const char *word, remat_name_at name, const void *user, uint32_t count)
{
    uint32_t least = UINT32_MAX, nearest = count;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t distance = distance_of(word, name(user, i));
        if (distance < least) {
            least = distance;
            nearest = i;
        }
    }
    return nearest;
}

struct remat_suggestion remat_suggest(const char *prefix, const char *word, remat_name_at name,
                                      const void *user, uint32_t count)
{
    struct remat_suggestion suggestion = {""};
    uint32_t i = remat_nearest(word, name, user, count);
    if (i < count)
        snprintf(suggestion.text, sizeof suggestion.text, ": did you mean '%s%s'?", prefix,
                 name(user, i));
    return suggestion;
}
