/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of tensor and sequence parallelism share: models, their gradients on a mesh, and
 * checks of both against one rank. */
#ifndef TESTS_E2E_TENSOR_CHECKS_H
#define TESTS_E2E_TENSOR_CHECKS_H

#include "ranks.h"

struct tensor_model {
    const char *preset;
    uint32_t heads, kv_heads, vocab, seq;
    bool written_out;
    double dropout, clip_norm;
    remat_dtype dtype;
    bool sequence; /* parallel */
    bool stated;   /* of GPT-2: layouts that no rule finds */
    uint32_t sequences;
};

extern const struct tensor_model tensor_models[5];
/* Unfinished sums of more than 64 KiB are exchanged. */
extern const struct tensor_model tensor_longer;

/* A step of the model's sequences, in all, with the axes that have more than one rank. */
struct remat_graph *tensor_make(remat_context *ctx, struct remat_arena *arena,
                                const struct tensor_model *model, uint32_t dp, uint32_t tp,
                                uint32_t microbatches);
struct remat_pass_settings tensor_passes(const struct tensor_model *model, uint32_t tp,
                                         uint32_t microbatches);

enum { TENSORS_MAX = 128 };

struct tensor_gradients {
    uint32_t count;
    struct {
        const char *name;
        uint64_t elements;
        float *data;
    } items[TENSORS_MAX];
};

/* The last version of each, in f32: for ranks_settings.keep. */
void tensor_keep(void *user, const char *name, remat_element element, const void *data,
                 uint64_t bytes);
void tensor_release(struct tensor_gradients *g);
/* The gradient of that name; elements of padding, after `elements`, must be 0. */
const float *tensor_find(const struct tensor_gradients *g, const char *name, uint64_t elements);
/* The most by which two elements differ. */
float tensor_distance(const float *a, const float *b, uint64_t count);
/* Of the first rank; all must have its bits. */
struct ranks_result tensor_run(remat_context *ctx, struct remat_arena *arena,
                               const struct tensor_model *model, uint32_t dp, uint32_t tp,
                               uint32_t microbatches, const struct ranks_tap *tap,
                               struct tensor_gradients *out);

/* Loss and gradients are those of one rank, as far as roundings allow. */
void tensor_check_against_one(remat_context *ctx, const struct tensor_model *model, uint32_t dp,
                              uint32_t tp, uint32_t microbatches);
/* As autodiff made it, and of primitive ops: the bits of the graph without its backward pass. */
void tensor_check_joint(remat_context *ctx, const struct tensor_model *model, uint32_t tp);
/* Every plan of a mesh has the same bits. */
void tensor_check_plans(remat_context *ctx, const struct tensor_model *model, uint32_t dp,
                        uint32_t tp);
/* Planted faults are noticed. */
void tensor_check_faults(remat_context *ctx, bool sequence);
void tensor_refuse(remat_context *ctx, const struct tensor_model *model, uint32_t dp, uint32_t tp,
                   remat_status status, const char *message);

#endif
