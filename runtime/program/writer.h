/* What writing a graph and writing a plan have in common: the block that the file is built in,
 * which doubles until the file fits, text written once, and the container. */
#ifndef REMAT_WRITER_H
#define REMAT_WRITER_H

#include "reader.h"

struct remat_writer_text;

struct remat_writer {
    remat_context *ctx;
    struct remat_arena *scratch; /* of this attempt */
    struct remat_fb_builder *builder;
    struct remat_writer_text *texts; /* hash table, capacity a power of two */
    size_t text_count, text_capacity;
};

/* Writes the whole file and ends with remat_fb_finish_*. Called again with a larger block as long
 * as *result is FULL. */
typedef remat_status remat_write_function(struct remat_writer *writer, const void *what,
                                          enum remat_fb_result *result, const void **data,
                                          size_t *bytes);

/* Builds the file and copies it, container included, into `arena`. */
remat_status remat_writer_run(remat_context *ctx, const char *identifier,
                              remat_write_function *function, const void *what,
                              struct remat_arena *arena, const void **out_data, size_t *out_bytes);

/* Nothing for NULL and "". */
remat_status remat_writer_text(struct remat_writer *writer, const char *text,
                               struct remat_fb_text *out);

#endif
