/* SPDX-License-Identifier: Apache-2.0 */
/* Files of other formats, which people give for token ids or for weights, by their first bytes.
 *
 * Token ids may be any bytes, so a good file could begin like another format. Each row fixes at
 * least 32 bits, and all rows together refuse fewer than one of 2^28 files of ids drawn evenly from
 * a vocabulary, of whatever size (tests/unit/run/test_known_file.c counts).
 */
#ifndef REMAT_TOOLS_RUN_KNOWN_FILE_H
#define REMAT_TOOLS_RUN_KNOWN_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct known_file {
    uint32_t offset;
    const char *pattern; /* nibbles in hexadecimal, '?' any; blanks separate */
    const char *name;
    const char *for_ids, *for_weights; /* what to do; NULL: it is the format */
};
extern const struct known_file known_files[];
extern const size_t known_file_count;

#define KNOWN_FILE_BYTES 512 /* of a file's beginning that rows look at */
/* NULL: of no known format. */
const struct known_file *known_file_of(const unsigned char *begin, uint64_t bytes);

/* Whether there are only characters of a text in an encoding of bytes: ASCII, or UTF-8 and other
 * extensions of ASCII with bytes from 128 on. */
bool is_ascii(const unsigned char *data, uint64_t bytes);
bool is_text(const unsigned char *data, uint64_t bytes);

#endif
