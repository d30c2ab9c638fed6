/* SPDX-License-Identifier: Apache-2.0 */
#include "mutant.h"

#include "check.h"

void mutant_make(struct remat_arena *arena, struct mutant *m, struct remat_program *program,
                 uint64_t work_max)
{
    *m = (struct mutant){.program = program, .head = *program, .work_max = work_max};
    MUST(m->live_bytes = remat_arena_array(arena, program->command_count, sizeof *m->live_bytes));
    MUST(m->born_bytes =
             remat_arena_array(arena, program->command_count + 1u, sizeof *m->born_bytes));
    for (uint32_t c = 0; c < program->command_count; c++)
        m->live_bytes[c] = program->commands[c].live_bytes;
}

void mutant_set(struct mutant *m, void *at, const void *bytes, size_t count)
{
    if (m->change_count == CHANGES_MAX)
        return;
    struct change *c = &m->changes[m->change_count++];
    c->at = at;
    c->bytes = count;
    memcpy(c->before, at, count);
    memcpy(at, bytes, count);
}

void mutant_take_back(struct mutant *m)
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
    VALUE(block_axis, 1, SMALL),
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
    OF(calls, call_count, struct remat_call, first, 1, INDEX),
    OF(entries, entry_count, struct remat_entry, call_begin, 1, INDEX),
    OF(entries, entry_count, struct remat_entry, call_end, 1, INDEX),
    OF(tensors, tensor_count, struct remat_tensor, value, 1, INDEX),
    OF(tensors, tensor_count, struct remat_tensor, unpadded_rows, 1, INDEX),
    OF(mesh, mesh_count, struct remat_mesh_axis, size, 1, INDEX),
    OF(mesh, mesh_count, struct remat_mesh_axis, tensor, 1, INDEX),
    {offsetof(struct remat_program, parameters), offsetof(struct remat_program, parameter_count),
     sizeof(double), 0, sizeof(double), 1, REAL},
    {0, 0, 0, offsetof(struct remat_program, number_tensor), 4, 1, INDEX},
    HEAD(arena_bytes),
    HEAD(static_bytes),
    HEAD(workspace_bytes),
    HEAD(reserve_bytes),
    HEAD(budget_bytes),
};
enum { FIELD_COUNT = sizeof fields / sizeof *fields };

uint64_t mutant_below(struct mutant *m, uint64_t limit)
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
    return numbers[mutant_below(m, sizeof numbers / sizeof *numbers)];
}

/* Near the old value, that of another place of the same field, or a number at some limit. */
static uint64_t new_value(struct mutant *m, const struct field *f, uint64_t old)
{
    uint64_t step = f->meaning == SIZE ? 256 : 1;
    if (f->meaning == REAL) {
        static const double reals[] = {0, 1, -1, 0.5, 0.999, 2, 1e300, -1e300, 4294967295.0};
        double real = reals[mutant_below(m, sizeof reals / sizeof *reals)];
        memcpy(&old, &real, sizeof real);
        return old;
    }
    if (f->meaning == TRUTH)
        return !old;
    if (f->meaning == SMALL)
        return mutant_below(m, 8);
    switch (mutant_below(m, 8)) {
    case 0:
    case 1:
        return old + step * (1 + mutant_below(m, 3));
    case 2:
    case 3:
        return old - step * (1 + mutant_below(m, 3));
    case 4:
        return mutant_below(m, 2) ? 2 * old : old / 2;
    case 5:
        return mutant_below(m, 8) ? mutant_below(m, 20) : extreme(m);
    default: {
        const char *other = item_of(m, f, mutant_below(m, count_of(m, f)));
        return get(other + f->offset + f->bytes * mutant_below(m, f->elements), f->bytes);
    }
    }
}

static void mutate_field(struct mutant *m)
{
    const struct field *f = &fields[mutant_below(m, FIELD_COUNT)];
    uint32_t count = count_of(m, f);
    if (!count)
        return;
    char *at =
        item_of(m, f, mutant_below(m, count)) + f->offset + f->bytes * mutant_below(m, f->elements);
    uint64_t value = new_value(m, f, get(at, f->bytes));
    mutant_set(m, at, &value, f->bytes);
}

static void swap(struct mutant *m, void *x, void *y, size_t bytes)
{
    unsigned char copy[ITEM_BYTES_MAX];
    memcpy(copy, x, bytes);
    mutant_set(m, x, y, bytes);
    mutant_set(m, y, copy, bytes);
}

/* Two commands without their operands, two operands, two values' buffers, two operands' values. */
static void swap_neighbours(struct mutant *m)
{
    struct remat_program *p = m->program;
    uint64_t c = mutant_below(m, p->command_count - 1u), o = mutant_below(m, p->operand_count - 1u),
             v = mutant_below(m, p->value_count - 1u), other = o + 1 + mutant_below(m, 4);
    other = other < p->operand_count ? other : o;
    struct remat_command *x = &p->commands[c], *y = &p->commands[c + 1];
    switch (mutant_below(m, 5)) {
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
    struct remat_operand *o = &m->program->operands[mutant_below(m, m->program->operand_count)];
    if (o->rank < 1)
        return;
    uint64_t a = mutant_below(m, o->rank), b = mutant_below(m, o->rank);
    const int64_t zero = 0;
    switch (mutant_below(m, 4)) {
    case 0:
        swap(m, &o->strides[a], &o->strides[b], sizeof *o->strides);
        if (mutant_below(m, 2))
            swap(m, &o->shape[a], &o->shape[b], sizeof *o->shape);
        break;
    case 1:
        if (o->access == REMAT_ACCESS_READ)
            mutant_set(m, &o->strides[a], &zero, sizeof zero);
        break;
    case 2: { /* a shorter axis, from a later element on */
        int64_t length = 1 + (int64_t)mutant_below(m, (uint64_t)o->shape[a]);
        uint64_t offset =
            o->offset_elements +
            mutant_below(m, (uint64_t)(o->shape[a] - length) + 1) * (uint64_t)o->strides[a];
        mutant_set(m, &o->shape[a], &length, sizeof length);
        mutant_set(m, &o->offset_elements, &offset, sizeof offset);
        break;
    }
    default: {
        uint64_t offset = o->offset_elements + mutant_below(m, 5);
        mutant_set(m, &o->offset_elements, &offset, sizeof offset);
    }
    }
}

/* The same axis, shorter or longer, in the space of a command and in all its operands. */
static void mutate_space(struct mutant *m)
{
    struct remat_program *p = m->program;
    struct remat_command *c = &p->commands[mutant_below(m, p->command_count)];
    if (!c->rank)
        return;
    uint64_t axis = mutant_below(m, c->rank);
    int64_t before = c->space[axis], length = before - 2 + (int64_t)mutant_below(m, 4);
    mutant_set(m, &c->space[axis], &length, sizeof length);
    for (uint32_t o = c->operand_begin; o < c->operand_end; o++)
        if (axis < p->operands[o].rank && p->operands[o].shape[axis] == before)
            mutant_set(m, &p->operands[o].shape[axis], &length, sizeof length);
}

/* Another value of the same size and dtype, which may even be there. */
static void mutate_value(struct mutant *m)
{
    struct remat_program *p = m->program;
    struct remat_operand *o = &p->operands[mutant_below(m, p->operand_count)];
    for (int tries = 0; tries < 20; tries++) {
        uint32_t v = (uint32_t)mutant_below(m, p->value_count);
        if (v != o->value && p->values[v].dtype == o->dtype &&
            p->values[v].bytes >= p->values[o->value].bytes) {
            mutant_set(m, &o->value, &v, sizeof v);
            return;
        }
    }
}

static void mutate_instruction(struct mutant *m)
{
    struct remat_kernel *k = &m->program->kernels[mutant_below(m, m->program->kernel_count)];
    if (!k->body.instruction_count)
        return;
    uint64_t index = mutant_below(m, k->body.instruction_count);
    struct remat_instruction *i = (struct remat_instruction *)&k->body.instructions[index];
    struct remat_instruction new = *i;
    uint32_t arity = remat_opcode_arity(i->opcode);
    switch (mutant_below(m, 6)) {
    case 0:
    case 1: /* an opcode of the same arity */
        for (int tries = 0; tries < 20; tries++) {
            new.opcode = (uint16_t)mutant_below(m, REMAT_INSTRUCTION_COUNT);
            if (remat_opcode_arity(new.opcode) == arity)
                break;
        }
        break;
    case 2:
    case 3:
        if (arity)
            new.args[mutant_below(m, arity)] = (uint16_t)mutant_below(m, index + 1);
        break;
    case 4:
        new.operand = (uint16_t)mutant_below(m, k->body.operand_count + 1u);
        break;
    default:
        new.immediate = (float)mutant_below(m, 20) - 3;
    }
    mutant_set(m, i, &new, sizeof new);
}

static void mutate_script(struct mutant *m)
{
    struct remat_program *p = m->program;
    struct remat_call *call = &p->calls[mutant_below(m, p->call_count)];
    struct remat_segment *s = &p->segments[mutant_below(m, p->segment_count)];
    uint32_t times = 1 + (uint32_t)mutant_below(m, 3),
             segment = (uint32_t)mutant_below(m, p->segment_count),
             at = s->command_begin +
                  (uint32_t)mutant_below(m, s->command_end - s->command_begin + 1u);
    switch (mutant_below(m, 4)) {
    case 0:
        mutant_set(m, &call->times, &times, sizeof times);
        break;
    case 1:
        mutant_set(m, &call->segment, &segment, sizeof segment);
        break;
    default: /* part of a segment */
        mutant_set(m, mutant_below(m, 2) ? &s->command_begin : &s->command_end, &at, sizeof at);
    }
}

/* Somewhere else, or for longer. */
static void mutate_buffer(struct mutant *m)
{
    struct remat_program *p = m->program;
    struct remat_buffer *b = &p->buffers[mutant_below(m, p->buffer_count)];
    uint64_t offset = p->buffers[mutant_below(m, p->buffer_count)].offset_bytes,
             bytes = b->bytes + 4 * mutant_below(m, 3);
    uint32_t begin = b->begin - (uint32_t)mutant_below(m, 2),
             end = b->end + (uint32_t)mutant_below(m, 2);
    switch (mutant_below(m, 3)) {
    case 0:
        mutant_set(m, &b->offset_bytes, &offset, sizeof offset);
        break;
    case 1:
        mutant_set(m, &b->bytes, &bytes, sizeof bytes);
        break;
    default:
        mutant_set(m, &b->begin, &begin, sizeof begin);
        mutant_set(m, &b->end, &end, sizeof end);
    }
}

void mutant_repair(struct mutant *m)
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

void mutant_change(struct mutant *m, bool streams)
{
    static void (*const kinds[])(struct mutant *) = {
        mutate_field, mutate_field,       mutate_field,  swap_neighbours, mutate_view, mutate_view,
        mutate_value, mutate_instruction, mutate_script, mutate_buffer,   mutate_space};
    uint64_t count = mutant_below(m, 2) ? 1 : 1 + mutant_below(m, 3);
    for (uint64_t k = 0; k < count; k++)
        if (streams && mutant_below(m, 2))
            mutant_change_stream(m);
        else
            kinds[mutant_below(m, sizeof kinds / sizeof *kinds)](m);
    if (mutant_below(m, 16))
        mutant_repair(m);
}
