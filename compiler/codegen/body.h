/* SPDX-License-Identifier: Apache-2.0 */
/* Loads, arithmetic and stores of a fused kernel as text. */
#ifndef REMAT_BODY_H
#define REMAT_BODY_H

#include "source.h"

/* A register where it is used: "r3", "x3[e]", "k3[step][e]". */
struct cuda_name {
    char text[32];
};

typedef void cuda_reduce(struct cuda_source *s, uint32_t reg);

void cuda_text(struct cuda_source *s, const char *format, ...) REMAT_PRINTF(2, 3); /* one line */

struct cuda_name cuda_name(const struct cuda_source *s, uint16_t reg);

/* Addresses of the operands, states of random numbers, values that never vary. */
void cuda_write_head(struct cuda_source *s);

/* Where each access begins in `row`. */
void cuda_write_offsets(struct cuda_source *s);

/* Values a row, or a column, that belong to the pass; loads only if `condition` holds, or NULL. */
void cuda_write_values(struct cuda_source *s, enum cuda_variation variation, uint32_t pass,
                       const char *condition);

void cuda_write_loads(struct cuda_source *s);

/* The work of the pass for each element, from `column` on, and its stores. */
void cuda_write_elements(struct cuda_source *s, cuda_reduce *reduce);

/* Blocks reduce through shared memory: each reduction of a pass has two tiles, in turns, of the
 * elements of a step, this many floats. */
uint32_t cuda_tile_floats(const struct cuda_source *s);

/* Where those of a reduction begin. */
uint32_t cuda_tiles_of(const struct cuda_source *s, const struct cuda_node *node);

void cuda_reduce_to_tile(struct cuda_source *s, uint32_t reg);

/* Of a value a row (of all passes), or a column. */
void cuda_write_stores_by(struct cuda_source *s, enum remat_register_class class, uint32_t pass);

#endif
