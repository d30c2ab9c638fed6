/* SPDX-License-Identifier: Apache-2.0 */
/* Column sums as text: partial sums in the workspace, then totals. */
#ifndef REMAT_COLUMNS_H
#define REMAT_COLUMNS_H

#include "source.h"

/* Sums of blocks of rows, and what else pass `pass` does per element; then the total of each column
 * and what follows from it. */
void cuda_write_partial_sums(struct cuda_source *s, uint32_t pass);

void cuda_write_column_totals(struct cuda_source *s, uint32_t pass);

/* Bytes of the workspace of columns: partial sums, then the values that later passes read; of the
 * shared memory of a block, which grows with the width. */
uint64_t cuda_columns_workspace_bytes(const struct cuda_source *s);

uint32_t cuda_columns_shared_bytes(const struct cuda_source *s);

#endif
