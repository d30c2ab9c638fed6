/* SPDX-License-Identifier: Apache-2.0 */
/* --input NAME=FILE: inputs that remat-run does not write itself, from safetensors files. They are
 * the same in every step, and every rank gets the whole. */
#ifndef REMAT_TOOLS_RUN_GIVEN_H
#define REMAT_TOOLS_RUN_GIVEN_H

#include "files.h"
#include "model.h"
#include "safetensors_reader.h"

struct given_input {
    uint32_t tensor; /* of the plan */
    struct safetensors_file file;
    const struct safetensors_tensor *from; /* in the file */
};

struct given_inputs { /* zero-initialise */
    struct given_input *inputs;
    uint32_t count;
};

/* `options`: the values of --input. REMAT_ERROR_USAGE: one names no such input; or an entry point
 * of `entries`, up to NULL, reads an input that nothing writes. REMAT_ERROR_INVALID: a file does
 * not have it. No output may be one of the files. */
remat_status given_open(remat_context *ctx, const char *const *options, uint32_t count,
                        const struct model *model, const char *const *entries,
                        struct remat_outputs *outputs, struct given_inputs *out);
/* Hashes everything that is given; 0: nothing is. Reads all of it. */
remat_status given_hash(remat_context *ctx, const struct given_inputs *given,
                        const remat_plan *plan, uint64_t *out);
/* Into a rank's session that has run "init". */
remat_status given_write(remat_context *ctx, const struct given_inputs *given,
                         const remat_plan *plan, uint32_t rank, remat_session *session);
void given_release(struct given_inputs *given); /* harmless when released */

#endif
