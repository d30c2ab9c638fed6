/* SPDX-License-Identifier: Apache-2.0 */
/* The arena is one segment. A trace allocates what is persistent, then, command by command, frees
 * what no command needs any more and allocates what the next one needs; so its sum reaches the live
 * bytes of every command. Blocks are what is left at the end, as viewers go back from there. */
#include "buffers.h"
#include "formats.h"
#include "pickle_writer.h"

#include <stdlib.h>

#define ADDRESS UINT64_C(0x700000000000) /* of the arena */

struct part { /* of the persistent memory */
    uint64_t offset_bytes, bytes;
    uint32_t buffer; /* REMAT_NONE: the workspace, or nothing */
};
struct parts REMAT_LIST(struct part);

struct snapshot {
    const struct remat_program *program;
    const struct dump_label *labels;
    const uint8_t *classes;
    uint32_t *value;       /* by buffer: the first one in it */
    uint32_t *born, *died; /* by command, then by buffer: those that it allocates and frees */
    uint32_t *born_next, *died_next;
    bool *known; /* by buffer: its frames are kept */
    struct parts persistent;
    struct remat_arena *arena;
    struct remat_text *out;
};

static void key_text(struct remat_text *out, const char *key, const char *value)
{
    pickle_text(out, key);
    pickle_text(out, value);
}

static void key_integer(struct remat_text *out, const char *key, uint64_t value)
{
    pickle_text(out, key);
    pickle_integer(out, value);
}

static void append_frame(struct remat_text *out, const char *file, uint64_t line, const char *name)
{
    pickle_dict(out);
    key_text(out, "filename", file);
    key_integer(out, "line", line);
    key_text(out, "name", name);
    pickle_dict_end(out);
    pickle_add(out);
}

/* The elements of a scope, the innermost first. */
static void append_scope(struct snapshot *s, const char *scope)
{
    size_t end = strlen(scope);
    while (end > 0) {
        size_t begin = end;
        while (begin > 0 && scope[begin - 1] != '/')
            begin--;
        const char *element = remat_arena_string(s->arena, scope + begin, end - begin);
        s->out->failed |= !element;
        append_frame(s->out, "scope", 0, element ? element : "");
        end = begin > 0 ? begin - 1 : 0;
    }
}

static void append_frames(struct snapshot *s, uint32_t b)
{
    const struct remat_program *p = s->program;
    const struct remat_program_value *value =
        s->value[b] == REMAT_NONE ? NULL : &p->values[s->value[b]];
    const char *name = value ? value->name : "";
    if (s->known[b]) {
        pickle_kept(s->out, b);
        return;
    }
    if (value && value->instance)
        name = remat_arena_format(s->arena, "%s #%u", name, (unsigned)value->instance);
    s->out->failed |= !name;
    pickle_list(s->out);
    append_frame(s->out, dump_class_names[s->classes[b]],
                 p->buffers[b].persistent ? 0 : p->buffers[b].begin, name ? name : "");
    if (*s->labels[b].op)
        append_frame(s->out, "op", 0, s->labels[b].op);
    append_scope(s, value ? value->scope : "");
    append_frame(s->out, "graph", 0, p->graph_name);
    pickle_keep(s->out, b);
    s->known[b] = true;
}

/* Ends an entry about buffer `b`; REMAT_NONE: about none. */
static void end_with_frames(struct snapshot *s, uint32_t b)
{
    pickle_text(s->out, "frames");
    if (b == REMAT_NONE)
        pickle_list(s->out);
    else
        append_frames(s, b);
    pickle_dict_end(s->out);
    pickle_add(s->out);
}

/* `b`: as of end_with_frames. */
static void append_event(struct snapshot *s, const char *action, uint64_t offset_bytes,
                         uint64_t bytes, uint32_t b, uint64_t time_ns)
{
    pickle_dict(s->out);
    key_text(s->out, "action", action);
    key_integer(s->out, "addr", ADDRESS + offset_bytes);
    key_integer(s->out, "size", bytes);
    key_integer(s->out, "stream", 0);
    key_integer(s->out, "time_us", time_ns / 1000);
    key_text(s->out, "category", b == REMAT_NONE ? "unknown" : dump_class_names[s->classes[b]]);
    end_with_frames(s, b);
}

static void append_alloc(struct snapshot *s, uint32_t b, uint64_t time_ns)
{
    const struct remat_buffer *buffer = &s->program->buffers[b];
    append_event(s, "alloc", buffer->offset_bytes, remat_aligned_bytes(buffer->bytes), b, time_ns);
}

static void append_free(struct snapshot *s, uint32_t b, uint64_t time_ns)
{
    const struct remat_buffer *buffer = &s->program->buffers[b];
    uint64_t bytes = remat_aligned_bytes(buffer->bytes);
    append_event(s, "free_requested", buffer->offset_bytes, bytes, b, time_ns);
    append_event(s, "free_completed", buffer->offset_bytes, bytes, b, time_ns);
}

static int by_offset(const void *a, const void *b)
{
    const struct part *x = a, *y = b;
    return (x->offset_bytes > y->offset_bytes) - (x->offset_bytes < y->offset_bytes);
}

/* All of the persistent memory, with what no buffer has. */
static remat_status find_persistent(struct snapshot *s)
{
    remat_status st = REMAT_OK;
    const struct remat_program *p = s->program;
    struct parts found = {0};
    uint64_t end = 0;
    for (uint32_t b = 0; b < p->buffer_count; b++) {
        const struct remat_buffer *buffer = &p->buffers[b];
        uint64_t bytes = remat_aligned_bytes(buffer->bytes);
        if (buffer->persistent && bytes)
            REMAT_TRY_PUSH(s->arena, &found, ((struct part){buffer->offset_bytes, bytes, b}));
    }
    if (found.count)
        qsort(found.items, found.count, sizeof *found.items, by_offset);
    REMAT_TRY_PUSH(s->arena, &found, ((struct part){p->static_bytes, 0, REMAT_NONE}));
    for (size_t i = 0; i < found.count; i++) {
        struct part part = found.items[i];
        if (part.offset_bytes > end)
            REMAT_TRY_PUSH(s->arena, &s->persistent,
                           ((struct part){end, part.offset_bytes - end, REMAT_NONE}));
        if (part.bytes)
            REMAT_TRY_PUSH(s->arena, &s->persistent, part);
        end = part.offset_bytes + part.bytes;
    }
fail:
    return st;
}

static remat_status append_run(void *user, const struct dump_run *run)
{
    struct snapshot *s = user;
    for (uint32_t c = run->segment->command_begin; c <= run->segment->command_end; c++) {
        bool ended = c == run->segment->command_end;
        uint64_t time_ns =
            run->begin_ns + (ended ? run->clocks->segment_ns : run->clocks->reached_ns[c]);
        for (uint32_t b = s->died[c]; b != REMAT_NONE; b = s->died_next[b])
            if (s->program->buffers[b].begin >= run->segment->command_begin)
                append_free(s, b, time_ns);
        for (uint32_t b = ended ? REMAT_NONE : s->born[c]; b != REMAT_NONE; b = s->born_next[b])
            append_alloc(s, b, time_ns);
    }
    return REMAT_OK;
}

static void append_block(struct snapshot *s, uint64_t bytes, const char *state, uint32_t b)
{
    pickle_dict(s->out);
    key_integer(s->out, "size", bytes);
    key_integer(s->out, "requested_size", bytes);
    key_text(s->out, "state", state);
    end_with_frames(s, b);
}

static void append_segment(struct snapshot *s)
{
    const struct remat_program *p = s->program;
    pickle_dict(s->out);
    key_integer(s->out, "device", 0);
    key_integer(s->out, "address", ADDRESS);
    key_integer(s->out, "total_size", p->arena_bytes);
    key_integer(s->out, "allocated_size", p->static_bytes);
    key_integer(s->out, "active_size", p->static_bytes);
    key_integer(s->out, "requested_size", p->static_bytes);
    key_integer(s->out, "stream", 0);
    key_text(s->out, "segment_type", "large");
    pickle_text(s->out, "segment_pool_id");
    pickle_integer(s->out, 0);
    pickle_integer(s->out, 0);
    pickle_pair(s->out);
    pickle_text(s->out, "is_expandable");
    pickle_boolean(s->out, false);
    pickle_text(s->out, "frames");
    pickle_list(s->out);
    pickle_text(s->out, "blocks");
    pickle_list(s->out);
    for (size_t i = 0; i < s->persistent.count; i++)
        append_block(s, s->persistent.items[i].bytes, "active_allocated",
                     s->persistent.items[i].buffer);
    if (p->arena_bytes > p->static_bytes)
        append_block(s, p->arena_bytes - p->static_bytes, "inactive", REMAT_NONE);
    pickle_dict_end(s->out);
    pickle_add(s->out);
}

static remat_status append_trace(remat_context *ctx, struct snapshot *s)
{
    pickle_list(s->out);
    append_event(s, "segment_alloc", 0, s->program->arena_bytes, REMAT_NONE, 0);
    for (size_t i = 0; i < s->persistent.count; i++) {
        const struct part *part = &s->persistent.items[i];
        append_event(s, "alloc", part->offset_bytes, part->bytes, part->buffer, 0);
    }
    return dump_script(ctx, s->arena, s->program, append_run, s);
}

/* Later ones come first in the lists of commands. */
static remat_status find_lives(struct snapshot *s)
{
    remat_status st = REMAT_OK;
    const struct remat_program *p = s->program;
    REMAT_TRY(dump_indices(s->arena, p->command_count + (size_t)1, &s->born));
    REMAT_TRY(dump_indices(s->arena, p->command_count + (size_t)1, &s->died));
    REMAT_TRY(dump_indices(s->arena, p->buffer_count, &s->born_next));
    REMAT_TRY(dump_indices(s->arena, p->buffer_count, &s->died_next));
    REMAT_TRY(dump_indices(s->arena, p->buffer_count, &s->value));
    REMAT_TRY_NEW(s->arena, s->known, p->buffer_count);
    for (uint32_t b = p->buffer_count; b-- > 0;) {
        const struct remat_buffer *buffer = &p->buffers[b];
        if (buffer->persistent || buffer->begin >= buffer->end || !buffer->bytes)
            continue;
        s->born_next[b] = s->born[buffer->begin];
        s->born[buffer->begin] = b;
        s->died_next[b] = s->died[buffer->end];
        s->died[buffer->end] = b;
    }
    for (uint32_t v = p->value_count; v-- > 0;)
        s->value[p->values[v].buffer] = v;
fail:
    return st;
}

remat_status dump_snapshot(remat_context *ctx, struct remat_arena *arena,
                           const struct remat_program *program, const struct dump_asked *asked,
                           struct remat_text *out)
{
    (void)asked;
    remat_status st = REMAT_OK;
    struct snapshot s = {.program = program,
                         .labels = dump_labels(arena, program),
                         .classes = dump_classify(arena, program),
                         .arena = arena,
                         .out = out};
    if (!s.labels || !s.classes)
        return REMAT_ERROR_MEMORY;
    REMAT_TRY(find_lives(&s));
    REMAT_TRY(find_persistent(&s));
    pickle_begin(out);
    pickle_dict(out);
    pickle_text(out, "segments");
    pickle_list(out);
    append_segment(&s);
    pickle_text(out, "device_traces");
    pickle_list(out);
    REMAT_TRY(append_trace(ctx, &s));
    pickle_add(out);
    pickle_dict_end(out);
    pickle_end(out);
fail:
    return st;
}
