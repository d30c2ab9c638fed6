/* SPDX-License-Identifier: Apache-2.0 */
/* A trace is replayed from its first event, relative to what was allocated before: that is known at
 * the end, from frees of what the trace did not allocate and from blocks that it did not. An
 * allocation's class follows from its stack and from whether the backward pass ran while it lived.
 * Values of a hostile pickle may be in many places; what looking at them costs is counted. */
#include "snapshot_peak.h"

#include "file.h"
#include "pickle_reader.h"
#include "residents.h"
#include "size.h"

#include <inttypes.h>

enum origin {
    ORIGIN_UNKNOWN,
    ORIGIN_FORWARD, /* a stack that no rule is about */
    ORIGIN_RECOMPUTED,
    ORIGIN_OPTIMIZER,
    ORIGIN_UPDATE,
    ORIGIN_GRADIENT,
    ORIGIN_BACKWARD,
    ORIGIN_PARAMETER,
    ORIGIN_INPUT,
    ORIGIN_NAMED /* and from here on: the class that a snapshot of remat-dump names */
};

static const struct snapshot_rule {
    uint8_t origin;
    const char *file, *function;
} rules[] = {
#define RULE(origin, file, function) {ORIGIN_##origin, file, function},
#include "snapshot_rules.def"
};

enum action { ACTION_OTHER, ACTION_ALLOC, ACTION_FREE, ACTION_MAP, ACTION_UNMAP };

struct snapshot_event {
    uint8_t action, origin, class;
    bool freed;
    uint64_t address, bytes;
    uint32_t of;                          /* a free: the allocation; REMAT_NONE: before the trace */
    uint32_t backward_count, other_count; /* allocations until then, in the backward pass and not */
};

struct snapshot_replay {
    remat_context *ctx;
    struct remat_arena *arena;
    const char *name;
    uint64_t cost, cost_max;
    uint32_t device;
    struct snapshot_event *events;
    size_t count;
    struct dump_index live; /* events by address */
    uint64_t before_bytes;  /* allocated before the trace */
};

static remat_status refuse(const struct snapshot_replay *r, const char *what, size_t index,
                           const char *why)
{
    return remat_error(r->ctx, REMAT_ERROR_INVALID, "%s: device %" PRIu32 ", %s %zu: %s", r->name,
                       r->device, what, index, why);
}

/* The cost of looking at all keys of a dict, or at a list. */
static remat_status charge(struct snapshot_replay *r, const struct pickle_value *value)
{
    r->cost += value->count + 1;
    if (r->cost > r->cost_max)
        return remat_error(r->ctx, REMAT_ERROR_INVALID,
                           "%s: values in more places than a snapshot has", r->name);
    return REMAT_OK;
}

static bool is_text(const struct pickle_value *value, const char *text)
{
    return value && value->kind == PICKLE_TEXT && strcmp(value->text, text) == 0;
}

static bool read_size(const struct pickle_value *value, uint64_t most, uint64_t *out)
{
    if (!value || value->kind != PICKLE_INTEGER || value->number < 0 ||
        (uint64_t)value->number > most)
        return false;
    *out = (uint64_t)value->number;
    return true;
}

/* --- classes --- */

static uint8_t find_origin(const struct pickle_value *frame, bool first)
{
    const struct pickle_value *file = pickle_get(frame, "filename"),
                              *function = pickle_get(frame, "name");
    if (!file || !function || file->kind != PICKLE_TEXT || function->kind != PICKLE_TEXT)
        return ORIGIN_UNKNOWN;
    for (uint32_t class = 0; first && class < DUMP_CLASS_COUNT; class ++)
        if (strcmp(file->text, dump_class_names[class]) == 0)
            return (uint8_t)(ORIGIN_NAMED + class);
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (strstr(file->text, rules[i].file) && strstr(function->text, rules[i].function))
            return rules[i].origin;
    return ORIGIN_FORWARD;
}

/* The first rule that a frame satisfies; found once for each list of frames. */
static remat_status find_stack_origin(struct snapshot_replay *r, struct pickle_value *frames,
                                      uint8_t *out)
{
    remat_status st = REMAT_OK;
    *out = ORIGIN_UNKNOWN;
    if (!frames || frames->kind != PICKLE_LIST)
        return REMAT_OK;
    for (size_t i = 0; i < frames->count && !frames->mark; i++) {
        REMAT_TRY(charge(r, frames->items[i]));
        uint8_t origin = find_origin(frames->items[i], i == 0);
        if (origin > ORIGIN_FORWARD) {
            *out = origin;
            break;
        }
        *out = origin > *out ? origin : *out;
    }
    if (!frames->mark)
        frames->mark = *out + 1;
    *out = frames->mark - 1;
fail:
    return st;
}

/* `backward` and `other`: the backward pass, or something else, allocated while it lived. */
static uint8_t class_of(uint8_t origin, bool backward, bool other)
{
    switch (origin) {
    case ORIGIN_UNKNOWN:
        return SNAPSHOT_NOT_RECORDED;
    case ORIGIN_FORWARD:
        return backward ? DUMP_KEPT : DUMP_TRANSIENT;
    case ORIGIN_RECOMPUTED:
        return DUMP_RECOMPUTED;
    case ORIGIN_OPTIMIZER:
        return DUMP_OPTIMIZER;
    case ORIGIN_GRADIENT:
        return DUMP_GRADIENTS;
    case ORIGIN_BACKWARD:
        return other ? DUMP_GRADIENTS : DUMP_TRANSIENT;
    case ORIGIN_PARAMETER:
        return DUMP_PARAMETERS;
    case ORIGIN_INPUT:
        return DUMP_HOST;
    case ORIGIN_UPDATE:
        return DUMP_TRANSIENT;
    default:
        return origin - ORIGIN_NAMED;
    }
}

/* --- replay --- */

static enum action action_of(const struct pickle_value *value)
{
    static const struct {
        const char *name;
        enum action action;
    } names[] = {{"alloc", ACTION_ALLOC},        {"free_completed", ACTION_FREE},
                 {"segment_alloc", ACTION_MAP},  {"segment_map", ACTION_MAP},
                 {"segment_free", ACTION_UNMAP}, {"segment_unmap", ACTION_UNMAP}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (is_text(value, names[i].name))
            return names[i].action;
    return ACTION_OTHER;
}

static remat_status read_event(struct snapshot_replay *r, const struct pickle_value *from,
                               size_t index)
{
    remat_status st = REMAT_OK;
    struct snapshot_event *event = &r->events[index];
    if (from->kind != PICKLE_DICT)
        return refuse(r, "event", index, "it is no dict");
    REMAT_TRY(charge(r, from));
    const struct pickle_value *action = pickle_get(from, "action");
    if (!action || action->kind != PICKLE_TEXT)
        return refuse(r, "event", index, "\"action\" is no text");
    event->action = (uint8_t)action_of(action);
    if (event->action == ACTION_OTHER)
        return REMAT_OK;
    if (!read_size(pickle_get(from, "addr"), INT64_MAX, &event->address))
        return refuse(r, "event", index, "\"addr\" is no address");
    if (!read_size(pickle_get(from, "size"), REMAT_BYTES_MAX, &event->bytes))
        return refuse(r, "event", index, "\"size\" is no number of bytes up to 2^50");
    st = find_stack_origin(r, pickle_get(from, "frames"), &event->origin);
fail:
    return st;
}

/* The last allocation there, if it is still live. */
static uint32_t find_live(const struct snapshot_replay *r, uint64_t address)
{
    uint32_t e = dump_index_first(&r->live, remat_hash(&address, sizeof address, 0));
    while (e != REMAT_NONE && r->events[e].address != address)
        e = r->live.next[e];
    return e == REMAT_NONE || r->events[e].freed ? REMAT_NONE : e;
}

static void classify(struct snapshot_event *event, uint32_t backward_count, uint32_t other_count)
{
    event->class = class_of(event->origin, backward_count > event->backward_count,
                            other_count > event->other_count);
}

/* Frees find their allocations, and allocations their classes. */
static void match_frees(struct snapshot_replay *r)
{
    uint32_t backward_count = 0, other_count = 0;
    for (size_t i = 0; i < r->count; i++) {
        struct snapshot_event *event = &r->events[i];
        if (event->action == ACTION_ALLOC) {
            bool backward = event->origin == ORIGIN_BACKWARD || event->origin == ORIGIN_GRADIENT ||
                            event->origin == ORIGIN_RECOMPUTED;
            backward_count += backward;
            other_count += !backward;
            event->backward_count = backward_count;
            event->other_count = other_count;
            dump_index_add(&r->live, remat_hash(&event->address, sizeof event->address, 0),
                           (uint32_t)i);
        } else if (event->action == ACTION_FREE) {
            event->of = find_live(r, event->address);
            if (event->of == REMAT_NONE)
                continue;
            r->events[event->of].freed = true;
            classify(&r->events[event->of], backward_count, other_count);
        }
    }
    for (size_t i = 0; i < r->count; i++)
        if (r->events[i].action == ACTION_ALLOC && !r->events[i].freed)
            classify(&r->events[i], backward_count, UINT32_MAX);
}

static remat_status add_blocks(struct snapshot_replay *r, const struct pickle_value *segment,
                               size_t index, uint64_t *reserved_bytes)
{
    remat_status st = REMAT_OK;
    const struct pickle_value *blocks = pickle_get(segment, "blocks");
    uint64_t address, bytes;
    if (!read_size(pickle_get(segment, "address"), INT64_MAX / 2, &address))
        return refuse(r, "segment", index, "\"address\" is no address");
    if (!read_size(pickle_get(segment, "total_size"), REMAT_BYTES_MAX, &bytes) ||
        (*reserved_bytes += bytes) > REMAT_BYTES_MAX)
        return refuse(r, "segment", index, "\"total_size\" is no number of bytes up to 2^50");
    if (!blocks || blocks->kind != PICKLE_LIST)
        return refuse(r, "segment", index, "\"blocks\" is no list");
    REMAT_TRY(charge(r, blocks));
    for (size_t b = 0; b < blocks->count; b++) {
        const struct pickle_value *block = blocks->items[b], *state = pickle_get(block, "state");
        uint64_t size, asked;
        REMAT_TRY(charge(r, block));
        if (!read_size(pickle_get(block, "size"), REMAT_BYTES_MAX, &size) ||
            address + size > INT64_MAX)
            return refuse(r, "segment", index, "\"size\" of a block is no number of bytes");
        if (!read_size(pickle_get(block, "requested_size"), size, &asked))
            asked = size;
        bool active = state && state->kind == PICKLE_TEXT && strncmp(state->text, "active", 6) == 0;
        if (active && find_live(r, address) == REMAT_NONE &&
            (r->before_bytes += asked) > REMAT_BYTES_MAX)
            return refuse(r, "segment", index, "more than 2^50 bytes in blocks");
        address += size;
    }
fail:
    return st;
}

/* Of what the trace adds to what was there before it. */
struct snapshot_height {
    int64_t now, peak;
};

static void raise(struct snapshot_height *height, int64_t bytes)
{
    height->now += bytes;
    height->peak = height->now > height->peak ? height->now : height->peak;
}

static remat_status find_peak(struct snapshot_replay *r, uint64_t reserved_bytes,
                              struct snapshot_peak *out)
{
    struct snapshot_height live = {0}, reserved = {0};
    int64_t now[SNAPSHOT_NOT_RECORDED + 1] = {0}, peak[SNAPSHOT_NOT_RECORDED + 1] = {0};
    for (size_t i = 0; i < r->count; i++) {
        const struct snapshot_event *event = &r->events[i];
        bool before = event->action == ACTION_FREE && event->of == REMAT_NONE;
        const struct snapshot_event *of =
            event->action == ACTION_FREE && !before ? &r->events[event->of] : event;
        int64_t bytes = (int64_t)of->bytes, most = live.peak;
        if (event->action == ACTION_MAP || event->action == ACTION_UNMAP)
            raise(&reserved, event->action == ACTION_MAP ? bytes : -bytes);
        if (event->action != ACTION_ALLOC && event->action != ACTION_FREE)
            continue;
        bytes = event->action == ACTION_ALLOC ? bytes : -bytes;
        now[before ? SNAPSHOT_NOT_RECORDED : of->class] += bytes;
        raise(&live, bytes);
        r->before_bytes += before ? event->bytes : 0;
        if (live.peak > most)
            memcpy(peak, now, sizeof peak);
        if (live.now > (int64_t)REMAT_BYTES_MAX || r->before_bytes > REMAT_BYTES_MAX ||
            reserved.now > (int64_t)REMAT_BYTES_MAX || reserved.now < -(int64_t)REMAT_BYTES_MAX)
            return refuse(r, "event", i, "more than 2^50 bytes are allocated");
    }
    peak[SNAPSHOT_NOT_RECORDED] += (int64_t)r->before_bytes;
    *out =
        (struct snapshot_peak){r->device, r->count, (uint64_t)live.peak + r->before_bytes, 0, {0}};
    int64_t first = (int64_t)reserved_bytes - reserved.now;
    out->reserved_bytes = (uint64_t)((first > 0 ? first : 0) + reserved.peak);
    for (uint32_t class = 0; class <= SNAPSHOT_NOT_RECORDED; class ++)
        out->bytes[class] = peak[class] > 0 ? (uint64_t)peak[class] : 0;
    return REMAT_OK;
}

static remat_status replay_device(struct snapshot_replay *r, const struct pickle_value *segments,
                                  const struct pickle_value *trace, struct snapshot_peak *out)
{
    remat_status st = REMAT_OK;
    uint64_t reserved_bytes = 0, device;
    r->count = trace->count;
    r->before_bytes = 0;
    REMAT_TRY(charge(r, trace));
    REMAT_TRY_NEW(r->arena, r->events, r->count + 1);
    REMAT_TRY(dump_index_new(r->arena, r->count, &r->live));
    for (size_t i = 0; i < r->count; i++)
        REMAT_TRY(read_event(r, trace->items[i], i));
    match_frees(r);
    for (size_t s = 0; s < segments->count; s++) {
        REMAT_TRY(charge(r, segments->items[s]));
        if (!read_size(pickle_get(segments->items[s], "device"), UINT32_MAX, &device))
            return refuse(r, "segment", s, "\"device\" is no number");
        if (device == r->device)
            REMAT_TRY(add_blocks(r, segments->items[s], s, &reserved_bytes));
    }
    st = find_peak(r, reserved_bytes, out);
fail:
    return st;
}

remat_status snapshot_peak_find(remat_context *ctx, struct remat_arena *arena, const char *name,
                                const void *data, size_t bytes, struct snapshot_peak *out)
{
    remat_status st = REMAT_OK;
    struct snapshot_replay r = {.ctx = ctx, .arena = arena, .name = name};
    struct pickle_value *root;
    REMAT_TRY(pickle_read(ctx, name, data, bytes, arena, &root));
    const struct pickle_value *segments = pickle_get(root, "segments"),
                              *traces = pickle_get(root, "device_traces");
    *out = (struct snapshot_peak){0};
    if (!segments || segments->kind != PICKLE_LIST || !traces || traces->kind != PICKLE_LIST)
        REMAT_FAIL(ctx, REMAT_ERROR_INVALID,
                   "%s: no snapshot of PyTorch's memory: no lists \"segments\" and "
                   "\"device_traces\"",
                   name);
    r.cost_max = (uint64_t)bytes * 16 + 4096;
    for (size_t d = 0; d < traces->count; d++) {
        struct snapshot_peak peak;
        r.device = (uint32_t)d;
        if (traces->items[d]->kind != PICKLE_LIST)
            return refuse(&r, "trace", d, "it is no list");
        REMAT_TRY(replay_device(&r, segments, traces->items[d], &peak));
        if (d == 0 || peak.peak_bytes > out->peak_bytes)
            *out = peak;
    }
fail:
    return st;
}

/* --- beside a plan --- */

static const char *class_name(uint32_t class)
{
    return class == SNAPSHOT_NOT_RECORDED ? "not recorded" : dump_class_names[class];
}

static remat_status read_peak(remat_context *ctx, struct remat_arena *arena, const char *path,
                              struct snapshot_peak *out)
{
    remat_status st = REMAT_OK;
    char *data;
    size_t bytes;
    REMAT_TRY(remat_file_read(ctx, path, arena, &data, &bytes));
    st = snapshot_peak_find(ctx, arena, path, data, bytes, out);
fail:
    return st;
}

static void print_row(struct remat_text *out, const char *name, uint64_t plan, uint64_t snapshot)
{
    remat_text_append(out, "%-18s  %10s  %10s\n", name, plan ? remat_short_text(plan).text : "-",
                      snapshot ? remat_short_text(snapshot).text : "-");
}

remat_status dump_beside_text(remat_context *ctx, struct remat_arena *arena,
                              const struct remat_program *program, const char *path,
                              struct remat_text *out)
{
    remat_status st = REMAT_OK;
    struct snapshot_peak peak;
    struct dump_residents residents;
    const uint8_t *classes = dump_classify(arena, program);
    if (!classes)
        return REMAT_ERROR_MEMORY;
    REMAT_TRY(read_peak(ctx, arena, path, &peak));
    REMAT_TRY(dump_residents(arena, program, classes, program->peak_command, &residents));
    remat_text_append(out, "\nbeside PyTorch's snapshot of device %" PRIu32 ", %zu events\n",
                      peak.device, peak.event_count);
    remat_text_append(out, "%-18s  %10s  %10s\n", "", "plan", "snapshot");
    print_row(out, "live peak", program->peak_bytes, peak.peak_bytes);
    print_row(out, "arena, reserved", program->arena_bytes, peak.reserved_bytes);
    for (uint32_t class = 0; class <= SNAPSHOT_NOT_RECORDED; class ++) {
        uint64_t plan = class < DUMP_CLASS_COUNT ? residents.bytes[class] : 0;
        if (plan || peak.bytes[class])
            print_row(out, class_name(class), plan, peak.bytes[class]);
    }
    if (program->workspace_bytes)
        print_row(out, "workspace", program->workspace_bytes, 0);
fail:
    return st;
}

remat_status dump_beside_json(remat_context *ctx, struct remat_arena *arena, const char *path,
                              struct dump_json *out)
{
    remat_status st = REMAT_OK;
    struct snapshot_peak peak;
    REMAT_TRY(read_peak(ctx, arena, path, &peak));
    json_t *classes = json_object();
    for (uint32_t class = 0; class <= SNAPSHOT_NOT_RECORDED; class ++)
        if (json_object_set_new(classes, class_name(class), dump_bytes(peak.bytes[class])) != 0)
            out->failed = true;
    dump_set(out, "snapshot",
             json_pack("{s:I,s:I,s:I,s:I,s:o}", "device", (json_int_t)peak.device, "events",
                       (json_int_t)peak.event_count, "peak_bytes", (json_int_t)peak.peak_bytes,
                       "reserved_bytes", (json_int_t)peak.reserved_bytes, "classes_at_peak",
                       classes));
fail:
    return st;
}
