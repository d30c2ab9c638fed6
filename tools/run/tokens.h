/* SPDX-License-Identifier: Apache-2.0 */
/* Files of token ids, little endian, as nanoGPT and llm.c write them:
 *
 *     nanoGPT   uint16 ids and nothing else; uint32 where a vocabulary of more than 65536 needs it
 *     llm.c     256 int32, of which the first three are a magic number, a version and the number of
 *               ids, then the ids: uint16 after 20240520, 1; uint32 after 20240801, 7
 *
 * The files are untrusted: sizes are checked when one is opened, ids when they are read. */
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
 * another kind, or looks as if its ids had another size. */
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
