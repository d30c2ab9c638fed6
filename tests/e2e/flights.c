/* SPDX-License-Identifier: Apache-2.0 */
#include "flights.h"

bool flights_is_transfer(const struct remat_program *p, uint32_t command)
{
    return remat_kernel_kind_is_transfer(p->kernels[p->commands[command].kernel].kind);
}

uint32_t flights_segment_end(const struct remat_program *p, uint32_t command)
{
    uint32_t end = p->command_count;
    for (uint32_t s = 0; s < p->segment_count; s++)
        if (p->segments[s].command_begin <= command && command < p->segments[s].command_end &&
            p->segments[s].command_end < end)
            end = p->segments[s].command_end;
    return end;
}

static struct remat_buffer *buffer_of(const struct remat_program *p, uint32_t operand)
{
    return &p->buffers[p->values[p->operands[operand].value].buffer];
}

struct remat_buffer *flights_buffer(const struct remat_program *p, uint32_t command,
                                    uint32_t operand)
{
    return buffer_of(p, p->commands[command].operand_begin + operand);
}

static bool overlap(const struct remat_buffer *a, const struct remat_buffer *b)
{
    return a->offset_bytes < b->offset_bytes + b->bytes &&
           b->offset_bytes < a->offset_bytes + a->bytes;
}

static bool is_live(const struct remat_buffer *b, uint32_t command)
{
    return !b->persistent && b->begin <= command && command < b->end;
}

void flights_claim(struct remat_program *p)
{
    p->peak_bytes = p->touched_bytes = 0;
    for (uint32_t c = 0; c < p->command_count; c++) {
        uint64_t bytes = p->static_bytes;
        for (uint32_t b = 0; b < p->buffer_count; b++)
            if (is_live(&p->buffers[b], c))
                bytes += remat_align_up(p->buffers[b].bytes, REMAT_ALIGNMENT);
        p->commands[c].live_bytes = bytes;
        p->peak_command = bytes > p->peak_bytes ? c : p->peak_command;
        p->peak_bytes = bytes > p->peak_bytes ? bytes : p->peak_bytes;
    }
    for (uint32_t b = 0; b < p->buffer_count; b++) {
        uint64_t end = p->buffers[b].offset_bytes + p->buffers[b].bytes;
        p->touched_bytes = end > p->touched_bytes ? end : p->touched_bytes;
    }
}

/* An address in the arena that a command's launch is given, where its operand lies now. */
static uint64_t moved_address(const struct remat_program *p, const struct remat_buffer *before,
                              uint32_t command, uint64_t address)
{
    const struct remat_command *c = &p->commands[command];
    for (uint32_t o = c->operand_begin; o < c->operand_end; o++) {
        uint32_t b = p->values[p->operands[o].value].buffer;
        uint64_t at = address - before[b].offset_bytes;
        if (address >= before[b].offset_bytes && at < before[b].bytes)
            return p->buffers[b].offset_bytes + at;
    }
    MUST(address < p->static_bytes, "an address of no operand");
    return address;
}

static void move_addresses(remat_context *ctx, struct remat_arena *arena, struct remat_program *p,
                           const struct remat_buffer *before)
{
    struct remat_cuda_code *code = &p->cuda;
    if (!code->launch_begin)
        return; /* a plan of a CPU */
    struct remat_cuda_word *words = harness_array(ctx, arena, code->word_count, sizeof *words);
    memcpy(words, code->words, code->word_count * sizeof *words);
    for (uint32_t c = 0; c < p->command_count; c++)
        for (uint32_t l = code->launch_begin[c]; l < code->launch_begin[c + 1]; l++)
            for (uint32_t w = code->launches[l].word_begin; w < code->launches[l].word_end; w++)
                if (words[w].kind == REMAT_CUDA_ARENA)
                    words[w].value = moved_address(p, before, c, code->words[w].value);
    code->words = words;
}

void flights_spread(remat_context *ctx, struct remat_arena *arena, struct remat_program *p)
{
    struct remat_buffer *before = harness_array(ctx, arena, p->buffer_count, sizeof *before);
    memcpy(before, p->buffers, p->buffer_count * sizeof *before);
    p->arena_bytes = p->static_bytes;
    for (uint32_t b = 0; b < p->buffer_count; b++)
        if (!p->buffers[b].persistent) {
            p->buffers[b].offset_bytes = p->arena_bytes;
            p->arena_bytes += remat_align_up(p->buffers[b].bytes, REMAT_ALIGNMENT);
        }
    p->budget_bytes = 0;
    move_addresses(ctx, arena, p, before);
    flights_claim(p);
}

/* --- another order --- */

enum { LATENCY = 12 }; /* commands that a transfer is given time for */

struct order {
    const struct remat_program *p;
    uint32_t begin, count; /* of the segment's commands */
    uint32_t *positions;   /* [count]: where a command goes, REMAT_NONE: not placed yet */
    bool *after;           /* [count * count]: row c has the commands that c comes after */
};

static bool must_follow(const struct remat_program *p, uint32_t earlier, uint32_t later)
{
    const struct remat_command *x = &p->commands[earlier], *y = &p->commands[later];
    for (uint32_t a = x->operand_begin; a < x->operand_end; a++)
        for (uint32_t b = y->operand_begin; b < y->operand_end; b++)
            if ((p->operands[a].access != REMAT_ACCESS_READ ||
                 p->operands[b].access != REMAT_ACCESS_READ) &&
                overlap(buffer_of(p, a), buffer_of(p, b)))
                return true;
    return false;
}

/* 0: it may not come next; 1: it may; 2: nor does it wait for a transfer. */
static int readiness(const struct order *o, uint32_t c, uint32_t position)
{
    int ready = o->positions[c] == REMAT_NONE ? 2 : 0;
    for (uint32_t e = 0; e < c && ready; e++) {
        if (!o->after[c * o->count + e])
            continue;
        bool young =
            flights_is_transfer(o->p, o->begin + e) && position < o->positions[e] + LATENCY;
        ready = o->positions[e] == REMAT_NONE ? 0 : young ? 1 : ready;
    }
    return ready;
}

static void place_all(struct order *o)
{
    for (uint32_t position = 0; position < o->count; position++) {
        uint32_t chosen = REMAT_NONE;
        int best = 0;
        for (uint32_t c = 0; c < o->count && best < 2; c++)
            if (readiness(o, c, position) > best) {
                best = readiness(o, c, position);
                chosen = c;
            }
        MUST(chosen != REMAT_NONE);
        o->positions[chosen] = position;
    }
}

static void order_segment(remat_context *ctx, struct remat_arena *arena,
                          const struct remat_program *p, const struct remat_segment *segment,
                          uint32_t *positions)
{
    uint32_t count = segment->command_end - segment->command_begin;
    struct order o = {.p = p, .begin = segment->command_begin, .count = count};
    o.positions = &positions[o.begin];
    o.after = harness_array(ctx, arena, (size_t)count * count, sizeof *o.after);
    for (uint32_t c = 0; c < count; c++) {
        o.positions[c] = REMAT_NONE;
        for (uint32_t e = 0; e < c; e++)
            o.after[c * count + e] = must_follow(p, o.begin + e, o.begin + c);
    }
    place_all(&o);
    for (uint32_t c = 0; c < count; c++)
        o.positions[c] += o.begin;
}

/* From the first command that uses it to the last, or to the end of the segment as before. */
static void live_again(struct remat_program *p, uint32_t b)
{
    struct remat_buffer *buffer = &p->buffers[b], old = *buffer;
    uint32_t end = flights_segment_end(p, old.begin);
    if (old.persistent)
        return;
    buffer->begin = end;
    buffer->end = old.end == end ? end : 0;
    for (uint32_t c = 0; c < p->command_count; c++)
        for (uint32_t o = p->commands[c].operand_begin; o < p->commands[c].operand_end; o++)
            if (p->values[p->operands[o].value].buffer == b) {
                buffer->begin = c < buffer->begin ? c : buffer->begin;
                buffer->end = c + 1 > buffer->end ? c + 1 : buffer->end;
            }
}

/* As the commands now lie, of which command c was old[c]. */
static void move_launches(remat_context *ctx, struct remat_arena *arena,
                          struct remat_cuda_code *code, uint32_t count, const uint32_t *old)
{
    uint32_t *begin = harness_array(ctx, arena, (size_t)count + 1, sizeof *begin), at = 0;
    struct remat_cuda_launch *launches =
        harness_array(ctx, arena, code->launch_count, sizeof *launches);
    if (!code->launch_begin)
        return;
    for (uint32_t c = 0; c < count; c++) {
        uint32_t first = code->launch_begin[old[c]], own = code->launch_begin[old[c] + 1] - first;
        memcpy(&launches[at], &code->launches[first], own * sizeof *launches);
        begin[c] = at;
        at += own;
    }
    begin[count] = at;
    code->launch_begin = begin;
    code->launches = launches;
}

void flights_defer(remat_context *ctx, struct remat_arena *arena, struct remat_program *p)
{
    uint32_t count = p->command_count, operands = 0;
    uint32_t *positions = harness_array(ctx, arena, count, sizeof *positions);
    uint32_t *old = harness_array(ctx, arena, count, sizeof *old);
    struct remat_command *commands = harness_array(ctx, arena, count, sizeof *commands);
    struct remat_operand *moved = harness_array(ctx, arena, p->operand_count, sizeof *moved);
    for (uint32_t c = 0; c < count; c++)
        positions[c] = c;
    for (uint32_t s = 0; s < p->segment_count; s++)
        order_segment(ctx, arena, p, &p->segments[s], positions);
    for (uint32_t c = 0; c < count; c++) {
        commands[positions[c]] = p->commands[c];
        old[positions[c]] = c;
        commands[positions[c]].continues_group = false;
        commands[positions[c]].waits_for = 0;
        if (flights_is_transfer(p, c))
            commands[positions[c]].complete_before = positions[c] + 1;
    }
    for (uint32_t c = 0; c < count; c++) {
        uint32_t own = commands[c].operand_end - commands[c].operand_begin;
        memcpy(&moved[operands], &p->operands[commands[c].operand_begin], own * sizeof *moved);
        commands[c].operand_begin = operands;
        commands[c].operand_end = operands += own;
    }
    p->commands = commands;
    p->operands = moved;
    p->operand_count = operands;
    move_launches(ctx, arena, &p->cuda, count, old);
    for (uint32_t b = 0; b < p->buffer_count; b++)
        live_again(p, b);
    flights_claim(p);
}

/* Whether a command has to come after the transfer. */
static bool minds(const struct remat_program *p, uint32_t transfer, uint32_t command)
{
    const struct remat_buffer *source = flights_buffer(p, transfer, 0),
                              *result = flights_buffer(p, transfer, 1);
    const struct remat_command *c = &p->commands[command];
    for (uint32_t o = c->operand_begin; o < c->operand_end; o++)
        if (overlap(buffer_of(p, o), result) ||
            (p->operands[o].access != REMAT_ACCESS_READ && overlap(buffer_of(p, o), source)))
            return true;
    for (uint32_t b = 0; b < p->buffer_count; b++)
        if (&p->buffers[b] != source && &p->buffers[b] != result &&
            is_live(&p->buffers[b], command) &&
            (overlap(&p->buffers[b], source) || overlap(&p->buffers[b], result)))
            return true;
    return false;
}

static bool any_minds(const struct remat_program *p, uint32_t begin, uint32_t end, uint32_t command)
{
    bool any = false;
    for (uint32_t t = begin; t < end; t++)
        any |= minds(p, t, command);
    return any;
}

void flights_stretch(struct remat_program *p)
{
    for (uint32_t t = 0, next; t < p->command_count; t = next) {
        uint32_t end = flights_segment_end(p, t), before;
        next = before = flights_is_transfer(p, t) ? remat_group_end(p, t) : t + 1;
        while (flights_is_transfer(p, t) && before < end && !any_minds(p, t, next, before))
            before++;
        for (uint32_t member = t; flights_is_transfer(p, t) && member < next; member++) {
            p->commands[member].complete_before = before;
            for (uint32_t k = 0; k < 2; k++) {
                struct remat_buffer *buffer = flights_buffer(p, member, k);
                if (!buffer->persistent && buffer->end < before)
                    buffer->end = before;
            }
        }
    }
    flights_claim(p);
}

/* Whether a transfer may be started with those from `begin` on. */
static bool goes_with(const struct remat_program *p, uint32_t begin, uint32_t transfer)
{
    const struct remat_command *a = &p->commands[begin], *b = &p->commands[transfer];
    return flights_is_transfer(p, begin) && transfer < flights_segment_end(p, begin) &&
           p->kernels[a->kernel].kind == p->kernels[b->kernel].kind &&
           p->parameters[a->parameter_begin] == p->parameters[b->parameter_begin] && /* axis */
           !any_minds(p, begin, transfer, transfer);
}

void flights_group(struct remat_program *p)
{
    uint32_t begin = 0;
    for (uint32_t c = 0; c < p->command_count; c++) {
        p->commands[c].continues_group = c > begin && goes_with(p, begin, c);
        begin = p->commands[c].continues_group ? begin : c;
    }
    for (uint32_t c = 0; c < p->command_count; c++)
        if (flights_is_transfer(p, c))
            p->commands[c].complete_before = remat_group_end(p, c);
}

/* The last transfer along another axis that is not complete where the command starts; REMAT_NONE:
 * there is none. */
static uint32_t in_flight_elsewhere(const struct remat_program *p, uint32_t command)
{
    uint32_t found = REMAT_NONE;
    for (uint32_t t = 0; t < command; t++)
        if (p->commands[t].complete_before > command &&
            remat_command_link(p, t) != remat_command_link(p, command))
            found = t;
    return found;
}

uint32_t flights_wait(struct remat_program *p)
{
    uint32_t waits = 0, groups = 0;
    for (uint32_t c = 0; c < p->command_count; c++) {
        if (!flights_is_transfer(p, c) || p->commands[c].continues_group)
            continue;
        uint32_t other = in_flight_elsewhere(p, c);
        if (other != REMAT_NONE && groups++ % 2 == 0) {
            p->commands[c].waits_for = other + 1;
            waits++;
        }
    }
    return waits;
}

uint32_t flights_all(remat_context *ctx, struct remat_arena *arena, struct remat_program *p)
{
    flights_spread(ctx, arena, p);
    flights_defer(ctx, arena, p);
    flights_group(p);
    flights_stretch(p);
    return flights_wait(p);
}

uint32_t flights_count(const struct remat_program *p)
{
    uint32_t count = 0;
    for (uint32_t c = 0; c < p->command_count; c++)
        count +=
            flights_is_transfer(p, c) && p->commands[c].complete_before > remat_group_end(p, c);
    return count;
}

uint32_t flights_most(const struct remat_program *p)
{
    uint32_t most = 0;
    for (uint32_t c = 0; c < p->command_count; c++) {
        uint32_t count = 0;
        for (uint32_t t = 0; t <= c; t++)
            count += p->commands[t].complete_before > c + 1;
        most = count > most ? count : most;
    }
    return most;
}

struct remat_program *flights_copy(remat_context *ctx, struct remat_arena *arena,
                                   const struct remat_program *program)
{
    struct remat_program *copy = harness_array(ctx, arena, 1, sizeof *copy);
    *copy = *program;
    copy->commands = harness_array(ctx, arena, program->command_count, sizeof *copy->commands);
    copy->buffers = harness_array(ctx, arena, program->buffer_count, sizeof *copy->buffers);
    memcpy(copy->commands, program->commands, program->command_count * sizeof *copy->commands);
    memcpy(copy->buffers, program->buffers, program->buffer_count * sizeof *copy->buffers);
    return copy;
}
