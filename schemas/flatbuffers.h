/* SPDX-License-Identifier: Apache-2.0 */
/* The official FlatBuffers library with a plain C interface. Nothing here throws, prints or aborts.
 *
 * Reading: remat_fb_open_* verifies the structure of the bytes once (pointers in bounds, alignment,
 * strings terminated) and nothing else: numbers, indices and text are as the file has them. After
 * that remat_fb_read_NAMESPACE_TABLE fetches one table into a struct that points into the bytes.
 * The read half needs no C++ library and allocates nothing.
 *
 * Writing: a builder grows in memory that its caller provides. When there is none, or the file
 * would be too large, calls do nothing and remat_fb_finish_* says so. Children are written before
 * parents; a table or string is known by the number that its write call returns, 0 being none. */
#ifndef REMAT_FLATBUFFERS_H
#define REMAT_FLATBUFFERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#define REMAT_FB_BYTES_MAX ((size_t)INT32_MAX - 1)
#define REMAT_FB_ALIGNMENT 8 /* of the bytes that are opened */

enum remat_fb_result {
    REMAT_FB_OK,
    REMAT_FB_MALFORMED,  /* out of bounds, misaligned, unterminated, too deep or too many tables */
    REMAT_FB_IDENTIFIER, /* bytes 4 ... 7 are not the format's */
    REMAT_FB_SIZE,       /* fewer than 8 or more than REMAT_FB_BYTES_MAX bytes */
    REMAT_FB_UNALIGNED,  /* the memory, not the file */
    REMAT_FB_MEMORY,     /* writing: there is none */
};

struct remat_fb_text { /* reading: data NULL when the file has none; writing: only `id` counts */
    const char *data;
    uint32_t length;
    uint32_t id; /* from remat_fb_write_text */
};
struct remat_fb_array { /* of scalars or structs; as read, data may have any alignment */
    const void *data;
    uint32_t count;
};
struct remat_fb_tables { /* reading: opaque; writing: uint32_t ids from write calls */
    const void *data;
    uint32_t count;
};

struct remat_fb_update {
    int32_t state, value;
};
struct remat_fb_instruction {
    uint16_t opcode, operand, a, b, c, reserved;
    float immediate;
};
struct remat_fb_cuda_launch {
    uint32_t kernel, blocks, word_begin, word_end;
};

/* struct remat_fb_graph_Value, ... */
#define FIELD(type, name) type name;
#define TEXT(name)        struct remat_fb_text name;
#define ARRAY(type, name) struct remat_fb_array name;
#define TABLES(name)      struct remat_fb_tables name;
#define TABLE(space, Name, fields)                                                                 \
    struct remat_fb_##space##_##Name {                                                             \
        fields                                                                                     \
    };
#include "tables.def"
#undef FIELD
#undef TEXT
#undef ARRAY
#undef TABLES
#undef TABLE

/* --- reading --- */
enum remat_fb_result remat_fb_open_graph(const void *data, size_t bytes,
                                         struct remat_fb_graph_Graph *out);
enum remat_fb_result remat_fb_open_program(const void *data, size_t bytes,
                                           struct remat_fb_program_Plan *out);

/* remat_fb_read_graph_Value(values, i, &out), ...; i < tables.count. */
#define TABLE(space, Name, fields)                                                                 \
    void remat_fb_read_##space##_##Name(struct remat_fb_tables tables, uint32_t i,                 \
                                        struct remat_fb_##space##_##Name *out);
#include "tables.def"
#undef TABLE
void remat_fb_read_text(struct remat_fb_tables strings, uint32_t i, struct remat_fb_text *out);

/* Elements of an array as read; i < array.count. */
#define REMAT_FB_ELEMENT(name, type)                                                               \
    static inline type remat_fb_##name(struct remat_fb_array array, uint32_t i)                    \
    {                                                                                              \
        type result;                                                                               \
        memcpy(&result, (const char *)array.data + (size_t)i * sizeof result, sizeof result);      \
        return result;                                                                             \
    }
REMAT_FB_ELEMENT(i32, int32_t)
REMAT_FB_ELEMENT(u8, uint8_t)
REMAT_FB_ELEMENT(u32, uint32_t)
REMAT_FB_ELEMENT(u64, uint64_t)
REMAT_FB_ELEMENT(i64, int64_t)
REMAT_FB_ELEMENT(f64, double)
#undef REMAT_FB_ELEMENT

/* --- writing --- */
struct remat_fb_builder;
/* As realloc, aligned to 16 bytes; bytes 0 frees. */
typedef void *remat_fb_reallocate(void *user, void *block, size_t bytes);
/* NULL: there is no memory. */
struct remat_fb_builder *remat_fb_begin(remat_fb_reallocate *reallocate, void *user);
void remat_fb_end(struct remat_fb_builder *builder); /* NULL: nothing */
uint32_t remat_fb_write_text(struct remat_fb_builder *builder, const char *text, size_t length);
/* remat_fb_write_graph_Value(builder, &value), ... */
#define TABLE(space, Name, fields)                                                                 \
    uint32_t remat_fb_write_##space##_##Name(struct remat_fb_builder *builder,                     \
                                             const struct remat_fb_##space##_##Name *table);
#include "tables.def"
#undef TABLE
/* `root` as returned for the Graph or Plan; the data are the builder's. */
enum remat_fb_result remat_fb_finish_graph(struct remat_fb_builder *builder, uint32_t root,
                                           const void **out_data, size_t *out_bytes);
enum remat_fb_result remat_fb_finish_program(struct remat_fb_builder *builder, uint32_t root,
                                             const void **out_data, size_t *out_bytes);

#ifdef __cplusplus
}
#endif
#endif
