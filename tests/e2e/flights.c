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

void flights_spread(struct remat_program *p)
{
    p->arena_bytes = p->static_bytes;
    for (uint32_t b = 0; b < p->buffer_count; b++)
        if (!p->buffers[b].persistent) {
            p->buffers[b].offset_bytes = p->arena_bytes;
            p->arena_bytes += remat_align_up(p->buffers[b].bytes, REMAT_ALIGNMENT);
        }
    p->budget_bytes = 0;
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

void flights_stretch(struct remat_program *p)
{
    for (uint32_t t = 0; t < p->command_count; t++) {
        uint32_t end = flights_segment_end(p, t), before = t + 1;
        if (!flights_is_transfer(p, t))
            continue;
        while (before < end && !minds(p, t, before))
            before++;
        p->commands[t].complete_before = before;
        for (uint32_t k = 0; k < 2; k++) {
            struct remat_buffer *buffer = flights_buffer(p, t, k);
            if (!buffer->persistent && buffer->end < before)
                buffer->end = before;
        }
    }
    flights_claim(p);
}

uint32_t flights_count(const struct remat_program *p)
{
    uint32_t count = 0;
    for (uint32_t c = 0; c < p->command_count; c++)
        count += p->commands[c].complete_before > c + 1;
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
