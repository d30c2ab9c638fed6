/* Training data: a byte of a text is a token id.
 *
 * Row b of window s (both from 0) starts at byte ((s * batch + b) * seq) modulo the text's length
 * and wraps. A step's tokens are a window, its targets the bytes one further on: step n, from 1,
 * has window n - 1. With an encoder, which reads "source", step n has rows of source_seq bytes from
 * where those of window n - 1 start as its source, and window n as its tokens.
 * tests/peers/torch_gpt2.py has the same rule. */
#ifndef REMAT_TOOLS_RUN_TEXT_H
#define REMAT_TOOLS_RUN_TEXT_H

#include "run.h"

struct text { /* zero-initialise */
    unsigned char *bytes;
    uint64_t length;
};

/* Reads the file; each byte must be below `vocabulary`. */
remat_status text_read(remat_context *ctx, const char *path, int64_t vocabulary, struct text *out);
void text_release(struct text *text); /* harmless when released */

/* `count` ids of each row of a window, from `offset` bytes after its start. */
void text_window(const struct text *text, uint64_t window, uint64_t batch, uint64_t seq,
                 uint64_t offset, uint64_t count, int32_t *ids);

#endif
