/* SPDX-License-Identifier: Apache-2.0 */
/* Where the ids of a run come from, and in what order.
 *
 * Step n, counted from 1, of a plan with a batch of B reads rows (n - 1) B ... n B - 1.
 *
 * Of a text, row r begins at byte r * seq and goes on as far as it has to; after the end comes the
 * beginning. A source (of an encoder) begins there, and the tokens for the decoder B rows further
 * on: the window after is predicted from this one.
 *
 * Of token files, each is cut into sequences of source_seq + seq ids, from its beginning, the last
 * of which has an id after it for the last target; what is left at the end of a file is not read.
 * A masked model has no targets after its tokens. With S sequences in all files, in the order of
 * the files, row r is sequence shuffle(seed, r / S, S, r mod S), or r mod S where they are not
 * shuffled. So rows depend on seed and step alone, whatever the mesh, and an epoch has every
 * sequence once. */
#ifndef REMAT_TOOLS_RUN_DATA_H
#define REMAT_TOOLS_RUN_DATA_H

#include "model.h"
#include "text.h"
#include "tokens.h"

struct data { /* zero-initialise; one of the two */
    const struct model *model;
    struct text text;
    struct token_file *files;
    uint64_t *ends; /* by file: sequences in it and in those before it */
    uint32_t file_count;
};

/* Rows of a part of the data, that of a run or of its evaluation. */
struct rows {
    const struct data *data;
    uint64_t begin, count; /* the part: of a text bytes, of token files sequences */
    bool shuffled;
    uint64_t seed;
};

remat_status data_open_text(remat_context *ctx, const char *path, const struct model *model,
                            struct data *out);
/* Ids drawn from the whole vocabulary. */
remat_status data_draw(remat_context *ctx, const struct model *model, struct data *out);
/* REMAT_ERROR_INVALID: a file is none, or shorter than a sequence. */
remat_status data_open_tokens(remat_context *ctx, const char *const *paths, uint32_t count,
                              const struct model *model, struct data *out);
void data_release(struct data *data); /* harmless when released */

/* Hashes the sizes of all files and how each begins. */
remat_status data_hash(remat_context *ctx, const struct data *data, uint64_t *out);

struct rows data_rows(const struct data *data); /* all, in order */
/* Takes what `count` rows read from the end of `from`. REMAT_ERROR_USAGE: nothing is left. */
remat_status rows_hold_out(remat_context *ctx, uint64_t count, struct rows *from,
                           struct rows *held_out);

/* Whether the model has the ids of rows [begin, end): the error comes before the first step. Reads
 * them, or all of the part if that is less; nothing where no id can be outside the vocabulary. */
remat_status rows_check(remat_context *ctx, const struct rows *rows, uint64_t begin, uint64_t end);
/* `count` ids of a row from `offset` on. */
remat_status rows_read(remat_context *ctx, const struct rows *rows, uint64_t row, uint64_t offset,
                       uint64_t count, int32_t *ids);
/* Where in a row the decoder's tokens begin; without an encoder 0. */
uint64_t rows_tokens_offset(const struct rows *rows);

#endif
