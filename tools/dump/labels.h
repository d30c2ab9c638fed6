/* SPDX-License-Identifier: Apache-2.0 */
/* What buffers hold, by name. */
#ifndef REMAT_DUMP_LABELS_H
#define REMAT_DUMP_LABELS_H

#include "dump.h"

/* Of the first value that lies in the buffer. */
struct dump_label {
    const char *name; /* "": no value does */
    int32_t layer;    /* -1: none */
    const char *op; /* the graph's, "linear", of a value that is decided about; else the kernel that
                       writes it, "matmul", or its ops, "add.layer_norm"; "": none does in a step */
};
/* By buffer; NULL: out of memory. */
struct dump_label *dump_labels(struct remat_arena *arena, const struct remat_program *program);

#endif
