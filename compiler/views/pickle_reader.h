/* SPDX-License-Identifier: Apache-2.0 */
/* Python's pickle format: data alone. Nothing is executed: a pickle that names a class or function,
 * or has any opcode that plain data does not need, is refused. */
#ifndef REMAT_DUMP_PICKLE_READER_H
#define REMAT_DUMP_PICKLE_READER_H

#include "base.h"

enum pickle_kind {
    PICKLE_NONE,
    PICKLE_BOOLEAN,
    PICKLE_INTEGER,
    PICKLE_REAL, /* whose value is not kept */
    PICKLE_TEXT,
    PICKLE_LIST, /* or a tuple */
    PICKLE_DICT
};

/* A value may be in several places, also in itself. */
struct pickle_value {
    uint8_t kind;   /* enum pickle_kind */
    uint8_t mark;   /* the reader's user's; begins as 0 */
    int64_t number; /* of an integer or boolean */
    const char *text;
    size_t length;          /* of the text, which may hold zeros */
    size_t count, capacity; /* of items; of a dict keys and values take turns */
    struct pickle_value **items;
};

/* `name` begins every message. REMAT_ERROR_INVALID: no such pickle; the message names the byte.
 * Memory and time are proportional to `bytes`. */
remat_status pickle_read(remat_context *ctx, const char *name, const void *data, size_t bytes,
                         struct remat_arena *arena, struct pickle_value **out);

/* The last value that a dict has under a key; NULL: none, or it is no dict. */
struct pickle_value *pickle_get(const struct pickle_value *dict, const char *key);

#endif
