/* SPDX-License-Identifier: Apache-2.0 */
/* Private to compiler/codegen: the code of a plan so far, and how a command adds to it. */
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

double cuda_parameter(const struct cuda_emitter *e, const struct remat_command *command,
                      uint32_t index);

/* Where its elements begin in the arena, in bytes. */
uint64_t cuda_operand_begin(const struct cuda_emitter *e, const struct remat_operand *operand);

/* Of where the operands begin, at most 16 bytes. */
uint32_t cuda_alignment(const struct cuda_emitter *e, const struct remat_command *command);

/* An empty kernel of one row, with nothing written. */
struct cuda_source cuda_start_source(struct cuda_emitter *e, const struct remat_command *command,
                                     enum cuda_shape shape);

/* The kernel whose body has just been written, and a launch of it, with the arguments that every
 * launch has; more may follow. */
remat_status cuda_add_launch(struct cuda_emitter *e, struct cuda_source *s);

void cuda_add_word(struct cuda_emitter *e, uint32_t kind, uint64_t value);

/* The addresses of all operands, and the bits of all parameters. */
void cuda_add_command_words(struct cuda_emitter *e, const struct remat_command *command);

/* The command uses so much of the workspace, a multiple of REMAT_ALIGNMENT. */
remat_status cuda_use_workspace(struct cuda_emitter *e, const struct cuda_source *s,
                                uint64_t bytes);

/* The text that all kernels begin with, and more of some: NULL at the end, or NULL. */
void cuda_add_prelude(struct cuda_emitter *e, const char *const *more);

#endif
