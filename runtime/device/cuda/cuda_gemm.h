/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products by cuBLASLt. The algorithm of each distinct product is chosen once, under the
 * workspace that the plan provides, and kept in a table (gemm_table.h): all commands of one shape
 * run the same algorithm, originals and recomputed ones, in this process and the next. */
#ifndef REMAT_CUDA_GEMM_H
#define REMAT_CUDA_GEMM_H

#include "cuda_api.h"
#include "program.h"

struct cuda_gemm_settings {
    const char *folder;       /* where libcublasLt lies, or NULL */
    const char *table;        /* path of the table, or NULL: none is kept */
    const char *device;       /* in the table */
    uint64_t workspace_bytes; /* that an algorithm may use */
};

struct cuda_gemms; /* of a program; thread-compatible */

/* Prepares every matmul of the program, with the context current; opens nothing where there is
 * none. `driver` and `program` are borrowed. REMAT_ERROR_IO without the library,
 * REMAT_ERROR_INVALID for strides or dtypes that it cannot do. */
remat_status cuda_gemms_create(remat_context *ctx, const struct cuda_driver *driver,
                               const struct remat_program *program,
                               const struct cuda_gemm_settings *settings, struct cuda_gemms **out);
void cuda_gemms_destroy(struct cuda_gemms **gemms); /* *gemms may be NULL */

/* Enqueues command `command`, a matmul. `arena`, `workspace`: device addresses. */
remat_status cuda_gemms_run(struct cuda_gemms *gemms, uint32_t command, uint64_t arena,
                            uint64_t workspace, void *stream);

#endif
