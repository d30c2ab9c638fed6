/* SPDX-License-Identifier: Apache-2.0 */
/* The naive replay. First the arena alone, command by command: which buffers live. Then each
 * segment: for each buffer the value that it holds, and the transfers that go on with it. It
 * believes only lifespans, offsets and accesses, and recomputes everything that the plan claims
 * from them. */
#include "program.h"

#include <stdlib.h>

struct at_command {  /* lists of buffers, one for each command; REMAT_NONE ends a list */
    uint32_t *first; /* [command] */
    uint32_t *next;  /* [buffer] */
};

struct by_link {
    uint32_t of[REMAT_MESH_AXES_MAX];
};

struct place {
    uint64_t offset_bytes;
    uint32_t buffer;
};

/* The buffers that live, as the leaves of a binary tree, in the order of their offsets. A node has
 * the one below it that ends last, or REMAT_NONE. */
struct lives {
    struct place *places;
    uint32_t *place_of; /* [buffer] */
    uint32_t *last;     /* [2 * buffers]; the leaves are the second half */
};

struct replay {
    remat_context *ctx;
    const struct remat_program *p;
    struct at_command born, gone;
    struct lives lives;
    /* of the segment that is replayed: */
    const struct remat_segment *segment;
    uint32_t *held;   /* [buffer]: value, REMAT_NONE when nothing was written in its lifespan */
    uint32_t *writer; /* [buffer]: command that wrote it last, REMAT_NONE: before the segment */
    uint32_t *chain;  /* [value]: the number of the WRITE that it and all its updates come from */
    uint32_t chains;
    bool *written; /* [value]: by some command */
    /* [buffer]: by link the last transfer that reads, or writes, it; REMAT_NONE: there was none */
    struct by_link *sent, *received;
    struct by_link passed;     /* by link: one more than the last transfer that computation has seen
                                  complete */
    struct by_link *passed_at; /* [command] of a transfer: the same when it starts */
    struct by_link latest;     /* by link: the last transfer */
    struct at_command ended;   /* transfers, by the command that they are complete before */
};

static uint64_t end_of(const struct remat_buffer *b)
{
    return b->offset_bytes + b->bytes;
}

/* --- the arena --- */

static int compare_places(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    if (x->offset_bytes != y->offset_bytes)
        return x->offset_bytes < y->offset_bytes ? -1 : 1;
    return x->buffer < y->buffer ? -1 : x->buffer > y->buffer;
}

static remat_status make_lives(struct replay *r, struct remat_arena *arena)
{
    remat_status st = REMAT_OK;
    uint32_t count = r->p->buffer_count;
    REMAT_TRY_NEW(arena, r->lives.places, count);
    REMAT_TRY_NEW(arena, r->lives.place_of, count);
    REMAT_TRY_NEW(arena, r->lives.last, 2 * (size_t)count);
    memset(r->lives.last, 0xff, 2 * (size_t)count * sizeof *r->lives.last);
    for (uint32_t i = 0; i < count; i++)
        r->lives.places[i] = (struct place){r->p->buffers[i].offset_bytes, i};
    qsort(r->lives.places, count, sizeof *r->lives.places, compare_places);
    for (uint32_t i = 0; i < count; i++)
        r->lives.place_of[r->lives.places[i].buffer] = i;
fail:
    return st;
}

static uint32_t later_end(const struct replay *r, uint32_t i, uint32_t j)
{
    if (i == REMAT_NONE || j == REMAT_NONE)
        return i == REMAT_NONE ? j : i;
    return end_of(&r->p->buffers[i]) < end_of(&r->p->buffers[j]) ? j : i;
}

static void set_live(struct replay *r, uint32_t buffer, bool live)
{
    uint32_t *last = r->lives.last;
    size_t node = (size_t)r->p->buffer_count + r->lives.place_of[buffer];
    last[node] = live ? buffer : REMAT_NONE;
    for (; node > 1; node /= 2)
        last[node / 2] = later_end(r, last[node], last[node ^ 1]);
}

/* Of the live buffers that begin below `end`, the one that ends last, or REMAT_NONE. */
static uint32_t last_below(const struct replay *r, uint64_t end)
{
    uint32_t count = r->p->buffer_count, low = 0, high = count, result = REMAT_NONE;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (r->lives.places[middle].offset_bytes < end)
            low = middle + 1;
        else
            high = middle;
    }
    size_t from = count, to = (size_t)count + low; /* leaves */
    for (; from < to; from /= 2, to /= 2) {
        if (from & 1)
            result = later_end(r, result, r->lives.last[from++]);
        if (to & 1)
            result = later_end(r, result, r->lives.last[--to]);
    }
    return result;
}

/* The buffer joins those that live, beside all of which it must lie. */
static remat_status add_live(struct replay *r, uint32_t command, uint32_t i)
{
    const struct remat_buffer *b = &r->p->buffers[i];
    uint32_t j = last_below(r, end_of(b));
    if (j != REMAT_NONE && end_of(&r->p->buffers[j]) > b->offset_bytes)
        return remat_error(r->ctx, REMAT_ERROR_INVALID,
                           "commands[%u] \"%s\": buffers %u [%llu, %llu) and %u [%llu, %llu) live "
                           "at once and overlap",
                           command, r->p->commands[command].name, j,
                           (ull)r->p->buffers[j].offset_bytes, (ull)end_of(&r->p->buffers[j]), i,
                           (ull)b->offset_bytes, (ull)end_of(b));
    set_live(r, i, true);
    return REMAT_OK;
}

static void add_to(struct at_command *list, uint32_t command, uint32_t buffer)
{
    list->next[buffer] = list->first[command];
    list->first[command] = buffer;
}

static remat_status list_lifespans(struct replay *r, struct remat_arena *arena)
{
    remat_status st = REMAT_OK;
    const struct remat_program *p = r->p;
    struct at_command *lists[] = {&r->born, &r->gone};
    for (size_t k = 0; k < 2; k++) {
        REMAT_TRY_NEW(arena, lists[k]->first, (size_t)p->command_count + 1);
        REMAT_TRY_NEW(arena, lists[k]->next, p->buffer_count);
        memset(lists[k]->first, 0xff, ((size_t)p->command_count + 1) * sizeof *lists[k]->first);
    }
    for (uint32_t i = p->buffer_count; i-- > 0;)
        if (!p->buffers[i].persistent) {
            add_to(&r->born, p->buffers[i].begin, i);
            add_to(&r->gone, p->buffers[i].end, i);
        }
fail:
    return st;
}

/* What lives at once lies apart, and is as many bytes as each command claims. */
static remat_status replay_arena(struct replay *r)
{
    remat_status st = REMAT_OK;
    const struct remat_program *p = r->p;
    uint64_t live_bytes = p->static_bytes;
    for (uint32_t i = 0; i < p->buffer_count; i++)
        if (p->buffers[i].persistent && p->command_count)
            REMAT_TRY(add_live(r, 0, i));
    for (uint32_t c = 0; c < p->command_count; c++) {
        for (uint32_t i = r->gone.first[c]; i != REMAT_NONE; i = r->gone.next[i]) {
            set_live(r, i, false);
            live_bytes -= remat_aligned_bytes(p->buffers[i].bytes);
        }
        for (uint32_t i = r->born.first[c]; i != REMAT_NONE; i = r->born.next[i]) {
            REMAT_TRY(add_live(r, c, i));
            live_bytes += remat_aligned_bytes(p->buffers[i].bytes);
        }
        if (live_bytes != p->commands[c].live_bytes)
            REMAT_FAIL(r->ctx, REMAT_ERROR_INVALID,
                       "commands[%u] \"%s\": live_bytes is %llu, but %llu bytes are live", c,
                       p->commands[c].name, (ull)p->commands[c].live_bytes, (ull)live_bytes);
    }
fail:
    return st;
}

static remat_status check_peak(remat_context *ctx, const struct remat_program *p)
{
    uint64_t peak = p->command_count ? 0 : p->static_bytes;
    for (uint32_t c = 0; c < p->command_count; c++)
        peak = p->commands[c].live_bytes > peak ? p->commands[c].live_bytes : peak;
    if (p->peak_bytes != peak)
        return remat_error(ctx, REMAT_ERROR_INVALID,
                           "peak_bytes is %llu, but the live peak is %llu", (ull)p->peak_bytes,
                           (ull)peak);
    if (p->command_count && p->commands[p->peak_command].live_bytes != peak)
        return remat_error(ctx, REMAT_ERROR_INVALID,
                           "peak_command %u: %llu bytes are live there, the peak is %llu",
                           p->peak_command, (ull)p->commands[p->peak_command].live_bytes,
                           (ull)peak);
    return REMAT_OK;
}

/* --- the beginning and the end of a segment --- */

/* Whether what the buffer holds is the value, or came from it by updates. */
static bool holds(const struct replay *r, uint32_t buffer, uint32_t value)
{
    uint32_t held = r->held[buffer];
    return held == value ||
           (held != REMAT_NONE && r->chain[value] && r->chain[held] == r->chain[value]);
}

/* Persistent buffers hold their tensors' first versions, but for those that the segment writes. */
static remat_status begin_segment(struct replay *r)
{
    const struct remat_program *p = r->p;
    memset(r->written, 0, p->value_count * sizeof *r->written);
    memset(r->held, 0xff, p->buffer_count * sizeof *r->held);
    memset(r->writer, 0xff, p->buffer_count * sizeof *r->writer);
    memset(r->chain, 0, p->value_count * sizeof *r->chain);
    memset(r->sent, 0xff, p->buffer_count * sizeof *r->sent);
    memset(r->received, 0xff, p->buffer_count * sizeof *r->received);
    memset(&r->latest, 0xff, sizeof r->latest);
    memset(&r->passed, 0, sizeof r->passed);
    memset(r->ended.first, 0xff, ((size_t)p->command_count + 1) * sizeof *r->ended.first);
    r->chains = 0;
    for (uint32_t c = r->segment->command_begin; c < r->segment->command_end; c++)
        for (uint32_t k = p->commands[c].operand_begin; k < p->commands[c].operand_end; k++)
            if (p->operands[k].access == REMAT_ACCESS_WRITE)
                r->written[p->operands[k].value] = true;
    for (uint32_t t = 0; t < p->tensor_count; t++) {
        uint32_t value = p->tensors[t].value, buffer = p->values[value].buffer;
        if (!p->buffers[buffer].persistent || r->written[value])
            continue;
        if (r->held[buffer] != REMAT_NONE && r->held[buffer] != value)
            return remat_error(r->ctx, REMAT_ERROR_INVALID,
                               "tensors[%u] \"%s\": its buffer %u is that of \"%s\", too", t,
                               p->tensors[t].name, buffer, p->values[r->held[buffer]].name);
        r->held[buffer] = value;
        r->chain[value] = ++r->chains;
    }
    return REMAT_OK;
}

/* State is there for the next step, outputs are there for the host. */
static remat_status end_segment(const struct replay *r)
{
    const struct remat_program *p = r->p;
    for (uint32_t t = 0; t < p->tensor_count; t++) {
        uint32_t value = p->tensors[t].value, buffer = p->values[value].buffer;
        uint8_t role = p->values[value].role;
        bool state = role == REMAT_ROLE_PARAMETER || role == REMAT_ROLE_OPTIMIZER_STATE ||
                     role == REMAT_ROLE_CONSTANT || role == REMAT_ROLE_GRADIENT ||
                     role == REMAT_ROLE_STEP_STATE;
        if (state && p->buffers[buffer].persistent && r->held[buffer] != REMAT_NONE &&
            !holds(r, buffer, value))
            return remat_error(r->ctx, REMAT_ERROR_INVALID,
                               "segment \"%s\": at its end the buffer %u of \"%s\" holds \"%s\", "
                               "written by commands[%u]",
                               r->segment->name, buffer, p->tensors[t].name,
                               p->values[r->held[buffer]].name, r->writer[buffer]);
    }
    for (uint32_t v = 0; v < p->value_count; v++) {
        const struct remat_program_value *value = &p->values[v];
        const struct remat_buffer *b = &p->buffers[value->buffer];
        if (value->role != REMAT_ROLE_OUTPUT || !r->written[v])
            continue;
        if (!holds(r, value->buffer, v) || (!b->persistent && b->end < r->segment->command_end))
            return remat_error(r->ctx, REMAT_ERROR_INVALID,
                               "segment \"%s\": its output \"%s\" is gone at its end",
                               r->segment->name, value->name);
    }
    return REMAT_OK;
}

/* --- wrong reads --- */

static remat_status wrong_read(const struct replay *r, uint32_t command, uint32_t k, uint32_t v)
{
    const struct remat_program *p = r->p;
    const struct remat_command *c = &p->commands[command];
    const char *name = p->values[v].name;
    uint32_t buffer = p->values[v].buffer, held = r->held[buffer], writer = r->writer[buffer];
    const struct remat_buffer *b = &p->buffers[buffer];
    if (!remat_buffer_is_live(b, command))
        return remat_error(r->ctx, REMAT_ERROR_INVALID,
                           "commands[%u] \"%s\": operand %u uses \"%s\", but its buffer %u lives "
                           "only in [%u, %u)",
                           command, c->name, k, name, buffer, b->begin, b->end);
    if (held == REMAT_NONE)
        return remat_error(r->ctx, REMAT_ERROR_INVALID,
                           "commands[%u] \"%s\": operand %u reads \"%s\", which nothing has "
                           "written yet",
                           command, c->name, k, name);
    if (writer == REMAT_NONE)
        return remat_error(r->ctx, REMAT_ERROR_INVALID,
                           "commands[%u] \"%s\": operand %u reads \"%s\", but its buffer %u holds "
                           "the tensor \"%s\"",
                           command, c->name, k, name, buffer, p->values[held].name);
    return remat_error(r->ctx, REMAT_ERROR_INVALID,
                       "commands[%u] \"%s\": operand %u reads \"%s\", but its buffer %u holds "
                       "%s\"%s\" (values[%u], instance %u), written by commands[%u] \"%s\"",
                       command, c->name, k, name, buffer,
                       holds(r, buffer, v) ? "the newer version " : "", p->values[held].name, held,
                       p->values[held].instance, writer, p->commands[writer].name);
}

/* --- transfers --- */

/* Adds that a transfer is complete, and all that was complete when it started. */
static void pass(const struct replay *r, uint32_t transfer, struct by_link *passed)
{
    struct by_link other = r->passed_at[transfer];
    other.of[remat_command_link(r->p, transfer)] = transfer + 1;
    for (uint32_t link = 0; link < REMAT_MESH_AXES_MAX; link++)
        if (passed->of[link] < other.of[link])
            passed->of[link] = other.of[link];
}

/* A transfer has seen complete what is before its group on its link, too, and what it waits for. */
static const struct by_link *see(struct replay *r, uint32_t command)
{
    const struct remat_command *c = &r->p->commands[command];
    for (uint32_t t = r->ended.first[command]; t != REMAT_NONE; t = r->ended.next[t])
        pass(r, t, &r->passed);
    if (!c->complete_before)
        return &r->passed;
    uint32_t link = remat_command_link(r->p, command), before = r->latest.of[link];
    struct by_link *passed = &r->passed_at[command];
    *passed = r->passed;
    if (c->continues_group && before != REMAT_NONE)
        *passed = r->passed_at[before];
    else if (before != REMAT_NONE)
        pass(r, before, passed);
    if (c->waits_for)
        pass(r, c->waits_for - 1, passed);
    return passed;
}

/* The last transfer of a buffer that has not been seen complete; REMAT_NONE: there is none. */
static uint32_t goes_on(const struct by_link *transfers, const struct by_link *passed)
{
    uint32_t found = REMAT_NONE;
    for (uint32_t link = 0; link < REMAT_MESH_AXES_MAX; link++)
        if (transfers->of[link] != REMAT_NONE && transfers->of[link] >= passed->of[link])
            found = transfers->of[link];
    return found;
}

/* What a transfer sends is only read, and what it receives is not used. */
static remat_status check_transfers(const struct replay *r, uint32_t command,
                                    const struct by_link *passed)
{
    const struct remat_program *p = r->p;
    const struct remat_command *c = &p->commands[command];
    for (uint32_t k = c->operand_begin; k < c->operand_end; k++) {
        const struct remat_operand *o = &p->operands[k];
        uint32_t buffer = p->values[o->value].buffer;
        uint32_t received = goes_on(&r->received[buffer], passed), transfer = received;
        if (received == REMAT_NONE && o->access != REMAT_ACCESS_READ)
            transfer = goes_on(&r->sent[buffer], passed);
        if (transfer == REMAT_NONE)
            continue;
        return remat_error(r->ctx, REMAT_ERROR_INVALID,
                           "commands[%u] \"%s\": operand %u uses \"%s\" in buffer %u [%llu, %llu), "
                           "which commands[%u] \"%s\" %s until command %u",
                           command, c->name, k - c->operand_begin, p->values[o->value].name, buffer,
                           (ull)p->buffers[buffer].offset_bytes, (ull)end_of(&p->buffers[buffer]),
                           transfer, p->commands[transfer].name,
                           received == REMAT_NONE ? "sends" : "receives",
                           p->commands[transfer].complete_before);
    }
    return REMAT_OK;
}

static remat_status start_transfer(struct replay *r, uint32_t command)
{
    const struct remat_program *p = r->p;
    const struct remat_command *c = &p->commands[command];
    uint32_t link = remat_command_link(p, command);
    if (c->continues_group && (command == r->segment->command_begin ||
                               p->commands[command - 1].complete_before != c->complete_before))
        return remat_error(r->ctx, REMAT_ERROR_INVALID,
                           "commands[%u] \"%s\": no group that it could continue goes on until "
                           "command %u",
                           command, c->name, c->complete_before);
    for (uint32_t k = c->operand_begin; k < c->operand_end; k++) {
        uint32_t buffer = p->values[p->operands[k].value].buffer;
        bool reads = p->operands[k].access == REMAT_ACCESS_READ;
        if (!remat_buffer_is_live(&p->buffers[buffer], c->complete_before - 1))
            return remat_error(
                r->ctx, REMAT_ERROR_INVALID,
                "commands[%u] \"%s\": it goes on until command %u, and the buffer %u "
                "of \"%s\" is freed before command %u",
                command, c->name, c->complete_before, buffer, p->values[p->operands[k].value].name,
                p->buffers[buffer].end);
        (reads ? r->sent : r->received)[buffer].of[link] = command;
    }
    r->latest.of[link] = command;
    add_to(&r->ended, c->complete_before, command);
    return REMAT_OK;
}

/* --- one command --- */

static remat_status replay_command(struct replay *r, uint32_t command)
{
    remat_status st = REMAT_OK;
    const struct remat_program *p = r->p;
    const struct remat_command *c = &p->commands[command];
    for (uint32_t i = r->born.first[command]; i != REMAT_NONE; i = r->born.next[i])
        r->held[i] = r->writer[i] = REMAT_NONE;
    for (uint32_t k = 0; k < c->operand_end - c->operand_begin; k++) {
        const struct remat_operand *o = &p->operands[c->operand_begin + k];
        bool held = o->access == REMAT_ACCESS_READ || o->access == REMAT_ACCESS_FLAG;
        uint32_t read = held ? o->value : o->previous;
        uint32_t buffer = p->values[o->value].buffer;
        if (!remat_buffer_is_live(&p->buffers[buffer], command) ||
            (o->access != REMAT_ACCESS_WRITE && r->held[buffer] != read))
            return wrong_read(r, command, k, o->access == REMAT_ACCESS_WRITE ? o->value : read);
    }
    REMAT_TRY(check_transfers(r, command, see(r, command)));
    for (uint32_t k = c->operand_begin; k < c->operand_end; k++) {
        const struct remat_operand *o = &p->operands[k];
        uint32_t buffer = p->values[o->value].buffer;
        if (!(o->access & REMAT_ACCESS_WRITE))
            continue;
        r->chain[o->value] = o->access == REMAT_ACCESS_UPDATE ? r->chain[o->previous] : ++r->chains;
        r->written[o->value] = true;
        r->held[buffer] = o->value;
        r->writer[buffer] = command;
    }
    if (c->complete_before)
        st = start_transfer(r, command);
fail:
    return st;
}

/* --- the whole --- */

static remat_status replay_segments(struct replay *r)
{
    remat_status st = REMAT_OK;
    for (uint32_t s = 0; s < r->p->segment_count; s++) {
        r->segment = &r->p->segments[s];
        REMAT_TRY(begin_segment(r));
        for (uint32_t c = r->segment->command_begin; c < r->segment->command_end; c++)
            REMAT_TRY(replay_command(r, c));
        REMAT_TRY(end_segment(r));
    }
fail:
    return st;
}

remat_status remat_program_simulate(remat_context *ctx, const struct remat_program *program)
{
    remat_status st = REMAT_OK;
    struct remat_arena scratch;
    struct replay replay = {.ctx = ctx, .p = program};
    remat_arena_init(&scratch, ctx);
    REMAT_TRY_NEW(&scratch, replay.held, program->buffer_count);
    REMAT_TRY_NEW(&scratch, replay.writer, program->buffer_count);
    REMAT_TRY_NEW(&scratch, replay.chain, program->value_count);
    REMAT_TRY_NEW(&scratch, replay.written, program->value_count);
    REMAT_TRY_NEW(&scratch, replay.sent, program->buffer_count);
    REMAT_TRY_NEW(&scratch, replay.received, program->buffer_count);
    REMAT_TRY_NEW(&scratch, replay.passed_at, program->command_count);
    REMAT_TRY_NEW(&scratch, replay.ended.first, (size_t)program->command_count + 1);
    REMAT_TRY_NEW(&scratch, replay.ended.next, program->command_count);
    REMAT_TRY(list_lifespans(&replay, &scratch));
    REMAT_TRY(make_lives(&replay, &scratch));
    REMAT_TRY(replay_arena(&replay));
    REMAT_TRY(check_peak(ctx, program));
    REMAT_TRY(replay_segments(&replay));
fail:
    remat_arena_release(&scratch);
    return st;
}
