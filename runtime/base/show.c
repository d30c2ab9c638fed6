/* SPDX-License-Identifier: Apache-2.0 */
/* Text that others wrote, as people are shown it: a terminal obeys control characters, so none
 * reaches one. What is printable stays as it is, backslashes too, so showing twice changes
 * nothing, and a message may quote another. */
#include "show.h"

#include <assert.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* The code point of the UTF-8 sequence at `text`, which has `left` bytes; *length 0: it is none. */
static uint32_t decode(const unsigned char *text, size_t left, uint32_t *length)
{
    unsigned char first = *text;
    uint32_t count = first < 0x80 ? 1 : first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
    uint32_t code = count == 1 ? first : first & (0x7fu >> count);
    *length = 0;
    if ((first >= 0x80 && first < 0xc2) || first > 0xf4 || left < count)
        return 0;
    for (uint32_t k = 1; k < count; k++) {
        if ((text[k] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (text[k] & 0x3f);
    }
    bool overlong = (count == 3 && code < 0x800) || (count == 4 && code < 0x10000);
    if (overlong || (code >= 0xd800 && code < 0xe000) || code > 0x10ffff)
        return 0;
    *length = count;
    return code;
}

/* C0, DEL and C1; ends of lines and paragraphs; embeddings, overrides and isolates of direction. */
static bool is_control(uint32_t code)
{
    return code < 0x20 || (code >= 0x7f && code < 0xa0) || (code >= 0x2028 && code <= 0x202e) ||
           (code >= 0x2066 && code <= 0x2069);
}

uint32_t remat_printable(const char *text, size_t left)
{
    uint32_t length, code = decode((const unsigned char *)text, left, &length);
    return is_control(code) ? 0 : length;
}

uint32_t remat_show(const char **text, char out[REMAT_SHOWN_BYTES])
{
    const unsigned char *at = (const unsigned char *)*text;
    uint32_t length, code = decode(at, strnlen(*text, 4), &length);
    if (*at == 0) {
        *out = 0;
        return 0;
    }
    *text += length ? length : 1;
    if (length && !is_control(code)) {
        memcpy(out, at, length);
        out[length] = 0;
        return length;
    }
    static const char named[] = "\n\r\t", letters[] = "nrt";
    const char *found = length == 1 ? strchr(named, (int)code) : NULL;
    if (found)
        return (uint32_t)snprintf(out, REMAT_SHOWN_BYTES, "\\%c", letters[found - named]);
    return (uint32_t)snprintf(out, REMAT_SHOWN_BYTES, length ? "\\u%04x" : "\\x%02x",
                              length ? code : *at);
}

void remat_show_text(char *out, size_t bytes, const char *text)
{
    assert(bytes > 0);
    char shown[REMAT_SHOWN_BYTES];
    size_t count = 0;
    for (uint32_t length; (length = remat_show(&text, shown)) && count + length < bytes;
         count += length)
        memcpy(out + count, shown, length);
    out[count] = 0;
}
