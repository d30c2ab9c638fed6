/* SPDX-License-Identifier: Apache-2.0 */
/* The algorithms of matrix products as a file: JSON with one row a line, for every device, library
 * version, workspace and shape that ever ran the plan. Deleting it makes the choices be made anew.
 */
#ifndef REMAT_GEMM_TABLE_H
#define REMAT_GEMM_TABLE_H

#include "cuda_api.h"

struct gemm_table {
    remat_context *ctx;
    struct remat_arena *arena;
    const char *path;                     /* NULL: no file */
    const char *row_begin;                /* of our rows, up to the shape */
    struct REMAT_LIST(const char *) rows; /* lines without comma and newline */
    bool changed;
};

/* Reads `path` where it exists; NULL: an empty table that is not saved. Everything lies in `arena`.
 * REMAT_ERROR_INVALID when the file is something else. */
remat_status gemm_table_open(remat_context *ctx, struct remat_arena *arena, const char *path,
                             const char *device, uint64_t library_version, uint64_t workspace_bytes,
                             struct gemm_table *out);
/* REMAT_ERROR_INVALID for a row that is not as gemm_table_add writes it, and for two of one key. */
remat_status gemm_table_find(const struct gemm_table *table, const char *key,
                             struct cublaslt_algorithm *out, bool *found);
/* Replaces the row of that key, if there is one. */
remat_status gemm_table_add(struct gemm_table *table, const char *key,
                            const struct cublaslt_algorithm *algorithm);
/* Writes the file if the table changed; a failure is a warning, since the same library chooses the
 * same again. */
remat_status gemm_table_save(const struct gemm_table *table);

#endif
