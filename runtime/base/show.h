/* SPDX-License-Identifier: Apache-2.0 */
/* Text that others wrote. */
#ifndef REMAT_SHOW_H
#define REMAT_SHOW_H

#include <stddef.h>
#include <stdint.h>

/* Length of the UTF-8 sequence at `text`, which has `left` > 0 bytes; 0: it is none, or a control
 * character: C0, DEL, C1, U+2028 to U+202E (ends of lines, directional overrides), U+2066 to
 * U+2069. */
uint32_t remat_printable(const char *text, size_t left);
/* The next character of a zero-terminated text as people are shown it, which `text` then is past:
 * itself when it is printable, else as JSON writes it (\n, \u001b, \u0085), a byte that is not
 * UTF-8 as \x9b. Returns its length, 0 at the end. */
#define REMAT_SHOWN_BYTES 8
uint32_t remat_show(const char **text, char out[REMAT_SHOWN_BYTES]);
/* As much of `text` as fits into `bytes`, never a part of a character. */
void remat_show_text(char *out, size_t bytes, const char *text);

#endif
