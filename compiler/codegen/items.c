/* SPDX-License-Identifier: Apache-2.0 */
/* Built-in kernels whose threads know nothing of each other: each does one item, by the body in
 * its .cu file. The arguments are the items, a second count, the operands and the parameters (the
 * bits of doubles). An error on the CPU gives NaN here (and -1 in integers), as there is no way
 * back from a GPU. */
#include "body.h"
#include "emitter.h"
#include "unwind.h"

/* Operands, those that there are, and parameters by the names in builtin_kernels.def. */
static void write_names(struct cuda_source *s, uint32_t kind)
{
    const struct remat_kernel_row *row = remat_kernel_row(kind);
    const struct remat_command *command = s->command;
    const char *name;
    uint32_t word = 2, operands = command->operand_end - command->operand_begin;
    int length;
    for (uint32_t k = 0; k < operands; k++) {
        name =
            remat_kernel_row_name(row->operands, remat_operand_number(command->absent, k), &length);
        cuda_text(s, "u8 *const %.*s = (u8 *)arguments.word[%u];", length, name, word++);
    }
    for (uint32_t k = 0; (name = remat_kernel_row_name(row->parameters, k, &length)); k++)
        cuda_text(s, "const double %.*s = double_of_bits(arguments.word[%u]);", length, name,
                  word++);
}

/* The body up to the item; as many items as the last operand has elements, unless the kernel says
 * otherwise. */
static struct cuda_source begin_items(struct cuda_emitter *e, const struct remat_command *command)
{
    struct cuda_source s = cuda_start_source(e, command, CUDA_ITEMS);
    const struct remat_operand *last = &e->program->operands[command->operand_end - 1];
    for (uint32_t k = 0; k < last->rank; k++)
        s.rows *= (uint64_t)last->shape[k];
    cuda_text(&s, "const u64 item = (u64)block_index() * %u + thread_index();", CUDA_THREADS);
    cuda_text(&s, "if (item >= arguments.word[0]) return;");
    write_names(&s, e->program->kernels[command->kernel].kind);
    return s;
}

static remat_status end_items(struct cuda_emitter *e, struct cuda_source *s)
{
    s->blocks = cuda_divide_up(s->rows, CUDA_THREADS);
    REMAT_CHECK(cuda_add_launch(e, s));
    cuda_add_command_words(e, s->command);
    return REMAT_OK;
}

/* A thread has four elements, which are one call of Philox; the seed is the last argument. */
remat_status cuda_emit_fill_normal(struct cuda_emitter *e, const struct remat_command *command)
{
    struct cuda_source s = begin_items(e, command);
    const struct remat_operand *out = cuda_operand(e, command, 0);
    s.columns = s.rows;
    s.rows = (s.columns + 3) / 4;
    s.width = cuda_alignment(e, command) >= 4 * cuda_dtype_bytes(out->dtype) ? 4 : 1;
    const struct cuda_constant constants[] = {{"dtype", 0, cuda_dtype_name(out->dtype)},
                                              {"width", s.width, NULL}};
    cuda_write_template(&s, cuda_body_fill_normal, constants, 2);
    REMAT_CHECK(end_items(e, &s));
    cuda_add_word(e, REMAT_CUDA_SEED, 0);
    return REMAT_OK;
}

remat_status cuda_emit_fill_normal_part(struct cuda_emitter *e, const struct remat_command *command)
{
    struct cuda_source s = begin_items(e, command);
    const struct remat_operand *out = cuda_operand(e, command, 0);
    uint32_t operands = command->operand_end - command->operand_begin;
    const struct cuda_constant constants[] = {
        {"dtype", 0, cuda_dtype_name(out->dtype)},
        {"part", 0, cuda_has_operand(e, command, "rank") ? "(i32)read4(rank)" : "0"},
        {"block", 0, cuda_has_operand(e, command, "block") ? "(i32)read4(block)" : "0"},
        {"seed", 2 + operands + (command->parameter_end - command->parameter_begin), NULL}};
    s.rows = 1;
    for (uint32_t k = 0; k < out->rank; k++)
        s.rows *= (uint64_t)out->shape[k];
    s.columns = s.rows;
    cuda_write_template(&s, cuda_body_fill_normal_part, constants, 4);
    REMAT_CHECK(end_items(e, &s));
    cuda_add_word(e, REMAT_CUDA_SEED, 0);
    return REMAT_OK;
}

remat_status cuda_emit_own_ids(struct cuda_emitter *e, const struct remat_command *command)
{
    struct cuda_source s = begin_items(e, command);
    cuda_write_template(&s, cuda_body_own_ids, NULL, 0);
    return end_items(e, &s);
}

/* A thread has a pair of columns at a position. */
remat_status cuda_emit_rope_table(struct cuda_emitter *e, const struct remat_command *command)
{
    struct cuda_source s = begin_items(e, command);
    const int64_t *shape = cuda_operand(e, command, 0)->shape;
    s.columns = (uint64_t)shape[3];
    s.rows = (uint64_t)shape[0] * s.columns;
    cuda_write_template(&s, cuda_body_rope_table, NULL, 0);
    return end_items(e, &s);
}

/* A thread moves as many bytes of the part as are aligned everywhere, at most 16. */
remat_status cuda_emit_batch_slice(struct cuda_emitter *e, const struct remat_command *command)
{
    struct cuda_source s = begin_items(e, command);
    const struct remat_operand *in = cuda_operand(e, command, 0);
    const struct remat_operand *out = cuda_operand(e, command, 2);
    uint32_t unit = cuda_alignment(e, command);
    uint64_t bytes = s.rows * cuda_dtype_bytes(out->dtype);
    while (bytes % unit)
        unit /= 2;
    s.width = unit / cuda_dtype_bytes(out->dtype);
    s.rows = bytes / unit;
    s.columns = (uint64_t)(in->shape[0] / out->shape[0]);
    const struct cuda_constant constants[] = {{"unit", unit, NULL}};
    cuda_write_template(&s, cuda_body_batch_slice, constants, 1);
    return end_items(e, &s);
}

static remat_status emit_one(struct cuda_emitter *e, const struct remat_command *command,
                             const char *body)
{
    struct cuda_source s = begin_items(e, command);
    s.rows = s.columns = 1;
    cuda_write_template(&s, body, NULL, 0);
    return end_items(e, &s);
}

remat_status cuda_emit_adamw_coefficients(struct cuda_emitter *e,
                                          const struct remat_command *command)
{
    return emit_one(e, command, cuda_body_adamw_coefficients);
}

remat_status cuda_emit_advance(struct cuda_emitter *e, const struct remat_command *command)
{
    return emit_one(e, command, cuda_body_advance);
}

remat_status cuda_emit_part_number(struct cuda_emitter *e, const struct remat_command *command)
{
    return emit_one(e, command, cuda_body_part_number);
}
