#include "text.h"

remat_status text_read(remat_context *ctx, struct remat_arena *arena, const char *path,
                       int64_t vocabulary, struct text *out)
{
    remat_status st = REMAT_OK;
    char *data;
    size_t bytes;
    REMAT_TRY(remat_file_read(ctx, path, arena, &data, &bytes));
    if (bytes == 0)
        REMAT_FAIL(ctx, REMAT_ERROR_INVALID, "%s: the text is empty", path);
    *out = (struct text){(const unsigned char *)data, bytes};
    for (uint64_t i = 0; i < bytes && vocabulary < 256; i++)
        if (out->bytes[i] >= vocabulary)
            REMAT_FAIL(ctx, REMAT_ERROR_INVALID,
                       "%s: byte %llu is %d, beyond the model's vocabulary of %lld", path,
                       (unsigned long long)i, out->bytes[i], (long long)vocabulary);
fail:
    return st;
}

void text_window(const struct text *text, uint64_t step, uint64_t batch, uint64_t seq,
                 int32_t *tokens, int32_t *targets)
{
    for (uint64_t b = 0; b < batch; b++) {
        uint64_t start = (step * batch + b) * seq % text->length;
        for (uint64_t t = 0; t < seq; t++) {
            tokens[b * seq + t] = text->bytes[(start + t) % text->length];
            targets[b * seq + t] = text->bytes[(start + t + 1) % text->length];
        }
    }
}
