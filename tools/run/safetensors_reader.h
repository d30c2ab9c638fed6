/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a safetensors file: 8 bytes of header length, a JSON header, data. The file is untrusted:
 * every tensor has a known dtype, lies inside the data, has the bytes that its shape needs, and the
 * tensors cover the data without gaps or overlaps, as the format demands. Messages name the file
 * and the tensor. */
#ifndef REMAT_TOOLS_RUN_SAFETENSORS_READER_H
#define REMAT_TOOLS_RUN_SAFETENSORS_READER_H

#include "run.h"
#include <jansson.h>
#include <stdio.h>

/* The longest header that the reference implementation accepts, which no writer exceeds. */
#define SAFETENSORS_HEADER_BYTES_MAX 100000000u
/* Values in it, of which a tensor has 7 and one for each axis. */
#define SAFETENSORS_VALUES_MAX (1u << 21)

struct safetensors_tensor {
    const char *name;  /* lives in the file's header */
    const char *dtype; /* "F32"; static */
    uint32_t rank;
    int64_t shape[REMAT_TENSOR_RANK_MAX];
    uint64_t begin, bytes; /* of the data, in the file */
};

struct safetensors_file { /* zero-initialise */
    FILE *stream;
    const char *path; /* borrowed */
    json_t *header;
    struct safetensors_tensor *tensors; /* in the order of their data */
    uint32_t count;
};

/* Reads the header from a seekable stream, which *out takes over, also in case of an error. */
remat_status safetensors_read_stream(remat_context *ctx, const char *path, FILE *stream,
                                     struct safetensors_file *out);
remat_status safetensors_read_file(remat_context *ctx, const char *path,
                                   struct safetensors_file *out);
/* The bytes [begin, begin + bytes) of a tensor. */
remat_status safetensors_read_part(remat_context *ctx, const struct safetensors_file *file,
                                   const struct safetensors_tensor *tensor, uint64_t begin,
                                   void *data, uint64_t bytes);
void safetensors_release(struct safetensors_file *file); /* harmless when released */

struct shape_text {
    char text[160];
};
struct shape_text shape_text(const int64_t *shape, uint32_t rank); /* "[2, 3]" */

#endif
