/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of remat_program_verify share; private to this folder. */
#ifndef REMAT_VERIFY_H
#define REMAT_VERIFY_H

#include "program.h"

/* How a fused kernel uses one operand. */
struct remat_operand_use {
    bool loaded, stored;
    bool random;                        /* its first four elements are the random state */
    bool flagged;                       /* its first element is a flag */
    bool by_element, by_row, by_column; /* which axes it is addressed with: all, rows, the last */
};

struct remat_range { /* of bytes of the arena */
    uint64_t begin, end;
};

struct remat_verifier {
    remat_context *ctx;
    const struct remat_program *program;
    struct remat_arena scratch;
    struct remat_operand_use **uses; /* [kernel], each [operand_count]; NULL for built-in kernels */
    bool *sums_columns;              /* [kernel] */
    /* Of the command under check, by operand: the end of what its kernel addresses, in bytes from
     * the start of the buffer. */
    uint64_t reach_bytes[REMAT_OPERANDS_MAX];
    struct remat_flights *flights; /* verify_flight.c's */
};

/* Stores `table[index] "name": ...` (without the name when it is NULL) and returns INVALID. */
remat_status remat_verify_error(struct remat_verifier *verifier, const char *table, uint32_t index,
                                const char *name, const char *format, ...) REMAT_PRINTF(5, 6);

/* Product of dims, each of which must be positive; false otherwise or beyond REMAT_ELEMENTS_MAX. */
bool remat_dims_elements(const int64_t *dims, uint32_t rank, uint64_t *out);

#endif
