/* Training data: a byte of a text is a token id.
 *
 * Row b of step s (both from 0) starts at byte ((s * batch + b) * seq) modulo the text's length and
 * wraps; its targets are the bytes one further on. tests/peers/torch_gpt2.py has the same rule. */
#ifndef REMAT_TOOLS_RUN_TEXT_H
#define REMAT_TOOLS_RUN_TEXT_H

#include "cli.h"

struct text {
    const unsigned char *bytes;
    uint64_t length;
};

/* Reads the file into the arena; each byte must be below `vocabulary`. */
remat_status text_read(remat_context *ctx, struct remat_arena *arena, const char *path,
                       int64_t vocabulary, struct text *out);
void text_window(const struct text *text, uint64_t step, uint64_t batch, uint64_t seq,
                 int32_t *tokens, int32_t *targets);

#endif
