/* SPDX-License-Identifier: Apache-2.0 */
/* Built-in kernels without fragments of matrices as text. */
#ifndef REMAT_BUILTIN_H
#define REMAT_BUILTIN_H

#include "source.h"

/* A row of a table for each id, and back (embedding.cu). */
struct cuda_embedding { /* s->rows tokens, s->columns; a thread has s->width of these */
    uint64_t table_rows;
    uint8_t table, rows; /* dtypes; of what the ids are of, and of the rows */
    bool accumulate;
};

void cuda_write_gather(struct cuda_source *s, const struct cuda_embedding *embedding);

/* A digit of so many bits, in a list of tokens and their ids; then the rows of the sorted list. */
void cuda_write_sort(struct cuda_source *s, uint64_t table_rows, uint32_t digit_bits);

void cuda_write_scatter_add(struct cuda_source *s, const struct cuda_embedding *embedding);

/* A built-in kernel of threads that each do `item` (builtin.c): its body and how many items there
 * are (s->rows, which is the number of elements of the last operand before); false if the kind has
 * none. All `operands` are aligned to `alignment` bytes, at most 16. */
bool cuda_write_items(struct cuda_source *s, uint32_t kind, const struct remat_operand *operands,
                      uint32_t alignment);

#endif
