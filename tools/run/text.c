/* SPDX-License-Identifier: Apache-2.0 */
#include "text.h"

#include "file_part.h"
#include "known_file.h"
#include "shuffle.h"
#include "tool.h"

#include <assert.h>
#include <math.h>

#define PART_BYTES 4096u
#define DRAWN      (UINT64_C(1) << 20)

void text_zipf(uint64_t first, uint64_t count, int64_t vocabulary, int32_t *ids)
{
    for (uint64_t i = 0; i < count; i++) {
        double uniform = (double)(mix(first + i) >> 11) * 0x1p-53;
        int64_t id = (int64_t)exp(uniform * log((double)vocabulary + 1)) - 1;
        ids[i] = (int32_t)(id < vocabulary ? id : vocabulary - 1);
    }
}

void text_draw(int64_t vocabulary, struct text *out)
{
    *out = (struct text){.length = DRAWN, .vocabulary = vocabulary};
}

/* Bytes of any file are ids, so one of a known format is good, if perhaps not meant. */
static remat_status note_kind(remat_context *ctx, const struct text *text)
{
    unsigned char begin[KNOWN_FILE_BYTES];
    uint64_t bytes = text->length < sizeof begin ? text->length : sizeof begin;
    remat_status st = file_read_part(ctx, text->file, text->path, text->length, 0, begin, bytes);
    const struct known_file *known = st ? NULL : known_file_of(begin, bytes);
    if (known)
        cli_log(ctx, REMAT_SEVERITY_WARNING, "%s: no text: %s; the run is on its bytes", text->path,
                known->name);
    return st;
}

remat_status text_open(remat_context *ctx, const char *path, int64_t vocabulary, struct text *out)
{
    remat_status st = REMAT_OK;
    *out = (struct text){.path = path, .vocabulary = vocabulary};
    RUN_TRY(cli_open_file(ctx, path, &out->file, &out->length));
    if (out->length == 0)
        RUN_FAIL(ctx, REMAT_ERROR_INVALID, "%s: the text is empty", path);
    RUN_TRY(note_kind(ctx, out));
fail:
    return st;
}

void text_release(struct text *text)
{
    if (text->file)
        fclose(text->file);
    *text = (struct text){0};
}

static remat_status read_part(remat_context *ctx, const struct text *text, uint64_t begin,
                              uint64_t count, int32_t *ids)
{
    unsigned char part[PART_BYTES];
    remat_status st = file_read_part(ctx, text->file, text->path, text->length, begin, part, count);
    for (uint64_t i = 0; i < count && st == REMAT_OK; i++) {
        ids[i] = part[i];
        if (part[i] >= text->vocabulary)
            st = cli_error(ctx, REMAT_ERROR_INVALID,
                           "%s: byte %llu is %d, beyond the model's vocabulary of %lld", text->path,
                           (unsigned long long)(begin + i), part[i], (long long)text->vocabulary);
    }
    return st;
}

remat_status text_read(remat_context *ctx, const struct text *text, uint64_t begin, uint64_t count,
                       int32_t *ids)
{
    assert(begin + count <= text->length);
    remat_status st = REMAT_OK;
    if (!text->file)
        text_zipf(begin, count, text->vocabulary, ids);
    for (uint64_t got; text->file && count; begin += got, ids += got, count -= got) {
        got = count < PART_BYTES ? count : PART_BYTES;
        RUN_TRY(read_part(ctx, text, begin, got, ids));
    }
fail:
    return st;
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
