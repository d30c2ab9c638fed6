/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REMAT_CUDA_SETTINGS_H
#define REMAT_CUDA_SETTINGS_H

#include "kernel.h"

/* How elements are assigned to threads. Bits depend on column_sums alone. */
struct remat_cuda_settings {
    uint64_t threads_wanted;  /* threads take fewer elements until a command has so many threads */
    uint32_t registers_kept;  /* floats of a thread that may outlive a pass over a row */
    uint64_t workspace_bytes; /* limit for a command; 0: none */
    uint64_t column_sums;     /* of remat_column_block_rows: REMAT_COLUMN_SUMS but in tests */
};
#define REMAT_CUDA_DEFAULTS ((struct remat_cuda_settings){65536, 64, 0, REMAT_COLUMN_SUMS})

#endif
