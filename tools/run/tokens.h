/* SPDX-License-Identifier: Apache-2.0 */
/* Files of token ids, little endian, as nanoGPT and llm.c write them:
 *
 *     nanoGPT   uint16 ids and nothing else; uint32 where a vocabulary of more than 65536 needs it
 *     llm.c     256 int32, of which the first three are a magic number, a version and the number of
 *               ids, then the ids: uint16 after 20240520, 1; uint32 after 20240801, 7
 *
 * The files are untrusted: sizes are checked when one is opened, ids when they are read.
 *
 * A plain file has no mark, so what is none is known by the mark of another format (known_file.h)
 * and by what it has in the beginning, the middle and the end, of 4 KiB each: a text, ids of twice
 * the size, ids that the model lacks. A good file is not refused by chance. With ids drawn evenly
 * from a vocabulary, of whatever size, it is a text less often than
 *     2^-100, for 128 bytes of ASCII (of the ids at most 0.31 are two such bytes), and
 *     2^-88, for 512 bytes of any text (of the bytes at most 227 / 256).
 * That each of 64 ids that are not 0 has a 0 beside it, and no id on that side is another, is less
 * probable than 2^-64, however many of the ids are 0. */
#ifndef REMAT_TOOLS_RUN_TOKENS_H
#define REMAT_TOOLS_RUN_TOKENS_H

#include "run.h"

struct token_file { /* zero-initialise */
    FILE *file;
    const char *path;     /* borrowed */
    uint64_t bytes;       /* of the file */
    uint64_t begin_bytes; /* where the ids begin */
    uint64_t id_bytes;    /* 2 or 4 */
    uint64_t count;       /* of ids */
};

/* `vocabulary`: ids are below it, INT64_MAX: unknown. REMAT_ERROR_INVALID: it is cut off, empty, of
 * another kind, looks as if its ids had another size, or has others in the places above. */
remat_status token_file_open(remat_context *ctx, const char *path, int64_t vocabulary,
                             struct token_file *out);
void token_file_close(struct token_file *file); /* harmless when closed */

/* Whether an id of the file's size could be outside the vocabulary. */
bool token_file_may_exceed(const struct token_file *file, int64_t vocabulary);
/* Ids [first, first + count), which the file has. REMAT_ERROR_INVALID names one that is outside the
 * vocabulary. Threads may share the file. */
remat_status token_file_read(remat_context *ctx, const struct token_file *file, int64_t vocabulary,
                             uint64_t first, uint64_t count, int32_t *ids);

#endif
