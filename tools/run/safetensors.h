/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a safetensors file (8 bytes of header length, JSON header padded with spaces, data),
 * tensor by tensor in the order they arrive, holding none of their data. */
#ifndef REMAT_TOOLS_RUN_SAFETENSORS_H
#define REMAT_TOOLS_RUN_SAFETENSORS_H

#include "files.h"
#include "peers.h"
#include "run.h"
#include <jansson.h>

struct safetensors {    /* zero-initialise */
    const char *path;   /* borrowed */
    const char *prefix; /* of all names in it; NULL: none */
    FILE *stream;       /* the output's */
    json_t *header;
    uint64_t header_bytes; /* reserved for it, a multiple of 8 */
    uint64_t data_bytes;   /* written so far */
    uint32_t count;
};

/* Which tensors of a plan a file has. */
typedef bool safetensors_filter(const remat_tensor_info *tensor);
bool safetensors_is_parameter(const remat_tensor_info *tensor);

const char *safetensors_dtype(remat_element element); /* "F32" */
/* The tensor as files have it: all of its parts, without padding. */
remat_tensor_info safetensors_whole(const remat_tensor_info *tensor);

/* Whether these tensors can be written: to be asked before there is anything to lose. */
remat_status safetensors_check(remat_context *ctx, const char *path, const remat_plan *plan,
                               safetensors_filter *has);
/* Room in the header for all of them, and for `metadata`, an object of strings; NULL: that of a
 * model for PyTorch. */
remat_status safetensors_open(remat_context *ctx, struct remat_outputs *outputs, const char *path,
                              const remat_plan *plan, safetensors_filter *has, json_t *metadata,
                              struct safetensors *out);
/* `tensor` gives name, element type and shape as files have it; `data` is dense and row-major. */
remat_status safetensors_add(remat_context *ctx, struct safetensors *file,
                             const remat_tensor_info *tensor, const void *data);
remat_status safetensors_close(remat_context *ctx, struct safetensors *file);
void safetensors_abandon(struct safetensors *file); /* harmless when closed */

/* The gradients that are tensors of the plan, which accumulate over microbatches, each under the
 * name of its parameter. All ranks call it, with `file` NULL where another one writes. */
remat_status safetensors_add_accumulators(remat_context *ctx, struct safetensors *file,
                                          const remat_plan *plan, remat_session *session,
                                          const struct peers *peers);

/* Whether ranks have parts of some of these tensors. */
bool safetensors_has_parts(const remat_plan *plan, safetensors_filter *has);

/* Whether every element of every parameter is finite. All ranks call it where they have parts of
 * parameters, and get the same answer. */
remat_status safetensors_check_weights(remat_context *ctx, const remat_plan *plan,
                                       remat_session *session, const struct peers *peers,
                                       bool *out_finite);
/* These tensors of a session, their names after `prefix` (NULL: none). Both go through a buffer of
 * 1 MiB. Those of which each rank has a part are joined with `peers`: all other ranks call
 * safetensors_join meanwhile. NULL: there are none. */
remat_status safetensors_save(remat_context *ctx, struct remat_outputs *outputs, const char *path,
                              const remat_plan *plan, safetensors_filter *has, const char *prefix,
                              json_t *metadata, remat_session *session, const struct peers *peers);
remat_status safetensors_join(remat_context *ctx, const remat_plan *plan, safetensors_filter *has,
                              remat_session *session, const struct peers *peers);
/* All parameters, as PyTorch's tools read them; of a plan with adapters only those, as Hugging
 * Face's peft reads them. */
remat_status safetensors_save_weights(remat_context *ctx, struct remat_outputs *outputs,
                                      const char *path, const remat_plan *plan,
                                      remat_session *session, const struct peers *peers);
remat_status safetensors_join_weights(remat_context *ctx, const remat_plan *plan,
                                      remat_session *session, const struct peers *peers);

#endif
