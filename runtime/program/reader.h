/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by reading a graph and reading a plan: recognising the file by its bytes, the
 * container (docs/formats.md), versions, text, and a bound on what a hostile file can make of
 * sharing. */
#ifndef REMAT_READER_H
#define REMAT_READER_H

#include "base.h"
#include "flatbuffers.h"

#define REMAT_FORMAT_VERSION  2
#define REMAT_FEATURE_TENSORS 1u  /* of a plan: CUDA kernels with tensor_words */
#define REMAT_FEATURE_MESH    2u  /* of a plan: it is for several ranks */
#define REMAT_FEATURE_PARTS   8u  /* of a plan: ranks have parts of tensors */
#define REMAT_FEATURE_BLOCKS  16u /* of a plan: ranks have blocks of parts of tensors */
/* Marks a graph or a plan that readers without this feature would train as something else. */
#define REMAT_FEATURE_PLAN_ONLY 32u
#define REMAT_FEATURE_NUMBER    64u /* of a plan: the session writes the number of each run */
/* A graph or a plan: an optional operand is left out though a later one is there. */
#define REMAT_FEATURE_ABSENT    128u
#define REMAT_FEATURE_CONSTANTS 256u /* constants with data */
#define REMAT_CONTAINER_BYTES   32
#define REMAT_CONTAINER_MAGIC   "RMT\x89"
#define REMAT_GRAPH_IDENTIFIER  "RMG1"
#define REMAT_PLAN_IDENTIFIER   "RMP1"

struct remat_reader {
    remat_context *ctx;        /* borrowed, as are name and arena */
    const char *name;          /* starts every message */
    struct remat_arena *arena; /* holds the native structs */
    const void *data;          /* the FlatBuffer, copied into the arena: text points into it */
    size_t bytes;
    uint64_t unclaimed_bytes; /* of the FlatBuffer: see remat_reader_claim */
};

/* Recognises the file, checks the container and copies the FlatBuffer. `identifier` is the kind
 * that is expected; a graph may come without a container. */
remat_status remat_reader_open(remat_context *ctx, const char *name, const void *data, size_t bytes,
                               struct remat_arena *arena, const char *identifier,
                               struct remat_reader *out);

/* The message for a failed remat_fb_open_*; OK for REMAT_FB_OK. */
remat_status remat_reader_result(const struct remat_reader *reader, enum remat_fb_result result);

/* `known_features`: bits that may be required. */
remat_status remat_reader_versions(const struct remat_reader *reader, struct remat_fb_text producer,
                                   uint32_t format_version, uint32_t min_reader_version,
                                   uint64_t required_features, uint64_t known_features);

static inline uint64_t remat_plan_only_feature(const char *plan_only)
{
    return plan_only && *plan_only ? REMAT_FEATURE_PLAN_ONLY : 0;
}

/* Every array that is made native claims the bytes it has in the file. Without sharing the claims
 * fit the file, so native memory stays proportional to it; what shares its way past that is
 * refused. */
remat_status remat_reader_claim(struct remat_reader *reader, uint64_t count,
                                uint64_t element_bytes);
/* The least bytes of a table, with the slot that refers to it. */
#define REMAT_READER_TABLE_BYTES 8

/* The longest text that readers accept and writers write. Longer texts than SHARED are not shared:
 * checking what is shared takes time, too, so each use of such a text is claimed. */
#define REMAT_TEXT_BYTES_MAX    65535u
#define REMAT_TEXT_BYTES_SHARED 256u
/* The first byte that is not printable (remat_printable), "\n" aside if there are `lines`; NULL:
 * all are. */
const char *remat_text_fault(const char *text, size_t length, bool lines);

/* Text in UTF-8, all of it printable (remat_printable); "" when the file has none. `table` and
 * `index` locate it in the message: "values[3]". */
remat_status remat_reader_text(struct remat_reader *reader, struct remat_fb_text text,
                               const char *table, uint32_t index, const char **out);

/* Text of any length in lines; the only control character is "\n". */
remat_status remat_reader_lines(struct remat_reader *reader, struct remat_fb_text text,
                                const char *table, uint32_t index, const char **out);

/* Makes program->ITEMS and its count from the root's vector of tables. */
#define REMAT_READER_NEW_TABLES(reader, root, program, items, item_count)                          \
    do {                                                                                           \
        REMAT_TRY(remat_reader_claim((reader), (root)->items.count, REMAT_READER_TABLE_BYTES));    \
        REMAT_TRY_NEW((reader)->arena, (program)->items, (root)->items.count);                     \
        (program)->item_count = (root)->items.count;                                               \
    } while (0)

/* Puts the reader's name before the context's message; returns `status`. */
remat_status remat_reader_prefix(const struct remat_reader *reader, remat_status status);

#endif
