/* SPDX-License-Identifier: Apache-2.0 */
/* --init: parameters from safetensors files as Hugging Face's models have them (families.h), in
 * f32, bf16 or f16. Together the files must have every parameter of the plan in its shape, and
 * nothing else that would matter to the model; adapters may be left out, all of them. A bf16
 * parameter with an f32 master gives it the file's values and has them rounded to nearest even. */
#ifndef REMAT_TOOLS_RUN_INIT_H
#define REMAT_TOOLS_RUN_INIT_H

#include "families.h"
#include "safetensors_reader.h"

struct weights_file {
    const remat_plan *plan;
    struct safetensors_file file;
    uint32_t *parameters; /* of each tensor in the file: its index in the plan, UINT32_MAX: none */
};

struct initial_weights { /* zero-initialise */
    struct weights_file *files;
    uint32_t count;
};

/* Reads the headers and checks everything but the data. */
remat_status initial_weights_open(remat_context *ctx, const char *const *paths, uint32_t count,
                                  const remat_plan *plan, struct initial_weights *out);
/* Checks the data of extra tensors and writes the parameters, on a rank of which masters may be
 * parts, through buffers of 1 MiB. */
remat_status initial_weights_write(remat_context *ctx, const struct initial_weights *weights,
                                   uint32_t rank, remat_session *session);
void initial_weights_release(struct initial_weights *weights); /* harmless when released */

#endif
