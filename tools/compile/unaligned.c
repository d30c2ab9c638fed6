/* SPDX-License-Identifier: Apache-2.0 */
#include "unaligned.h"

#include "notes.h"

#define ALIGNED_ELEMENTS 8   /* of 16 bits in 16 bytes */
#define NOTED_PART       100 /* of a step's time */

/* How long a row of a, b or c is that is not aligned; 0: all are. Products of f32 do not mind. */
static int64_t unaligned_row(const struct remat_program *p, const struct remat_command *command)
{
    const struct remat_operand *o = &p->operands[command->operand_begin];
    if (p->kernels[command->kernel].kind != REMAT_KERNEL_matmul ||
        remat_dtype_bytes((remat_dtype)o->dtype) != 2)
        return 0;
    int64_t k = o[0].shape[o[0].rank - 1], n = o[2].shape[o[2].rank - 1];
    return n % ALIGNED_ELEMENTS ? n : k % ALIGNED_ELEMENTS ? k : 0;
}

remat_status unaligned_note(struct remat_arena *arena, struct remat_program *program)
{
    const struct remat_entry *train = program->entries;
    double unaligned_ns = 0, all_ns = 0;
    int64_t longest = 0;
    while (strcmp(train->name, "train") != 0)
        if (++train == program->entries + program->entry_count)
            return REMAT_OK;
    for (uint32_t k = train->call_begin; k < train->call_end; k++) {
        const struct remat_call *call = &program->calls[k];
        const struct remat_segment *segment = &program->segments[call->segment];
        for (uint32_t c = segment->command_begin; c < segment->command_end; c++) {
            const struct remat_command *command = &program->commands[c];
            double ns = (double)command->estimated_ns * call->times;
            int64_t row = unaligned_row(program, command);
            all_ns += ns;
            unaligned_ns += row ? ns : 0;
            longest = row > longest ? row : longest;
        }
    }
    if (unaligned_ns * NOTED_PART <= all_ns)
        return REMAT_OK;
    return notes_add(
        arena, program,
        "products whose rows have up to %lld elements, no multiple of %d, take %.1f ms "
        "of a step: GPUs load such rows of 16-bit elements slowly (remat-graph "
        "--make-vocab-size-divisible-by 64 pads a vocabulary)",
        (long long)longest, ALIGNED_ELEMENTS, unaligned_ns / 1e6);
}
