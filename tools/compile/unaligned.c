/* SPDX-License-Identifier: Apache-2.0 */
#include "unaligned.h"

#include "notes.h"

#define ALIGNED_ELEMENTS 8   /* of 16 bits in 16 bytes */
#define NOTED_PART       100 /* of a step's time */

struct unaligned {
    double ns, all_ns;
    const char *name; /* the product that takes the most */
    uint64_t most_ns;
    int64_t row;
};

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

static void add_segment(const struct remat_program *p, const struct remat_call *call,
                        struct unaligned *out)
{
    const struct remat_segment *segment = &p->segments[call->segment];
    for (uint32_t c = segment->command_begin; c < segment->command_end; c++) {
        const struct remat_command *command = &p->commands[c];
        double ns = (double)command->estimated_ns * call->times;
        int64_t row = unaligned_row(p, command);
        out->all_ns += ns;
        if (!row)
            continue;
        out->ns += ns;
        if (command->estimated_ns > out->most_ns) {
            out->most_ns = command->estimated_ns;
            out->name = command->name;
            out->row = row;
        }
    }
}

static bool is_vocabulary(const struct remat_program *p, int64_t row)
{
    for (uint32_t t = 0; t < p->tensor_count; t++)
        if (p->tensors[t].index_bound == row)
            return true;
    return false;
}

remat_status unaligned_note(struct remat_arena *arena, struct remat_program *program)
{
    const struct remat_entry *train = remat_program_find_entry(program, "train");
    struct unaligned found = {0};
    if (!train)
        return REMAT_OK;
    for (uint32_t k = train->call_begin; k < train->call_end; k++)
        add_segment(program, &program->calls[k], &found);
    if (found.ns * NOTED_PART <= found.all_ns)
        return REMAT_OK;
    return notes_add(
        arena, program,
        "products of rows that are no multiple of %d elements, as %lld of \"%s\", take "
        "%.1f ms of a step: they are slow on a GPU%s",
        ALIGNED_ELEMENTS, (long long)found.row, found.name, found.ns / 1e6,
        is_vocabulary(program, found.row) ? " (remat-graph --make-vocab-size-divisible-by 64)"
                                          : "");
}
