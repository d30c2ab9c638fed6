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

static uint64_t mix(uint64_t state) /* splitmix64 */
{
    uint64_t z = state + UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

#define HIDDEN     644245094u  /* 0.15 * 2^32 */
#define BY_MASK    3435973836u /* 0.8 * 2^32 */
#define BY_ANOTHER 3865470566u /* 0.9 * 2^32 */
#define IGNORED    (-100)

/* The element to hide in the row from `first`; its end where the draw hides one already. */
static uint64_t forced_of_row(uint64_t seed, uint64_t first, uint64_t seq)
{
    for (uint64_t i = first; i < first + seq; i++)
        if ((uint32_t)mix(seed + i) < HIDDEN)
            return first + seq;
    return first + (mix(seed + first) >> 32) % seq;
}

void text_mask(uint64_t step, uint64_t batch, uint64_t seq, int64_t vocabulary, int32_t *ids,
               enum text_mask what)
{
    uint64_t seed = mix(step), forced = 0;
    for (uint64_t i = 0; i < batch * seq; i++) {
        uint64_t z = mix(seed + i);
        uint32_t kind = (uint32_t)(z >> 32);
        if (i % seq == 0)
            forced = forced_of_row(seed, i, seq);
        bool hidden = (uint32_t)z < HIDDEN || i == forced;
        if (what == TEXT_MASK_TARGETS)
            ids[i] = hidden ? ids[i] : IGNORED;
        else if (hidden && kind < BY_MASK)
            ids[i] = (int32_t)(vocabulary - 1);
        else if (hidden && kind < BY_ANOTHER)
            ids[i] = (int32_t)(mix(z) % (uint64_t)vocabulary);
    }
}
