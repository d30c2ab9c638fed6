/* SPDX-License-Identifier: Apache-2.0 */
/* The name that was meant: of those of the word's family, the one with the most of its numbers;
 * then one that is a typing error away, one that is in the word or begins with it, one of the
 * family. */
#include "suggest.h"

#include <assert.h>
#include <ctype.h>
#include <stdlib.h>
#include <strings.h>

enum {
    WORD_MOST = 63,   /* longer words are not compared */
    PART_LEAST = 3,   /* shorter ones say nothing */
    NUMBERS_MOST = 8, /* of a word; more are not compared */
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

struct numbers {
    uint32_t count;
    double items[NUMBERS_MOST];
};

/* "1.5b" is 1.5e9, "774m" 774e6. */
static struct numbers numbers_of(const char *word)
{
    struct numbers out = {0};
    while (*(word += strcspn(word, "0123456789")) && out.count < NUMBERS_MOST) {
        char *end;
        double value = strtod(word, &end);
        bool is_unit = *end && !isalnum((unsigned char)end[1]);
        if (is_unit && tolower((unsigned char)*end) == 'm')
            value *= 1e6;
        if (is_unit && tolower((unsigned char)*end) == 'b')
            value *= 1e9;
        out.items[out.count++] = value;
        word = end;
    }
    return out;
}

/* Counts of parameters are rounded in names: 1558m is 1.5b. */
static bool is_same_number(double a, double b)
{
    return a == b || (a >= 1e6 && b >= 1e6 && a < 1.05 * b && b < 1.05 * a);
}

/* Numbers of `candidate` that `word` has. */
static uint32_t common_numbers(const struct numbers *word, const struct numbers *candidate)
{
    uint32_t common = 0;
    for (uint32_t j = 0; j < candidate->count; j++) {
        uint32_t i = 0;
        while (i < word->count && !is_same_number(word->items[i], candidate->items[j]))
            i++;
        common += i < word->count;
    }
    return common;
}

static bool is_one_run(char a, char b)
{
    return (isalpha((unsigned char)a) && isalpha((unsigned char)b)) ||
           (isdigit((unsigned char)a) && isdigit((unsigned char)b));
}

/* The word has what `candidate` begins with: its letters, or what comes before punctuation where
 * these are few, such as "h100". */
static bool is_of_family(const char *word, const char *candidate)
{
    size_t length = 0;
    while (isalpha((unsigned char)candidate[length]))
        length++;
    if (length < PART_LEAST)
        length = strcspn(candidate, "-_./");
    for (const char *at = word; length >= PART_LEAST && *at; at++)
        if (strncasecmp(at, candidate, length) == 0 && !is_one_run(at[length - 1], at[length]) &&
            (at == word || !is_one_run(at[-1], *at)))
            return true;
    return false;
}

/* Smaller is nearer; INT32_MAX: it cannot be meant. In a typing error a number that the word lacks
 * counts as an edit more. */
static int32_t distance_of(const char *word, const char *candidate)
{
    enum { COMMON_NUMBER = -1000, WHOLE = 200, FAMILY = 300 };
    const struct folded a = fold(word), b = fold(candidate);
    const struct numbers of_word = numbers_of(word), of_candidate = numbers_of(candidate);
    if (strlen(word) > WORD_MOST)
        return INT32_MAX;
    uint32_t common = common_numbers(&of_word, &of_candidate);
    uint32_t edits = edit_distance(&a, &b), missing = of_candidate.count - common;
    bool is_family = is_of_family(word, candidate);
    int32_t first = is_family ? (int32_t)common * COMMON_NUMBER : 0;
    if (edits + missing <= 1 + a.length / 4)
        return first + (int32_t)(edits + missing);
    if (a.length >= PART_LEAST && strncmp(a.text, b.text, a.length) == 0)
        return first + WHOLE - (int32_t)a.length;
    if (b.length > PART_LEAST && strstr(a.text, b.text))
        return first + WHOLE - (int32_t)b.length;
    return is_family ? first + FAMILY + (int32_t)edits : INT32_MAX;
}

uint32_t remat_nearest(const char *word, remat_name_at name, const void *user, uint32_t count)
{
    assert(word && (name || count == 0));
    int32_t least = INT32_MAX;
    uint32_t nearest = count;
    for (uint32_t i = 0; i < count; i++) {
        int32_t distance = distance_of(word, name(user, i));
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
