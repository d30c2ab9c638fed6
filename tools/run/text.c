#include "text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

static remat_status read_all(remat_context *ctx, const char *path, FILE *file, struct text *out)
{
    uint64_t capacity = 0;
    for (;;) {
        if (out->length == capacity) {
            capacity = capacity ? 2 * capacity : 1u << 16;
            unsigned char *bytes = realloc(out->bytes, capacity);
            if (!bytes)
                return cli_error(ctx, REMAT_ERROR_MEMORY, "%s: out of memory", path);
            out->bytes = bytes;
        }
        uint64_t count = fread(out->bytes + out->length, 1, capacity - out->length, file);
        if (ferror(file))
            return cli_error(ctx, REMAT_ERROR_IO, "%s: %s", path, strerror(errno));
        if (count == 0)
            return REMAT_OK;
        out->length += count;
    }
}

remat_status text_read(remat_context *ctx, const char *path, int64_t vocabulary, struct text *out)
{
    remat_status st = REMAT_OK;
    FILE *file = fopen(path, "rb");
    if (!file)
        RUN_FAIL(ctx, REMAT_ERROR_IO, "%s: %s", path, strerror(errno));
    RUN_TRY(read_all(ctx, path, file, out));
    if (out->length == 0)
        RUN_FAIL(ctx, REMAT_ERROR_INVALID, "%s: the text is empty", path);
    for (uint64_t i = 0; i < out->length && vocabulary < 256; i++)
        if (out->bytes[i] >= vocabulary)
            RUN_FAIL(ctx, REMAT_ERROR_INVALID,
                     "%s: byte %llu is %d, beyond the model's vocabulary of %lld", path,
                     (unsigned long long)i, out->bytes[i], (long long)vocabulary);
fail:
    if (file)
        fclose(file);
    return st;
}

void text_release(struct text *text)
{
    free(text->bytes);
    *text = (struct text){0};
}

void text_window(const struct text *text, uint64_t window, uint64_t batch, uint64_t seq,
                 uint64_t offset, uint64_t count, int32_t *ids)
{
    for (uint64_t b = 0; b < batch; b++) {
        uint64_t start = ((window * batch + b) * seq + offset) % text->length;
        for (uint64_t t = 0; t < count; t++)
            ids[b * count + t] = text->bytes[(start + t) % text->length];
    }
}
