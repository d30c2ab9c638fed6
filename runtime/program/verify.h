/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of remat_program_verify; private to this folder. */
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

struct remat_byte_range { /* of bytes of the arena */
    uint64_t begin, end;
};

struct remat_verifier {
    remat_context *ctx;
    const struct remat_program *program;
    struct remat_arena scratch;
    struct remat_operand_use **uses; /* [kernel], each [operand_count]; NULL for built-in kernels */
    bool *sums_columns;              /* [kernel] */
    /* By operand of the command under check: the end of what its kernel addresses, in bytes from
     * the start of the buffer. */
    uint64_t reach_bytes[REMAT_OPERANDS_MAX];
    struct remat_flights *flights; /* verify_flight.c's */
};

/* Stores `table[index] "name": ...` (without the name when it is NULL) and returns INVALID. */
remat_status remat_verify_error(struct remat_verifier *verifier, const char *table, uint32_t index,
                                const char *name, const char *format, ...) REMAT_PRINTF(5, 6);

/* Product of dims, each of which must be positive; false otherwise or beyond REMAT_ELEMENTS_MAX. */
bool remat_dims_elements(const int64_t *dims, uint32_t rank, uint64_t *out);

/* Product of all lengths of the command's index space but the last. */
uint64_t remat_command_rows(const struct remat_command *c);
/* Whether distinct indices along axes [begin, end) are distinct elements: each stride, in ascending
 * order, steps over everything that the smaller ones reach. */
bool remat_view_injective(const struct remat_operand *operand, const int64_t *dims, uint32_t begin,
                          uint32_t end);
/* Notes that the command under check addresses the first `bytes` of the buffer of operand k. */
void remat_verify_reach(struct remat_verifier *verifier, uint32_t k, uint64_t bytes);
/* Operand k as the random state of `random` and of attention's dropout. */
remat_status remat_verify_random_state(struct remat_verifier *verifier, uint32_t index, uint32_t k);

/* --- steps of remat_program_verify, in this order; each takes those before it for granted --- */

/* Every kernel by itself; fills verifier->uses. */
remat_status remat_verify_kernels(struct remat_verifier *verifier);
/* Command `index`: ranges, operands against values and buffers, kernel against operands. */
remat_status remat_verify_command(struct remat_verifier *verifier, uint32_t index);
/* Shapes, access and parameters of a built-in kernel's operands; their number is right already. */
remat_status remat_verify_builtin(struct remat_verifier *verifier, uint32_t index);
/* A command writes nothing that it also uses in another way, unless the two may alias. */
remat_status remat_verify_alias(struct remat_verifier *verifier, uint32_t index);
/* Bytes of `operand`, its k-th, that the command under check addresses. */
struct remat_byte_range remat_verify_range(const struct remat_verifier *verifier,
                                           const struct remat_operand *operand, uint32_t k);
/* Command `index`, just after remat_verify_command, leaves alone what transfers before it use until
 * they are complete; and if it is one, what it uses lives for as long. */
remat_status remat_verify_flights_begin(struct remat_verifier *verifier);
remat_status remat_verify_flights(struct remat_verifier *verifier, uint32_t index);
/* program->cuda. */
remat_status remat_verify_cuda(struct remat_verifier *verifier);
/* Data of tensors. */
remat_status remat_verify_constants(struct remat_verifier *verifier);
/* Names of tensors are unique, and so are those of the gradients that commands write, but for parts
 * of one tensor. */
remat_status remat_verify_names(struct remat_verifier *verifier);

#endif
