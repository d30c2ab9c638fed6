/* SPDX-License-Identifier: Apache-2.0 */
#include "unnamed.h"

#include "kernel.h"
#include "notes.h"

#include <inttypes.h>

struct unnamed {
    double ns, all_ns;
    uint32_t count;   /* kernels */
    uint64_t most_ns; /* a command's */
    const char *name;
};

static void add_segment(const struct remat_program *p, const struct remat_call *call,
                        uint8_t *is_found, struct unnamed *out)
{
    const struct remat_segment *segment = &p->segments[call->segment];
    for (uint32_t c = segment->command_begin; c < segment->command_end; c++) {
        const struct remat_command *command = &p->commands[c];
        double ns = (double)command->estimated_ns * call->times;
        out->all_ns += ns;
        if (command->cost_source != REMAT_COST_MODELLED ||
            remat_kernel_kind_is_transfer(p->kernels[command->kernel].kind))
            continue;
        out->ns += ns;
        out->count += !is_found[command->kernel];
        is_found[command->kernel] = 1;
        if (command->estimated_ns > out->most_ns) {
            out->most_ns = command->estimated_ns;
            out->name = command->name;
        }
    }
}

remat_status unnamed_note(struct remat_arena *arena, struct remat_program *program)
{
    remat_status st = REMAT_OK;
    struct unnamed found = {0};
    uint8_t *is_found;
    REMAT_TRY_NEW(arena, is_found, program->kernel_count);
    const struct remat_entry *train = remat_program_find_entry(program, "train");
    for (uint32_t k = train ? train->call_begin : 0; train && k < train->call_end; k++)
        add_segment(program, &program->calls[k], is_found, &found);
    if (found.count)
        st =
            notes_add(arena, program,
                      "the profile does not name %" PRIu32 " of the step's kernels, %.1f %% of its "
                      "time, that of \"%s\" above all: their prices are the description's",
                      found.count, 100 * found.ns / found.all_ns, found.name);
fail:
    return st;
}
