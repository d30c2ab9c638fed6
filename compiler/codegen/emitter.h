/* SPDX-License-Identifier: Apache-2.0 */
/* Private to compiler/codegen: the code of a plan under construction, and the functions that add
 * the code of a command to it. */
#ifndef REMAT_CODEGEN_EMITTER_H
#define REMAT_CODEGEN_EMITTER_H

#include "source.h"

struct cuda_emitter {
    remat_context *ctx;
    struct remat_arena *arena, *scratch;
    const struct remat_program *program;
    const struct remat_cuda_settings *settings;
    struct remat_cuda_code *code;
    struct remat_text text; /* of the kernel being written */
    struct REMAT_LIST(struct remat_cuda_kernel) kernels;
    struct REMAT_LIST(uint64_t) hashes; /* hashes of the kernels' bodies */
    struct REMAT_LIST(struct remat_cuda_launch) launches;
    struct REMAT_LIST(struct remat_cuda_word) words;
};

/* Adds the code of one command. */
typedef remat_status cuda_emit(struct cuda_emitter *e, const struct remat_command *command);

const struct remat_operand *cuda_operand(const struct cuda_emitter *e,
                                         const struct remat_command *command, uint32_t index);

/* Whether an optional operand is there. */
bool cuda_has_operand(const struct cuda_emitter *e, const struct remat_command *command,
                      const char *name);

double cuda_parameter(const struct cuda_emitter *e, const struct remat_command *command,
                      uint32_t index);

/* Offset in the arena of an operand's first element, in bytes. */
uint64_t cuda_operand_begin(const struct cuda_emitter *e, const struct remat_operand *operand);

/* Common alignment of all operands, at most 16 bytes. */
uint32_t cuda_alignment(const struct cuda_emitter *e, const struct remat_command *command);

/* An empty kernel of one row. */
struct cuda_source cuda_start_source(struct cuda_emitter *e, const struct remat_command *command,
                                     enum cuda_shape shape);

/* Adds the kernel whose body has just been written, and a launch of it with the arguments that
 * every launch has; cuda_add_word adds more. */
remat_status cuda_add_launch(struct cuda_emitter *e, struct cuda_source *s);

void cuda_add_word(struct cuda_emitter *e, uint32_t kind, uint64_t value);

/* Adds the addresses of all operands, and the bits of all parameters. */
void cuda_add_command_words(struct cuda_emitter *e, const struct remat_command *command);

/* Claims workspace for the command, a multiple of REMAT_ALIGNMENT. */
remat_status cuda_use_workspace(struct cuda_emitter *e, const struct cuda_source *s,
                                uint64_t bytes);

/* Adds the common prelude followed by `more`, an array that ends with NULL, or NULL. */
void cuda_add_prelude(struct cuda_emitter *e, const char *const *more);

/* --- templates: bodies of built-in kernels, BODY(...) in the .cu files, with constants as @NAME@
 * ---
 */

struct cuda_constant {
    const char *name;
    uint64_t value;
    const char *text; /* in place of the value; NULL: none */
};

extern const char cuda_body_adamw_coefficients[], cuda_body_advance[], cuda_body_batch_slice[],
    cuda_body_fill_normal[], cuda_body_fill_normal_part[], cuda_body_own_ids[],
    cuda_body_part_number[], cuda_body_rope_table[];
extern const char cuda_body_embedding[], cuda_body_sort[], cuda_body_scatter_add[];
extern const char cuda_body_attention_tiles[], cuda_body_attention_constants[],
    cuda_body_attention_segments[], cuda_body_attention_with_dropout[],
    cuda_body_attention_without_dropout[], cuda_body_attention_forward[],
    cuda_body_attention_delta[], cuda_body_attention_backward_keys[],
    cuda_body_attention_backward_queries[];

/* Writes a body, or a part of one; the constants include all that it names. */
void cuda_write_template(struct cuda_source *s, const char *body,
                         const struct cuda_constant *constants, uint32_t count);

/* --- commands --- */

/* cuda_emit_NAME, for each row of builtin_kernels.def that is dispatched as TEXT. */
#define BUILTIN_KERNEL(name, ...) cuda_emit cuda_emit_##name;
#include "builtin_kernels.def"
#undef BUILTIN_KERNEL

/* fused.c */
remat_status cuda_emit_fused(struct cuda_emitter *e, const struct remat_command *command);

/* move.c: fills `out`, an operand of the command, with `value`. */
remat_status cuda_fill(struct cuda_emitter *e, const struct remat_command *command,
                       const struct remat_operand *out, double value);

#endif
