/* SPDX-License-Identifier: Apache-2.0 */
#include "session_testing.h"

#include "session_state.h"

#include <stdlib.h>

#define POISON 0x7fc0deadu
#define PAINT  0xa5u

char *remat_session_arena(remat_session *session)
{
    return session->device->memory;
}

void remat_session_paint(remat_session *session, uint64_t from_bytes)
{
    memset(session->device->memory + from_bytes, PAINT, session->program->arena_bytes - from_bytes);
}

uint64_t remat_session_touched_bytes(const remat_session *session)
{
    const unsigned char *memory = (const unsigned char *)session->device->memory;
    uint64_t end = session->program->arena_bytes;
    while (end && memory[end - 1] == PAINT)
        end--;
    return end;
}

/* --- guards --- */

struct buffer_at {
    uint64_t offset_bytes;
    uint32_t buffer;
};

struct guard {
    char *shadow;                /* the arena before the command */
    struct buffer_at *by_offset; /* all buffers, sorted */
};

static int compare_offsets(const void *a, const void *b)
{
    const struct buffer_at *x = a, *y = b;
    return x->offset_bytes < y->offset_bytes ? -1 : x->offset_bytes > y->offset_bytes;
}

static void fill(char *memory, uint64_t bytes)
{
    const uint32_t word = POISON;
    for (uint64_t i = 0; i + sizeof word <= bytes; i += sizeof word)
        memcpy(memory + i, &word, sizeof word);
}

struct chosen { /* a set of buffers */
    const struct remat_session *session;
    const struct guard *guard;
    uint32_t command;
    bool written; /* the buffers that the command writes, else those that live */
};

static bool is_written(const struct chosen *chosen, uint32_t buffer)
{
    const struct remat_program *program = chosen->session->program;
    const struct remat_command *command = &program->commands[chosen->command];
    for (uint32_t o = command->operand_begin; o < command->operand_end; o++)
        if (program->operands[o].access != REMAT_ACCESS_READ &&
            program->values[program->operands[o].value].buffer == buffer)
            return true;
    return false;
}

/* A walk over the parts of the arena that hold no byte of the buffers that `chosen` selects. */
struct gap {
    uint64_t begin, end;
    uint64_t covered; /* gaps below are known */
    uint32_t next;    /* of guard->by_offset */
};

static bool next_gap(const struct chosen *chosen, struct gap *gap)
{
    const struct remat_program *program = chosen->session->program;
    gap->begin = gap->covered;
    for (; gap->next < program->buffer_count; gap->next++) {
        uint32_t b = chosen->guard->by_offset[gap->next].buffer;
        const struct remat_buffer *buffer = &program->buffers[b];
        uint64_t buffer_end = buffer->offset_bytes + buffer->bytes;
        if (!(chosen->written ? is_written(chosen, b)
                              : remat_buffer_is_live(buffer, chosen->command)))
            continue;
        if (buffer->offset_bytes > gap->begin) {
            gap->end = gap->covered = buffer->offset_bytes;
            return true;
        }
        if (buffer_end > gap->begin)
            gap->begin = buffer_end;
    }
    gap->end = gap->covered = program->arena_bytes;
    return gap->begin < gap->end;
}

static void fill_and_copy(struct remat_session *session, uint32_t command)
{
    const struct guard *guard = session->checks.state;
    struct chosen live = {session, guard, command, false};
    for (struct gap gap = {0}; next_gap(&live, &gap);)
        fill(session->device->memory + gap.begin, gap.end - gap.begin);
    memcpy(guard->shadow, session->device->memory, session->program->arena_bytes);
}

static remat_status check_gaps(struct remat_session *session, uint32_t command)
{
    const struct guard *guard = session->checks.state;
    struct chosen written = {session, guard, command, true};
    const char *memory = session->device->memory;
    for (struct gap gap = {0}; next_gap(&written, &gap);) {
        uint64_t same = gap.begin;
        if (memcmp(memory + same, guard->shadow + same, gap.end - same) == 0)
            continue;
        while (memory[same] == guard->shadow[same])
            same++;
        return remat_error(session->ctx, REMAT_ERROR_INTERNAL,
                           "commands[%u] \"%s\" changed byte %llu of the arena, outside the "
                           "buffers it writes",
                           command, session->program->commands[command].name,
                           (unsigned long long)same);
    }
    return REMAT_OK;
}

static void destroy(struct remat_session *session)
{
    struct guard *guard = session->checks.state;
    remat_reallocate(session->ctx, guard->shadow, 0);
    remat_reallocate(session->ctx, guard->by_offset, 0);
    remat_reallocate(session->ctx, guard, 0);
}

remat_status remat_session_guard(remat_session *session)
{
    const struct remat_program *program = session->program;
    struct guard *guard;
    if (session->checks.state)
        return REMAT_OK;
    guard = remat_reallocate(session->ctx, NULL, sizeof *guard);
    if (!guard)
        return REMAT_ERROR_MEMORY;
    session->checks.state = guard;
    session->checks.destroy = destroy;
    guard->by_offset = remat_reallocate(session->ctx, NULL,
                                        (program->buffer_count + 1) * sizeof *guard->by_offset);
    guard->shadow = remat_reallocate(session->ctx, NULL, program->arena_bytes + 1);
    if (!guard->by_offset || !guard->shadow)
        return REMAT_ERROR_MEMORY;
    for (uint32_t b = 0; b < program->buffer_count; b++)
        guard->by_offset[b] = (struct buffer_at){program->buffers[b].offset_bytes, b};
    qsort(guard->by_offset, program->buffer_count, sizeof *guard->by_offset, compare_offsets);
    session->ungrouped = true; /* the shadow shows what each command changes */
    session->checks.before = fill_and_copy;
    session->checks.after = check_gaps;
    return REMAT_OK;
}

/* --- poison --- */

/* Of the segment's buffers, those that live until this command. */
static void poison_dead(struct remat_session *session, const struct remat_segment *segment,
                        uint32_t command)
{
    const struct remat_program *program = session->program;
    for (uint32_t b = 0; b < program->buffer_count; b++) {
        const struct remat_buffer *buffer = &program->buffers[b];
        if (!buffer->persistent && buffer->end == command &&
            buffer->begin >= segment->command_begin && buffer->end <= segment->command_end)
            fill(session->device->memory + buffer->offset_bytes, buffer->bytes);
    }
}

void remat_session_poison(remat_session *session, bool on)
{
    session->checks.free = on ? poison_dead : NULL;
}
