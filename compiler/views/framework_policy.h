/* SPDX-License-Identifier: Apache-2.0 */
/* A plan as far as frameworks that recompute by themselves can be told of it. Each layer is a
 * checkpoint, whose input is saved. Within it
 *
 * - PyTorch saves outputs of operators, by operator and place in the layer, as torchtitan does;
 *   operators that have no counterpart here are recomputed;
 * - JAX saves values by name.
 *
 * A layer of which the plan recomputes nothing, but for parameters that it gathers again and values
 * inside the kernels that read them, is no checkpoint. */
#ifndef REMAT_DUMP_FRAMEWORK_POLICY_H
#define REMAT_DUMP_FRAMEWORK_POLICY_H

#include "base.h"
#include "program.h"

enum policy_framework { POLICY_PYTORCH, POLICY_JAX }; /* as accepted by --emit-policy */
enum { POLICY_OPS = 9 };
extern const char *const policy_ops[POLICY_OPS];

struct policy_names REMAT_LIST(const char *);
struct policy_place { /* an op, and its index in the layer */
    const char *op;
    uint32_t index;
    uint32_t at;      /* command of the forward pass */
    bool saved;       /* here */
    const char *name; /* of the first value */
    bool decided;     /* a decision is about it */
};

struct policy_layer {
    const char *path;   /* of a scope in it */
    size_t path_length; /* of "h.3" in it */
    int32_t number;
    uint32_t last; /* command that computes the last value needed, but for the layer's output */
    uint32_t last_random; /* the last one that draws random bits: PyTorch needs the mask, too */
    bool checkpoint;
    struct places REMAT_LIST(struct policy_place) places;
    const char *final;         /* last value with a decision */
    uint32_t final_product;    /* command of the last one */
    bool output_again;         /* the plan recomputes a value that other layers read */
    struct policy_names outer; /* values that other layers read */
    /* Values by JAX's names: of parts of a value some may be saved, others not. */
    struct policy_names tagged, untagged;
};

struct policy_value {
    const char *name;
    int32_t layer;
    bool saved; /* here */
};

/* Lies in the arena. */
struct policy {
    const struct remat_program *program;
    enum policy_framework framework;
    struct policy_layers REMAT_LIST(struct policy_layer) layers;
    /* Values that it saves and the plan recomputes, and the other way round. */
    struct policy_values REMAT_LIST(struct policy_value) differences;
    const char **tags; /* by decision about a value of a layer: as JAX names it */
    /* Names of the values of layers that it saves, beside their inputs. */
    struct policy_names saved;
};

/* Length of "h.3" in "h.3/attn", of "model.h.3" in "model.h.3.attn"; 0: it is not there. */
size_t policy_layer_length(const char *path, int32_t layer);

/* By name, from where the last search ended; NULL: there is none. */
const struct remat_decision_record *policy_find_record(const struct remat_program *program,
                                                       const char *name, uint32_t *at);

remat_status policy_find(struct remat_arena *arena, const struct remat_program *program,
                         enum policy_framework framework, struct policy *out);

#endif
