/* Checks on the memory of a session, and broken rules. The device must be the host's. */
#include "session_state.h"

#define POISON 0x7fc0deadu
#define PAINT  0xa5u

remat_status remat_session_break_rule(remat_session *session, uint32_t rule)
{
    return session->device->vtable->break_rule(session->device, rule);
}

void remat_session_poison(remat_session *session, bool on)
{
    session->poison = on;
}

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

remat_status remat_session_guard(remat_session *session)
{
    if (!session->shadow)
        session->shadow = remat_reallocate(session->ctx, NULL, session->program->arena_bytes + 1);
    return session->shadow ? REMAT_OK : REMAT_ERROR_MEMORY;
}

static void fill(char *memory, uint64_t bytes)
{
    const uint32_t word = POISON;
    for (uint64_t i = 0; i + sizeof word <= bytes; i += sizeof word)
        memcpy(memory + i, &word, sizeof word);
}

static bool lives(const struct remat_buffer *buffer, uint32_t command)
{
    return buffer->persistent || (buffer->begin <= command && command < buffer->end);
}

struct chosen { /* a set of buffers */
    const struct remat_session *session;
    uint32_t command;
    bool written; /* the buffers that the command writes, else those that live */
};

static bool is_written(const struct chosen *chosen, uint32_t buffer)
{
    const struct remat_program *program = chosen->session->program;
    const struct remat_command *command = &program->commands[chosen->command];
    for (uint32_t o = command->operand_begin; o < command->operand_end; o++)
        if (program->operands[o].access & REMAT_ACCESS_WRITE &&
            program->values[program->operands[o].value].buffer == buffer)
            return true;
    return false;
}

/* The end of the part of [begin, ...) that holds no byte of the buffers that `chosen` selects, or
 * `begin` where a chosen buffer covers it; *covered_end is then where that buffer ends. */
static uint64_t gap_end(const struct chosen *chosen, uint64_t begin, uint64_t *covered_end)
{
    const struct remat_program *program = chosen->session->program;
    uint64_t end = program->arena_bytes;
    *covered_end = begin;
    for (uint32_t b = 0; b < program->buffer_count; b++) {
        const struct remat_buffer *buffer = &program->buffers[b];
        uint64_t buffer_end = buffer->offset_bytes + buffer->bytes;
        bool is_chosen = chosen->written ? is_written(chosen, b) : lives(buffer, chosen->command);
        if (!is_chosen || buffer_end <= begin)
            continue;
        if (buffer->offset_bytes <= begin) {
            if (buffer_end > *covered_end)
                *covered_end = buffer_end;
            end = begin;
        } else if (buffer->offset_bytes < end) {
            end = buffer->offset_bytes;
        }
    }
    return end;
}

static void fill_gaps(const struct remat_session *session, uint32_t command)
{
    struct chosen live = {session, command, false};
    uint64_t covered;
    for (uint64_t at = 0; at < session->program->arena_bytes;) {
        uint64_t end = gap_end(&live, at, &covered);
        fill(session->device->memory + at, end - at);
        at = end > at ? end : covered;
    }
}

void remat_session_before(struct remat_session *session, uint32_t command)
{
    if (!session->shadow)
        return;
    fill_gaps(session, command);
    memcpy(session->shadow, session->device->memory, session->program->arena_bytes);
}

static remat_status check_gaps(const struct remat_session *session, uint32_t command)
{
    struct chosen written = {session, command, true};
    const char *memory = session->device->memory;
    uint64_t covered;
    for (uint64_t at = 0; at < session->program->arena_bytes;) {
        uint64_t end = gap_end(&written, at, &covered);
        uint64_t same = at;
        if (memcmp(memory + at, session->shadow + at, end - at) != 0) {
            while (memory[same] == session->shadow[same])
                same++;
            return remat_error(session->ctx, REMAT_ERROR_INTERNAL,
                               "commands[%u] \"%s\" changed byte %llu of the arena, outside the "
                               "buffers it writes",
                               command, session->program->commands[command].name,
                               (unsigned long long)same);
        }
        at = end > at ? end : covered;
    }
    return REMAT_OK;
}

/* Of the segment's buffers, those that end with this command. */
static void poison_dead(const struct remat_session *session, const struct remat_segment *segment,
                        uint32_t command)
{
    const struct remat_program *program = session->program;
    for (uint32_t b = 0; b < program->buffer_count; b++) {
        const struct remat_buffer *buffer = &program->buffers[b];
        if (!buffer->persistent && buffer->end == command + 1 &&
            buffer->begin >= segment->command_begin && buffer->end <= segment->command_end)
            fill(session->device->memory + buffer->offset_bytes, buffer->bytes);
    }
}

remat_status remat_session_after(struct remat_session *session, const struct remat_segment *segment,
                                 uint32_t command)
{
    remat_status st = REMAT_OK;
    if (session->shadow)
        REMAT_TRY(check_gaps(session, command));
    if (session->poison)
        poison_dead(session, segment, command);
fail:
    return st;
}
