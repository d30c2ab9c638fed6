/* SPDX-License-Identifier: Apache-2.0 */
/* Private to compiler/codegen: fused kernels as text. */
#ifndef REMAT_BODY_H
#define REMAT_BODY_H

#include "source.h"

/* --- geometry.c: how threads are laid over a kernel's space --- */

/* Chooses shape, width, and the values to keep in registers. */
void cuda_choose_geometry(struct cuda_source *s, const struct remat_cuda_settings *settings);

/* --- body.c: loads, arithmetic and stores --- */

/* A register as its uses spell it: "r3", "x3[e]", "k3[step][e]". */
struct cuda_name {
    char text[32];
};

typedef void cuda_reduce(struct cuda_source *s, uint32_t reg);

void cuda_text(struct cuda_source *s, const char *format, ...) REMAT_PRINTF(2, 3); /* one line */

struct cuda_name cuda_name(const struct cuda_source *s, uint16_t reg);

/* Writes addresses of operands, states of random numbers, and uniform values. */
void cuda_write_head(struct cuda_source *s);

/* Writes the offset of each access in `row`. */
void cuda_write_offsets(struct cuda_source *s);

/* Writes the values of the pass that vary by row, or by column. Loads are guarded by `condition`,
 * unless NULL. */
void cuda_write_values(struct cuda_source *s, enum cuda_variation variation, uint32_t pass,
                       const char *condition);

void cuda_write_loads(struct cuda_source *s);

/* Writes the work of the pass for each element, from `column` on, and its stores. */
void cuda_write_elements(struct cuda_source *s, cuda_reduce *reduce);

/* Floats in a tile of shared memory: the elements of a step. Each reduction of a pass alternates
 * between two tiles. */
uint32_t cuda_tile_floats(const struct cuda_source *s);

/* Offset of a reduction's tiles. */
uint32_t cuda_tiles_of(const struct cuda_source *s, const struct cuda_node *node);

void cuda_reduce_to_tile(struct cuda_source *s, uint32_t reg);

/* Writes the stores of values by row (of all passes), or by column. */
void cuda_write_stores_by(struct cuda_source *s, enum remat_register_class class, uint32_t pass);

/* --- shapes.c: the loops of kernels without column sums --- */

void cuda_write_pointwise(struct cuda_source *s);
void cuda_write_team(struct cuda_source *s);
void cuda_write_block(struct cuda_source *s);

/* --- columns.c: partial column sums in the workspace, then totals --- */

/* Writes the sums of blocks of rows, and the other work of the pass for each element. */
void cuda_write_partial_sums(struct cuda_source *s, uint32_t pass);
/* Writes the total of each column and what is computed from it. */
void cuda_write_column_totals(struct cuda_source *s, uint32_t pass);
/* Bytes of partial sums, and of values by column that later passes read. */
uint64_t cuda_columns_workspace_bytes(const struct cuda_source *s);
/* Bytes of a block's shared memory; they grow with the width. */
uint32_t cuda_columns_shared_bytes(const struct cuda_source *s);

#endif
