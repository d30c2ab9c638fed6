/* SPDX-License-Identifier: Apache-2.0 */
/* Training data: a byte of a text is a token id, or, without a text, ids are drawn.
 *
 * Row b of window w (both from 0) starts at byte ((w * batch + b) * seq) modulo the text's length
 * and wraps. Step n counts from 1.
 *
 * Next bytes: a step's tokens are window n - 1, its targets the bytes one further on. With an
 * encoder, which reads "source", the source is rows of source_seq bytes from where those of window
 * n - 1 start, and the tokens are window n: the window after is predicted from this one.
 *
 * Masked (BERT): tokens and targets are window n - 1. Element i of it, from 0, draws
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
 * (Pages of a mapping would be the process's own, and reading behind the new end a SIGBUS.) */
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

/* Reads the first `end` bytes if one of them could be beyond the vocabulary: the error comes before
 * the first step. */
remat_status text_check(remat_context *ctx, const struct text *text, uint64_t end);

/* `count` ids of each row of a window, from `offset` ids after its start. */
remat_status text_window(remat_context *ctx, const struct text *text, uint64_t window,
                         uint64_t batch, uint64_t seq, uint64_t offset, uint64_t count,
                         int32_t *ids);

/* Masks the ids of a whole window, as the tokens or as the targets of step `step`. */
enum text_mask { TEXT_MASK_TOKENS, TEXT_MASK_TARGETS };
void text_mask(uint64_t step, uint64_t batch, uint64_t seq, int64_t vocabulary, int32_t *ids,
               enum text_mask what);

#endif
