/* SPDX-License-Identifier: Apache-2.0 */
/* --emit-policy: a plan's decisions for a framework that recomputes by itself, as Python that users
 * import. Each layer is a checkpoint, whose input is saved. Within it
 *
 *   pytorch  saves outputs of operators, by operator and its place in the layer, as torchtitan
 * does; operators that we have no counterpart of are recomputed; jax      saves values by name.
 *
 * A layer of which the plan recomputes nothing is no checkpoint. */
#ifndef REMAT_DUMP_EMIT_POLICY_H
#define REMAT_DUMP_EMIT_POLICY_H

#include "base.h"
#include "program.h"

enum policy_framework { POLICY_PYTORCH, POLICY_JAX }; /* as accepted by --emit-policy */

struct policy_layer;
struct policy_names REMAT_LIST(const char *);
struct policy_value {
    const char *name;
    int32_t layer;
    bool saved; /* here */
};

/* What the framework can be told of a plan; lies in the arena. */
struct policy {
    const struct remat_program *program;
    enum policy_framework framework;
    struct policy_layers REMAT_LIST(struct policy_layer) layers; /* private to policy.c */
    /* Values that it saves and the plan recomputes, and the other way round. */
    struct policy_values REMAT_LIST(struct policy_value) differences;
    /* Names of the values of layers that it saves, beside their inputs. */
    struct policy_names saved;
};

remat_status policy_find(struct remat_arena *arena, const struct remat_program *program,
                         enum policy_framework framework, struct policy *out);

/* The file. `planned` has the policy's peak and time, the program itself where there are no
 * differences; NULL: they are not known. */
remat_status policy_print(struct remat_arena *arena, const struct policy *policy,
                          const struct remat_program *planned, struct remat_text *out);

#endif
