/* SPDX-License-Identifier: Apache-2.0 */
/* Plans of small models, mutated field by field, and executed where they are still accepted: the
 * arena and its scratch lie in memory between pages that nobody may touch, and in part of the runs
 * each command may change nothing but what it writes. Most of what is accepted differs from its
 * seed in views, indices, orders and instructions, because what a plan claims of itself (live
 * bytes, peak, sizes of values) is mostly made right again after the mutation.
 *
 *     fuzz_plans [ACCEPTED [SEED [FIRST]]]
 *
 * runs until so many plans were accepted, counting mutations from FIRST on; the same seed repeats
 * the same mutations. A crash names the mutation. */
#include "borrowed_plan.h"
#include "harness.h"
#include "mutate.h"
#include "plans.h"
#include "program_simulate.h"
#include "program_verify.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define ROOM           (UINT64_C(48) << 20) /* for arena and scratch */
#define WORK_MAX       2000000              /* elements that a run touches; more is only verified */
#define WIDE_WORK_MAX  20000000             /* of the wide seed */
#define WIDE_EVERY     64                   /* mutations of which one is of the wide seed */
#define GUARD_EVERY    16
#define CHANGES_MAX    64
#define ITEM_BYTES_MAX sizeof(struct remat_operand)

/* --- seeds --- */

#define SIZES .layers = 1, .width = 8, .heads = 2, .vocab = 17, .context = 6, .batch = 2, .seq = 5

static const struct seed {
    const char *preset;
    struct remat_model_settings sizes;
    uint32_t ranks, microbatches;
    const char *policy; /* of named_policies */
} seeds[] = {
    {"gpt2-tiny", {SIZES}, 1, 1, "none"},
    {"gpt2-tiny", {SIZES, .dropout = 0.1, .optimizer.clip_norm = 1}, 1, 2, "block 1"},
    {"gpt2-tiny",
     {SIZES, .dtype = REMAT_BF16, .written_out = true, .dropout = 0.1},
     1,
     1,
     "block 1"},
    {"llama-tiny", {SIZES, .kv_heads = 1, .hidden = 12}, 1, 1, "block 1"},
    {"llama-tiny",
     {SIZES, .kv_heads = 1, .hidden = 12, .dtype = REMAT_BF16,
      .optimizer.kind = REMAT_OPTIMIZER_SGD},
     1,
     2,
     "none"},
    {"bert-tiny", {SIZES, .written_out = true}, 1, 1, "none"},
    {"bert-tiny", {SIZES, .dtype = REMAT_BF16, .dropout = 0.1}, 1, 1, "block 1"},
    {"encdec-tiny", {SIZES, .source_seq = 4, .optimizer.clip_norm = 1}, 1, 1, "block 1"},
    {"encdec-tiny",
     {SIZES, .source_seq = 4, .dtype = REMAT_BF16, .forward_only = true},
     1,
     1,
     "none"},
    {"gpt2-tiny", {SIZES, .dtype = REMAT_BF16, .dropout = 0.1}, 3, 1, "block 1"},
    {"bert-tiny", {SIZES, .dropout = 0.1, .optimizer.clip_norm = 1}, 4, 2, "none"},
    /* The wide one, last: rows of logits and of the table that the CPU device divides. */
    {"gpt2-tiny",
     {.layers = 1,
      .width = 4,
      .heads = 1,
      .vocab = 33000,
      .context = 2,
      .batch = 1,
      .seq = 2,
      .dtype = REMAT_BF16,
      .optimizer.kind = REMAT_OPTIMIZER_SGD},
     1,
     1,
     "none"},
};
enum { SEED_COUNT = sizeof seeds / sizeof *seeds, WIDE = SEED_COUNT - 1 };

/* --- changes, and taking them back --- */

struct change {
    void *at;
    size_t bytes;
    unsigned char before[ITEM_BYTES_MAX];
};

struct mutant {
    struct random random;
    struct remat_program *program;
    struct remat_program head; /* as it was */
    uint64_t *live_bytes;      /* [command], as they were */
    uint64_t *born_bytes;      /* [command + 1], scratch of repair */
    struct change changes[CHANGES_MAX];
    uint32_t change_count;
    uint64_t work_max;
};

static void change(struct mutant *m, void *at, const void *bytes, size_t count)
{
    if (m->change_count == CHANGES_MAX)
        return;
    struct change *c = &m->changes[m->change_count++];
    c->at = at;
    c->bytes = count;
    memcpy(c->before, at, count);
    memcpy(at, bytes, count);
}

static void take_back(struct mutant *m)
{
    while (m->change_count) {
        const struct change *c = &m->changes[--m->change_count];
        memcpy(c->at, c->before, c->bytes);
    }
    *m->program = m->head;
    for (uint32_t c = 0; c < m->head.command_count; c++)
        m->program->commands[c].live_bytes = m->live_bytes[c];
}

/* --- the fields of a program --- */

enum meaning { SIZE, INDEX, SMALL, TRUTH, REAL };

static const struct field {
    size_t table, count; /* of remat_program; table 0: the program itself */
    size_t item_bytes, offset, bytes;
    uint32_t elements; /* of an array */
    enum meaning meaning;
} fields[] = {
#define OF(items, n, Item, field, elements, meaning)                                               \
    {                                                                                              \
        offsetof(struct remat_program, items), offsetof(struct remat_program, n), sizeof(Item),    \
            offsetof(Item, field), sizeof(((Item *)0)->field) / (elements), elements, meaning      \
    }
#define BUFFER(field, meaning) OF(buffers, buffer_count, struct remat_buffer, field, 1, meaning)
#define VALUE(field, n, meaning)                                                                   \
    OF(values, value_count, struct remat_program_value, field, n, meaning)
#define OPERAND(field, n, meaning)                                                                 \
    OF(operands, operand_count, struct remat_operand, field, n, meaning)
#define COMMAND(field, n, meaning)                                                                 \
    OF(commands, command_count, struct remat_command, field, n, meaning)
#define HEAD(field)                                                                                \
    {                                                                                              \
        0, 0, 0, offsetof(struct remat_program, field), 8, 1, SIZE                                 \
    }
    BUFFER(offset_bytes, SIZE),
    BUFFER(bytes, SIZE),
    BUFFER(begin, INDEX),
    BUFFER(end, INDEX),
    BUFFER(persistent, TRUTH),
    VALUE(dtype, 1, SMALL),
    VALUE(role, 1, SMALL),
    VALUE(rank, 1, SMALL),
    VALUE(shape, REMAT_RANK_MAX, INDEX),
    VALUE(whole_rank, 1, SMALL),
    VALUE(part_axis, 1, SMALL),
    VALUE(part_run, 1, SMALL),
    VALUE(whole, REMAT_RANK_MAX, INDEX),
    VALUE(bytes, 1, SIZE),
    VALUE(buffer, 1, INDEX),
    OPERAND(value, 1, INDEX),
    OPERAND(value, 1, INDEX),
    OPERAND(previous, 1, INDEX),
    OPERAND(access, 1, SMALL),
    OPERAND(dtype, 1, SMALL),
    OPERAND(rank, 1, SMALL),
    OPERAND(shape, REMAT_RANK_MAX, INDEX),
    OPERAND(strides, REMAT_RANK_MAX, INDEX),
    OPERAND(strides, REMAT_RANK_MAX, INDEX),
    OPERAND(strides, REMAT_RANK_MAX, INDEX),
    OPERAND(offset_elements, 1, INDEX),
    OPERAND(offset_elements, 1, INDEX),
    COMMAND(kernel, 1, INDEX),
    COMMAND(operand_begin, 1, INDEX),
    COMMAND(operand_end, 1, INDEX),
    COMMAND(parameter_begin, 1, INDEX),
    COMMAND(parameter_end, 1, INDEX),
    COMMAND(rank, 1, SMALL),
    COMMAND(space, REMAT_RANK_MAX, INDEX),
    COMMAND(space, REMAT_RANK_MAX, INDEX),
    COMMAND(instance, 1, INDEX),
    OF(kernels, kernel_count, struct remat_kernel, kind, 1, SMALL),
    OF(kernels, kernel_count, struct remat_kernel, body.operand_count, 1, SMALL),
    OF(segments, segment_count, struct remat_segment, command_begin, 1, INDEX),
    OF(segments, segment_count, struct remat_segment, command_end, 1, INDEX),
    OF(calls, call_count, struct remat_call, segment, 1, INDEX),
    OF(calls, call_count, struct remat_call, times, 1, INDEX),
    OF(entries, entry_count, struct remat_entry, call_begin, 1, INDEX),
    OF(entries, entry_count, struct remat_entry, call_end, 1, INDEX),
    OF(tensors, tensor_count, struct remat_tensor, value, 1, INDEX),
    OF(tensors, tensor_count, struct remat_tensor, unpadded_rows, 1, INDEX),
    OF(mesh, mesh_count, struct remat_mesh_axis, size, 1, INDEX),
    OF(mesh, mesh_count, struct remat_mesh_axis, tensor, 1, INDEX),
    {offsetof(struct remat_program, parameters), offsetof(struct remat_program, parameter_count),
     sizeof(double), 0, sizeof(double), 1, REAL},
    HEAD(arena_bytes),
    HEAD(static_bytes),
    HEAD(workspace_bytes),
    HEAD(reserve_bytes),
    HEAD(budget_bytes),
};
enum { FIELD_COUNT = sizeof fields / sizeof *fields };

static uint64_t below(struct mutant *m, uint64_t limit)
{
    return limit ? random_below(&m->random, limit) : 0;
}

static uint32_t count_of(const struct mutant *m, const struct field *f)
{
    uint32_t count;
    memcpy(&count, (const char *)m->program + f->count, sizeof count);
    return f->table ? count : 1;
}

static char *item_of(const struct mutant *m, const struct field *f, uint64_t item)
{
    char *table;
    if (!f->table)
        return (char *)m->program;
    memcpy(&table, (const char *)m->program + f->table, sizeof table);
    return table + item * f->item_bytes;
}

static uint64_t get(const void *at, size_t bytes)
{
    uint64_t value = 0;
    memcpy(&value, at, bytes);
    return value;
}

static uint64_t extreme(struct mutant *m)
{
    static const uint64_t numbers[] = {0,
                                       1,
                                       2,
                                       255,
                                       256,
                                       512,
                                       INT32_MAX,
                                       UINT32_MAX,
                                       UINT64_C(1) << 32,
                                       REMAT_BYTES_MAX,
                                       REMAT_BYTES_MAX - 256,
                                       INT64_MAX,
                                       UINT64_C(1) << 62,
                                       UINT64_MAX,
                                       UINT64_MAX - 255};
    return numbers[below(m, sizeof numbers / sizeof *numbers)];
}

/* Near the old value, that of another place of the same field, or a number at some limit. */
static uint64_t new_value(struct mutant *m, const struct field *f, uint64_t old)
{
    uint64_t step = f->meaning == SIZE ? 256 : 1;
    if (f->meaning == REAL) {
        static const double reals[] = {0, 1, -1, 0.5, 0.999, 2, 1e300, -1e300, 4294967295.0};
        double real = reals[below(m, sizeof reals / sizeof *reals)];
        memcpy(&old, &real, sizeof real);
        return old;
    }
    if (f->meaning == TRUTH)
        return !old;
    if (f->meaning == SMALL)
        return below(m, 8);
    switch (below(m, 8)) {
    case 0:
    case 1:
        return old + step * (1 + below(m, 3));
    case 2:
    case 3:
        return old - step * (1 + below(m, 3));
    case 4:
        return below(m, 2) ? 2 * old : old / 2;
    case 5:
        return below(m, 8) ? below(m, 20) : extreme(m);
    default: {
        const char *other = item_of(m, f, below(m, count_of(m, f)));
        return get(other + f->offset + f->bytes * below(m, f->elements), f->bytes);
    }
    }
}

static void mutate_field(struct mutant *m)
{
    const struct field *f = &fields[below(m, FIELD_COUNT)];
    uint32_t count = count_of(m, f);
    if (!count)
        return;
    char *at = item_of(m, f, below(m, count)) + f->offset + f->bytes * below(m, f->elements);
    uint64_t value = new_value(m, f, get(at, f->bytes));
    change(m, at, &value, f->bytes);
}

static void swap(struct mutant *m, void *x, void *y, size_t bytes)
{
    unsigned char copy[ITEM_BYTES_MAX];
    memcpy(copy, x, bytes);
    change(m, x, y, bytes);
    change(m, y, copy, bytes);
}

/* Two commands without their operands, two operands, two values' buffers, two operands' values. */
static void swap_neighbours(struct mutant *m)
{
    struct remat_program *p = m->program;
    uint64_t c = below(m, p->command_count - 1u), o = below(m, p->operand_count - 1u),
             v = below(m, p->value_count - 1u), other = o + 1 + below(m, 4);
    other = other < p->operand_count ? other : o;
    struct remat_command *x = &p->commands[c], *y = &p->commands[c + 1];
    switch (below(m, 5)) {
    case 0:
        swap(m, &p->operands[o], &p->operands[other], sizeof *p->operands);
        break;
    case 1:
        swap(m, &p->operands[o].value, &p->operands[other].value, sizeof p->operands->value);
        break;
    case 2:
        swap(m, &p->values[v].buffer, &p->values[v + 1].buffer, sizeof p->values->buffer);
        break;
    case 3:
        swap(m, &x->kernel, &y->kernel, sizeof x->kernel);
        break;
    default:
        swap(m, x->space, y->space, sizeof x->space);
        swap(m, &x->rank, &y->rank, sizeof x->rank);
    }
}

/* A view of the same elements in another order, or of fewer. */
static void mutate_view(struct mutant *m)
{
    struct remat_operand *o = &m->program->operands[below(m, m->program->operand_count)];
    if (o->rank < 1)
        return;
    uint64_t a = below(m, o->rank), b = below(m, o->rank);
    const int64_t zero = 0;
    switch (below(m, 4)) {
    case 0:
        swap(m, &o->strides[a], &o->strides[b], sizeof *o->strides);
        if (below(m, 2))
            swap(m, &o->shape[a], &o->shape[b], sizeof *o->shape);
        break;
    case 1:
        if (o->access == REMAT_ACCESS_READ)
            change(m, &o->strides[a], &zero, sizeof zero);
        break;
    case 2: { /* a shorter axis, from a later element on */
        int64_t length = 1 + (int64_t)below(m, (uint64_t)o->shape[a]);
        uint64_t offset = o->offset_elements +
                          below(m, (uint64_t)(o->shape[a] - length) + 1) * (uint64_t)o->strides[a];
        change(m, &o->shape[a], &length, sizeof length);
        change(m, &o->offset_elements, &offset, sizeof offset);
        break;
    }
    default: {
        uint64_t offset = o->offset_elements + below(m, 5);
        change(m, &o->offset_elements, &offset, sizeof offset);
    }
    }
}

/* The same axis, shorter or longer, in the space of a command and in all its operands. */
static void mutate_space(struct mutant *m)
{
    struct remat_program *p = m->program;
    struct remat_command *c = &p->commands[below(m, p->command_count)];
    if (!c->rank)
        return;
    uint64_t axis = below(m, c->rank);
    int64_t before = c->space[axis], length = before - 2 + (int64_t)below(m, 4);
    change(m, &c->space[axis], &length, sizeof length);
    for (uint32_t o = c->operand_begin; o < c->operand_end; o++)
        if (axis < p->operands[o].rank && p->operands[o].shape[axis] == before)
            change(m, &p->operands[o].shape[axis], &length, sizeof length);
}

/* Another value of the same size and dtype, which may even be there. */
static void mutate_value(struct mutant *m)
{
    struct remat_program *p = m->program;
    struct remat_operand *o = &p->operands[below(m, p->operand_count)];
    for (int tries = 0; tries < 20; tries++) {
        uint32_t v = (uint32_t)below(m, p->value_count);
        if (v != o->value && p->values[v].dtype == o->dtype &&
            p->values[v].bytes >= p->values[o->value].bytes) {
            change(m, &o->value, &v, sizeof v);
            return;
        }
    }
}

static void mutate_instruction(struct mutant *m)
{
    struct remat_kernel *k = &m->program->kernels[below(m, m->program->kernel_count)];
    if (!k->body.instruction_count)
        return;
    uint64_t index = below(m, k->body.instruction_count);
    struct remat_instruction *i = (struct remat_instruction *)&k->body.instructions[index];
    struct remat_instruction new = *i;
    uint32_t arity = remat_opcode_arity(i->opcode);
    switch (below(m, 6)) {
    case 0:
    case 1: /* an opcode of the same arity */
        for (int tries = 0; tries < 20; tries++) {
            new.opcode = (uint16_t)below(m, REMAT_INSTRUCTION_COUNT);
            if (remat_opcode_arity(new.opcode) == arity)
                break;
        }
        break;
    case 2:
    case 3:
        if (arity)
            new.args[below(m, arity)] = (uint16_t)below(m, index + 1);
        break;
    case 4:
        new.operand = (uint16_t)below(m, k->body.operand_count + 1u);
        break;
    default:
        new.immediate = (float)below(m, 20) - 3;
    }
    change(m, i, &new, sizeof new);
}

static void mutate_script(struct mutant *m)
{
    struct remat_program *p = m->program;
    struct remat_call *call = &p->calls[below(m, p->call_count)];
    struct remat_segment *s = &p->segments[below(m, p->segment_count)];
    uint32_t times = 1 + (uint32_t)below(m, 3), segment = (uint32_t)below(m, p->segment_count),
             at = s->command_begin + (uint32_t)below(m, s->command_end - s->command_begin + 1u);
    switch (below(m, 4)) {
    case 0:
        change(m, &call->times, &times, sizeof times);
        break;
    case 1:
        change(m, &call->segment, &segment, sizeof segment);
        break;
    default: /* part of a segment */
        change(m, below(m, 2) ? &s->command_begin : &s->command_end, &at, sizeof at);
    }
}

/* Somewhere else, or for longer. */
static void mutate_buffer(struct mutant *m)
{
    struct remat_program *p = m->program;
    struct remat_buffer *b = &p->buffers[below(m, p->buffer_count)];
    uint64_t offset = p->buffers[below(m, p->buffer_count)].offset_bytes,
             bytes = b->bytes + 4 * below(m, 3);
    uint32_t begin = b->begin - (uint32_t)below(m, 2), end = b->end + (uint32_t)below(m, 2);
    switch (below(m, 3)) {
    case 0:
        change(m, &b->offset_bytes, &offset, sizeof offset);
        break;
    case 1:
        change(m, &b->bytes, &bytes, sizeof bytes);
        break;
    default:
        change(m, &b->begin, &begin, sizeof begin);
        change(m, &b->end, &end, sizeof end);
    }
}

/* What the plan claims of itself. */
static void repair(struct mutant *m)
{
    struct remat_program *p = m->program;
    uint64_t live_bytes = p->static_bytes;
    memset(m->born_bytes, 0, (p->command_count + 1u) * sizeof *m->born_bytes);
    p->touched_bytes = p->peak_bytes = p->peak_command = 0;
    for (uint32_t i = 0; i < p->buffer_count; i++) {
        const struct remat_buffer *b = &p->buffers[i];
        uint64_t end = b->offset_bytes + b->bytes;
        p->touched_bytes = end > p->touched_bytes ? end : p->touched_bytes;
        if (b->persistent || b->begin >= b->end || b->end > p->command_count ||
            b->bytes > REMAT_BYTES_MAX)
            continue;
        m->born_bytes[b->begin] += remat_align_up(b->bytes, REMAT_ALIGNMENT);
        m->born_bytes[b->end] -= remat_align_up(b->bytes, REMAT_ALIGNMENT);
    }
    for (uint32_t c = 0; c < p->command_count; c++) {
        live_bytes += m->born_bytes[c];
        p->commands[c].live_bytes = live_bytes;
        if (p->commands[c].live_bytes > p->peak_bytes) {
            p->peak_bytes = p->commands[c].live_bytes;
            p->peak_command = c;
        }
    }
}

static void mutate_plan(struct mutant *m)
{
    static void (*const kinds[])(struct mutant *) = {
        mutate_field, mutate_field,       mutate_field,  swap_neighbours, mutate_view, mutate_view,
        mutate_value, mutate_instruction, mutate_script, mutate_buffer,   mutate_space};
    uint64_t count = below(m, 2) ? 1 : 1 + below(m, 3);
    for (uint64_t k = 0; k < count; k++)
        kinds[below(m, sizeof kinds / sizeof *kinds)](m);
    if (below(m, 16))
        repair(m);
}

/* --- execution --- */

static char *room; /* ROOM bytes between pages without access */

static uint64_t work_of(const struct remat_program *p, const struct remat_command *c)
{
    uint64_t most = 1, work = 1;
    for (uint32_t d = 0; d < c->rank; d++)
        most *= (uint64_t)c->space[d];
    for (uint32_t o = c->operand_begin; o < c->operand_end; o++) {
        uint64_t elements = 1;
        for (uint32_t d = 0; d < p->operands[o].rank; d++)
            elements *= (uint64_t)p->operands[o].shape[d];
        most = elements > most ? elements : most;
        work += elements;
    }
    /* a product of matrices: each of its three sides against another */
    return p->kernels[c->kernel].kind == REMAT_KERNEL_fused || most > WIDE_WORK_MAX
               ? most
               : work + 8 * most;
}

static bool is_short(const struct mutant *m)
{
    const struct remat_program *p = m->program;
    uint64_t work = 0;
    if (p->arena_bytes > ROOM / 4)
        return false;
    for (uint32_t e = 0; e < p->entry_count; e++)
        for (uint32_t k = p->entries[e].call_begin; k < p->entries[e].call_end; k++) {
            const struct remat_segment *s = &p->segments[p->calls[k].segment];
            if (p->calls[k].times > 100)
                return false;
            for (uint32_t c = s->command_begin; c < s->command_end; c++)
                work += p->calls[k].times * work_of(p, &p->commands[c]);
            if (work > m->work_max)
                return false;
        }
    return true;
}

/* Past what a session checks: ids that no table has, too. */
static void write_inputs(struct mutant *m, char *arena)
{
    const struct remat_program *p = m->program;
    bool good = below(m, 8) != 0;
    for (uint32_t t = 0; t < p->tensor_count; t++) {
        const struct remat_program_value *v = &p->values[p->tensors[t].value];
        char *at = arena + p->buffers[v->buffer].offset_bytes;
        if (v->role != REMAT_ROLE_INPUT)
            continue;
        for (uint64_t i = 0; i + 4 <= v->bytes; i += 4) {
            int32_t id = good ? 1 + (int32_t)below(m, 5) : (int32_t)random_u64(&m->random);
            float real = (float)id * 0.01f;
            memcpy(at + i, v->dtype == REMAT_I32 ? (void *)&id : (void *)&real, 4);
        }
    }
}

static uint64_t part_length(const remat_transfer *t, uint32_t position)
{
    uint64_t begin = position * t->part_bytes, end = begin + t->part_bytes;
    end = end < t->whole_bytes ? end : t->whole_bytes;
    return end > begin ? end - begin : 0;
}

/* As if all ranks had what this one has. */
static remat_status echo_exchange(void *user, const remat_transfer *t, uint32_t count,
                                  char *message)
{
    (void)user, (void)message;
    for (const remat_transfer *end = t + count; t < end; t++) {
        const char *part = (const char *)t->from + t->position * t->part_bytes;
        for (uint32_t q = 0; q < t->size && part_length(t, t->position); q++)
            memcpy((char *)t->to + q * t->part_bytes, part, part_length(t, t->position));
    }
    return REMAT_OK;
}

static remat_status echo_gather(void *user, const remat_transfer *t, uint32_t count, char *message)
{
    (void)user, (void)message;
    for (const remat_transfer *end = t + count; t < end; t++)
        for (uint32_t q = 0; q < t->size && part_length(t, q); q++)
            memcpy((char *)t->to + q * t->part_bytes, t->from, part_length(t, q));
    return REMAT_OK;
}

struct tally {
    uint64_t mutations, accepted, run, wide, refused, failed;
};

static void execute(remat_context *ctx, struct mutant *m, struct tally *tally)
{
    struct remat_plan plan = borrowed_plan(m->program);
    remat_session_params params;
    remat_session *session = NULL;
    remat_session_params_init(&params);
    params.threads = below(m, 64) ? 1 : 2;
    bool guarded = below(m, GUARD_EVERY) == 0, at_end = below(m, 2);
    uint32_t ranks = remat_program_ranks(m->program);
    const remat_engine engine = {.struct_size = sizeof engine,
                                 .rank = (uint32_t)below(m, ranks),
                                 .ranks = ranks,
                                 .exchange = echo_exchange,
                                 .gather = echo_gather};
    params.engine = &engine;
    remat_status st = REMAT_OK;
    params.memory = room;
    params.memory_bytes = ROOM;
    if (at_end) {
        st = remat_session_memory_bytes(ctx, &plan, &params, &params.memory_bytes);
        params.memory = room + ROOM - params.memory_bytes;
    }
    if (st == REMAT_OK && params.memory_bytes <= ROOM)
        st = remat_session_create(ctx, &plan, &params, &session);
    if (st == REMAT_OK && session && guarded)
        st = remat_session_guard(session);
    if (st != REMAT_OK) { /* what a device does not have */
        tally->refused++;
        CHECK(st == REMAT_ERROR_INVALID || st == REMAT_ERROR_INFEASIBLE, "%d %s", (int)st,
              remat_context_message(ctx));
    }
    for (uint32_t e = 0; session && st == REMAT_OK && e < m->program->entry_count; e++) {
        write_inputs(m, params.memory);
        st = remat_session_run(session, m->program->entries[e].name);
        tally->failed += st != REMAT_OK;
        CHECK(st == REMAT_OK || st == REMAT_ERROR_INVALID, "%d %s", (int)st,
              remat_context_message(ctx));
    }
    tally->run += session != NULL;
    tally->wide += session != NULL && m->work_max == WIDE_WORK_MAX;
    remat_session_destroy(&session);
}

/* --- campaign --- */

static char where[80];

static void say_where(void)
{
    ssize_t written = write(STDOUT_FILENO, where, strlen(where));
    (void)written;
}

static void on_signal(int number)
{
    say_where();
    signal(number, SIG_DFL);
    raise(number);
}

void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));

static void prepare_room(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), far = (size_t)1 << 20;
    room = mmap(NULL, ROOM + 2 * far, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MUST(room != MAP_FAILED && ROOM % page == 0 &&
         mprotect(room + far, ROOM, PROT_READ | PROT_WRITE) == 0);
    room += far;
    if (__sanitizer_set_death_callback)
        __sanitizer_set_death_callback(say_where);
    const int signals[] = {SIGSEGV, SIGBUS, SIGFPE};
    for (size_t s = 0; s < sizeof signals / sizeof *signals && !__sanitizer_set_death_callback; s++)
        signal(signals[s], on_signal);
}

static struct remat_program *compile(remat_context *ctx, struct remat_arena *arena,
                                     const struct seed *seed)
{
    struct remat_program *program;
    struct remat_graph *graph = harness_model(ctx, arena, seed->preset, seed->sizes);
    unsigned policy = 0;
    while (strcmp(named_policies[policy].name, seed->policy) != 0)
        policy++;
    graph->microbatches = seed->microbatches;
    if (seed->ranks > 1)
        graph->mesh = (struct remat_mesh){1, {{"dp", seed->ranks}}};
    graph->zero = seed->ranks == 3;
    MUST_OK(ctx, harness_compile(ctx, arena, graph, &named_policies[policy].settings, 0, &program));
    program->cuda = (struct remat_cuda_code){0};
    return program;
}

static void make_mutant(remat_context *ctx, struct remat_arena *arena, struct mutant *m,
                        const struct seed *seed)
{
    struct remat_program *p = compile(ctx, arena, seed);
    *m = (struct mutant){
        .program = p, .head = *p, .work_max = seed == &seeds[WIDE] ? WIDE_WORK_MAX : WORK_MAX};
    m->live_bytes = harness_array(ctx, arena, p->command_count, sizeof *m->live_bytes);
    m->born_bytes = harness_array(ctx, arena, p->command_count + 1u, sizeof *m->born_bytes);
    for (uint32_t c = 0; c < p->command_count; c++)
        m->live_bytes[c] = p->commands[c].live_bytes;
}

static struct mutant *choose(struct mutant *mutants, uint64_t number)
{
    return &mutants[number % WIDE_EVERY == 0 ? WIDE : number % WIDE];
}

static void run_mutation(remat_context *ctx, struct mutant *m, struct tally *tally, uint64_t number,
                         uint64_t seed)
{
    uint64_t random[] = {seed, number};
    m->random.state = remat_hash(random, sizeof random, 0);
    snprintf(where, sizeof where, "\nmutation %llu of seed %llu\n", (unsigned long long)number,
             (unsigned long long)seed);
    int before = checks_failed();
    mutate_plan(m);
    remat_status st = remat_program_verify(ctx, m->program);
    st = st ? st : remat_program_simulate(ctx, m->program);
    if (st == REMAT_OK) {
        tally->accepted++;
        if (is_short(m))
            execute(ctx, m, tally);
    } else {
        CHECK_STATUS(ctx, st, REMAT_ERROR_INVALID, "");
    }
    if (checks_failed() != before)
        say_where();
    take_back(m);
}

int main(int argc, char **argv)
{
    uint64_t wanted = argc > 1 ? strtoull(argv[1], NULL, 10) : 15000;
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    struct tally tally = {.mutations = argc > 3 ? strtoull(argv[3], NULL, 10) : 0};
    uint64_t first = tally.mutations;
    static struct mutant mutants[SEED_COUNT];
    struct remat_arena arena;
    remat_context *ctx = remat_context_create(NULL, NULL);
    MUST(ctx);
    remat_arena_init(&arena, ctx);
    prepare_room();
    for (size_t s = 0; s < SEED_COUNT; s++)
        make_mutant(ctx, &arena, &mutants[s], &seeds[s]);
    for (; tally.accepted < wanted && !checks_failed(); tally.mutations++)
        run_mutation(ctx, choose(mutants, tally.mutations), &tally, tally.mutations, seed);
    printf("%llu mutations: %llu accepted, %llu of them run (%llu wide), %llu refused by the "
           "device, %llu ended "
           "by a bad index; %.0f s of CPU\n",
           (unsigned long long)(tally.mutations - first), (unsigned long long)tally.accepted,
           (unsigned long long)tally.run, (unsigned long long)tally.wide,
           (unsigned long long)tally.refused, (unsigned long long)tally.failed,
           (double)clock() / CLOCKS_PER_SEC);
    remat_arena_release(&arena);
    remat_context_destroy(&ctx);
    return check_exit();
}
