/* SPDX-License-Identifier: Apache-2.0 */
/* Contents of buffers, by name and by purpose. */
#ifndef REMAT_DUMP_BUFFERS_H
#define REMAT_DUMP_BUFFERS_H

#include "dump.h"

/* Names the first value that lies in the buffer. */
struct dump_label {
    const char *name; /* "": no value does */
    int32_t layer;    /* -1: none */
    const char *op; /* the graph's, "linear", of a value that is decided about; else the kernel that
                       writes it, "matmul", or its ops, "add.layer_norm"; "": none does in a step */
};
/* By buffer; NULL: out of memory. */
struct dump_label *dump_labels(struct remat_arena *arena, const struct remat_program *program);

/* Purpose of a buffer. */
enum dump_class {
    DUMP_PARAMETERS,
    DUMP_OPTIMIZER,
    DUMP_GRADIENTS,
    DUMP_KEPT,       /* activations born in the forward pass that the backward pass reads */
    DUMP_RECOMPUTED, /* activations of a recomputation */
    DUMP_TRANSIENT,  /* all other activations */
    DUMP_HOST,       /* inputs and outputs */
    DUMP_CLASS_COUNT
};
extern const char *const dump_class_names[DUMP_CLASS_COUNT];
extern const char dump_class_letters[DUMP_CLASS_COUNT + 1];
/* The class of each buffer; NULL when out of memory. */
uint8_t *dump_classify(struct remat_arena *arena, const struct remat_program *program);

#endif
