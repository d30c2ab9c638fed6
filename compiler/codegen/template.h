/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies of built-in kernels: BODY(...) of the .cu files, with the names of constants as @NAME@. */
#ifndef REMAT_CODEGEN_TEMPLATE_H
#define REMAT_CODEGEN_TEMPLATE_H

#include "source.h"

struct cuda_constant {
    const char *name;
    uint64_t value;
    const char *text; /* in place of the value; NULL without */
};

extern const char cuda_body_adamw_coefficients[], cuda_body_advance[], cuda_body_batch_slice[],
    cuda_body_fill_normal[], cuda_body_fill_normal_part[], cuda_body_own_ids[],
    cuda_body_part_number[], cuda_body_rope_table[];
extern const char cuda_body_embedding[], cuda_body_sort[], cuda_body_scatter_add[];
extern const char cuda_body_attention_tiles[], cuda_body_attention_constants[],
    cuda_body_attention_with_dropout[], cuda_body_attention_without_dropout[],
    cuda_body_attention_forward[], cuda_body_attention_delta[], cuda_body_attention_backward_keys[],
    cuda_body_attention_backward_queries[];

/* Adds a body, or a part of one; the constants include all that it names. */
void cuda_write_template(struct cuda_source *s, const char *body,
                         const struct cuda_constant *constants, uint32_t count);

#endif
