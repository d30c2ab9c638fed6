/* SPDX-License-Identifier: Apache-2.0 */
/* The module of a layer that a scope belongs to. */
#ifndef REMAT_POLICY_MODULE_H
#define REMAT_POLICY_MODULE_H

#include "graph.h"

enum remat_module {
    REMAT_MODULE_CORE_ATTN, /* between q, k, v and the context: scope attn/core */
    REMAT_MODULE_MLP,       /* scope mlp */
    REMAT_MODULE_LAYERNORM, /* norms of a layer: scopes ln, ln_*, norm*, *norm */
    REMAT_MODULE_MOE,       /* this and all others: a scope of the same name */
    REMAT_MODULE_MOE_ACT,
    REMAT_MODULE_SHARED_EXPERTS,
    REMAT_MODULE_MLA_UP_PROJ,
    REMAT_MODULE_GDN_NORM_OUT,
    REMAT_MODULE_GDP_IN_PROJ,
    REMAT_MODULE_GDP_QKV,
    REMAT_MODULE_MHC,
    REMAT_MODULE_COUNT
};

struct remat_module_info {
    const char *name;            /* in --recompute-modules */
    const char *patterns, *part; /* for messages: its scopes, and what a model without it lacks */
    bool discards_output; /* the module's output is recomputed too, from the module's input */
};
extern const struct remat_module_info remat_modules[REMAT_MODULE_COUNT];

/* Bit mask of the modules that the scope belongs to: none outside layers. */
uint32_t remat_modules_of(const struct remat_scope *scope);

/* An element of a comma-separated list; advances *rest, which starts as the list and ends as NULL.
 * False at the end. "a,,b" has an empty element. */
struct remat_word {
    const char *text;
    int length;
};
bool remat_list_next(const char **rest, struct remat_word *out);
bool remat_word_is(struct remat_word word, const char *text);

/* Bit mask of the modules in a list; unknown ones are left out. */
uint32_t remat_module_mask(const char *list);

#endif
