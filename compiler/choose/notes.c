/* SPDX-License-Identifier: Apache-2.0 */
#include "notes.h"

#include "show.h"

#include <assert.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdarg.h>

remat_status remat_notes_add(struct remat_arena *arena, struct remat_program *program,
                             const char *format, ...)
{
    assert(format);
    remat_status st = REMAT_OK;
    char text[REMAT_MESSAGE_BYTES], shown[REMAT_MESSAGE_BYTES];
    const char **notes;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    remat_show_text(shown, sizeof shown, text);
    REMAT_TRY_NEW(arena, notes, program->note_count + 1);
    if (program->note_count)
        memcpy(notes, program->notes, program->note_count * sizeof *notes);
    notes[program->note_count] = remat_arena_string(arena, shown, strlen(shown));
    if (!notes[program->note_count])
        return REMAT_ERROR_MEMORY;
    program->notes = notes;
    program->note_count++;
fail:
    return st;
}

/* 0: it does not say. */
static int64_t made_for(const struct remat_program *program)
{
    json_t *config = json_loads(program->config ? program->config : "", 0, NULL);
    int64_t out = json_integer_value(json_object_get(config, "max_position_embeddings"));
    json_decref(config);
    return out;
}

/* Of the inputs [batch, length] of remat-graph. */
static int64_t longest_sequence(const struct remat_program *program)
{
    static const char *const inputs[] = {"tokens", "source"};
    int64_t longest = 0;
    for (uint32_t t = 0; t < program->tensor_count; t++) {
        const struct remat_program_value *value = &program->values[program->tensors[t].value];
        for (size_t k = 0; k < sizeof inputs / sizeof *inputs; k++)
            if (strcmp(program->tensors[t].name, inputs[k]) == 0 && value->rank == 2 &&
                value->shape[1] > longest)
                longest = value->shape[1];
    }
    return longest;
}

remat_status remat_positions_note(struct remat_arena *arena, struct remat_program *program)
{
    int64_t longest = longest_sequence(program), positions = made_for(program);
    if (positions <= 0 || longest <= positions)
        return REMAT_OK;
    return remat_notes_add(
        arena, program,
        "sequences of %lld tokens are above the %lld positions that the model was made "
        "for; its positions are computed, so there are more",
        (long long)longest, (long long)positions);
}

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
        !remat_dtype_is_rounded((remat_dtype)o->dtype))
        return 0;
    int64_t k = o[0].shape[o[0].rank - 1], n = o[2].shape[o[2].rank - 1];
    return n % ALIGNED_ELEMENTS ? n : k % ALIGNED_ELEMENTS ? k : 0;
}

static void add_products(const struct remat_program *p, const struct remat_call *call,
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

remat_status remat_unaligned_note(struct remat_arena *arena, struct remat_program *program)
{
    const struct remat_entry *train = remat_program_find_entry(program, "train");
    struct unaligned found = {0};
    if (!train)
        return REMAT_OK;
    for (uint32_t k = train->call_begin; k < train->call_end; k++)
        add_products(program, &program->calls[k], &found);
    if (found.ns * NOTED_PART <= found.all_ns)
        return REMAT_OK;
    return remat_notes_add(
        arena, program,
        "products of rows that are no multiple of %d elements, as %lld of \"%s\", take "
        "%.1f ms of a step: they are slow on a GPU%s",
        ALIGNED_ELEMENTS, (long long)found.row, found.name, found.ns / 1e6,
        is_vocabulary(program, found.row) ? " (remat-graph --make-vocab-size-divisible-by 64)"
                                          : "");
}

struct unnamed {
    double ns, all_ns;
    uint32_t count;   /* kernels */
    uint64_t most_ns; /* a command's */
    const char *name;
};

static void add_unnamed(const struct remat_program *p, const struct remat_call *call,
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

remat_status remat_unnamed_note(struct remat_arena *arena, struct remat_program *program)
{
    remat_status st = REMAT_OK;
    struct unnamed found = {0};
    uint8_t *is_found;
    REMAT_TRY_NEW(arena, is_found, program->kernel_count);
    const struct remat_entry *train = remat_program_find_entry(program, "train");
    for (uint32_t k = train ? train->call_begin : 0; train && k < train->call_end; k++)
        add_unnamed(program, &program->calls[k], is_found, &found);
    if (found.count)
        st = remat_notes_add(arena, program,
                             "the profile does not name %" PRIu32
                             " of the step's kernels, %.1f %% of its "
                             "time, that of \"%s\" above all: their prices are the description's",
                             found.count, 100 * found.ns / found.all_ns, found.name);
fail:
    return st;
}
