/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers by what they are for. */
#ifndef REMAT_DUMP_CLASSES_H
#define REMAT_DUMP_CLASSES_H

#include "dump.h"

/* What a buffer is for. */
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
