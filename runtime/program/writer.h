/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by writing a graph and writing a plan: the builder, text written once, and the
 * container. */
#ifndef REMAT_WRITER_H
#define REMAT_WRITER_H

#include "reader.h"

struct remat_writer_text;

struct remat_writer {
    remat_context *ctx;
    struct remat_arena *scratch;
    struct remat_fb_builder *builder;
    struct remat_writer_text *texts; /* hash table, capacity a power of two */
    size_t text_count, text_capacity;
};

/* Writes the whole file and ends with remat_fb_finish_*. */
typedef remat_status remat_write_function(struct remat_writer *writer, const void *what,
                                          enum remat_fb_result *result, const void **data,
                                          size_t *bytes);

/* Builds the file and copies it, container included, into `arena`. */
remat_status remat_writer_run(remat_context *ctx, const char *identifier,
                              remat_write_function *function, const void *what,
                              struct remat_arena *arena, const void **out_data, size_t *out_bytes);

/* Nothing for NULL and "". REMAT_ERROR_INVALID: text that no reader accepts (remat_reader_text). */
remat_status remat_writer_text(struct remat_writer *writer, const char *text,
                               struct remat_fb_text *out);

/* The same for remat_reader_lines. */
remat_status remat_writer_lines(struct remat_writer *writer, const char *text,
                                struct remat_fb_text *out);

/* A vector of texts, or of lines; equal ones are written again. */
remat_status remat_writer_texts(struct remat_writer *writer, const char *const *texts,
                                uint32_t count, bool lines, struct remat_fb_tables *out);

/* Defines write_ITEMS, which writes a table of the schema for each of whole->items: the last
 * arguments are a block that fills `in` from `from` and goes to `fail` on error. */
#define REMAT_WRITE_TABLES(Table, Whole, Item, items, item_count, ...)                             \
    static remat_status write_##items(struct remat_writer *w, const Whole *whole,                  \
                                      struct remat_fb_tables *out)                                 \
    {                                                                                              \
        remat_status st = REMAT_OK;                                                                \
        uint32_t *ids;                                                                             \
        REMAT_TRY_NEW(w->scratch, ids, whole->item_count);                                         \
        for (uint32_t i = 0; i < whole->item_count; i++) {                                         \
            const Item *from = &whole->items[i];                                                   \
            struct remat_fb_##Table in = {0};                                                      \
            __VA_ARGS__                                                                            \
            ids[i] = remat_fb_write_##Table(w->builder, &in);                                      \
        }                                                                                          \
        *out = (struct remat_fb_tables){ids, whole->item_count};                                   \
    fail:                                                                                          \
        return st;                                                                                 \
    }

#endif
