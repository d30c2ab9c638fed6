/* SPDX-License-Identifier: Apache-2.0 */
/* Texts, of which a byte is a token id, or, without a text, ids that are drawn; and what is hidden
 * of them from a model that is to find it.
 *
 * Masked (BERT): element i of a step's rows, from 0, step n counted from 1, draws
 *     z = mix(mix(n) + i),  a = z mod 2^32,  b = z / 2^32,
 * mix being a step of splitmix64 from a state of that value. Where a < 0.15 * 2^32 the token is
 * hidden: the target stays, and the token becomes the last id (which no UTF-8 text has) where
 * b < 0.8 * 2^32, else mix(z) modulo the vocabulary where b < 0.9 * 2^32, else stays. Elsewhere the
 * token stays and the target is -100. In a row without a hidden token its element b modulo seq is
 * hidden too, b being that of the row's first element: a loss needs a target.
 *
 * tests/peers/feed.py has the same rules. */
#ifndef REMAT_TOOLS_RUN_TEXT_H
#define REMAT_TOOLS_RUN_TEXT_H

#include "run.h"

/* A regular file, of which only what a window has is read, through a few KiB on the stack: a text
 * of any size takes no memory from the budget, and one that is cut off meanwhile is an error.
 * (Pages of a mapping would be the process's own, and reading past the new end a SIGBUS.) */
struct text {         /* zero-initialise */
    FILE *file;       /* NULL: ids are drawn */
    const char *path; /* borrowed */
    uint64_t length;
    int64_t vocabulary;
};

/* Ids [first, first + count) of those that are drawn, by Zipf's law, to time steps with as many
 * distinct ones as a text has: id r of a vocabulary of V with probability
 * log((r + 2) / (r + 1)) / log(V + 1). */
void text_zipf(uint64_t first, uint64_t count, int64_t vocabulary, int32_t *ids);

/* 2^20 of them instead of a file. */
void text_draw(int64_t vocabulary, struct text *out);
/* Whatever is read of it later must be below `vocabulary`. */
remat_status text_open(remat_context *ctx, const char *path, int64_t vocabulary, struct text *out);
void text_release(struct text *text); /* harmless when released */

/* Ids [begin, begin + count), which lie before its end. */
remat_status text_read(remat_context *ctx, const struct text *text, uint64_t begin, uint64_t count,
                       int32_t *ids);

/* Masks the ids of all rows of a step, as its tokens or as its targets. */
enum text_mask { TEXT_MASK_TOKENS, TEXT_MASK_TARGETS };
void text_mask(uint64_t step, uint64_t batch, uint64_t seq, int64_t vocabulary, int32_t *ids,
               enum text_mask what);

#endif
