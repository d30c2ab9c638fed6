/* SPDX-License-Identifier: Apache-2.0 */
/* What the views share: JSON with remembered failures, ranges, segments. */
#include "dump.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

void dump_set(struct dump_json *out, const char *key, json_t *value)
{
    if (json_object_set_new(out->object, key, value) != 0)
        out->failed = true;
}

void dump_push(struct dump_json *out, json_t *array, json_t *value)
{
    if (json_array_append_new(array, value) != 0)
        out->failed = true;
}

json_t *dump_bytes(uint64_t value)
{
    return json_integer((json_int_t)value);
}

json_t *dump_hash(uint64_t hash)
{
    char digits[17];
    snprintf(digits, sizeof digits, "%016" PRIx64, hash);
    return json_string(digits);
}

remat_status dump_print_json(remat_context *ctx, const struct dump_json *json,
                             struct remat_text *out)
{
    char *text = json->failed ? NULL : json_dumps(json->object, JSON_INDENT(2));
    if (!text)
        return remat_error(ctx, REMAT_ERROR_OTHER,
                           "cannot make the JSON: out of memory, or a name is not UTF-8");
    char *rest, *line = strtok_r(text, "\n", &rest);
    for (; line; line = strtok_r(NULL, "\n", &rest)) {
        remat_text_show(out, line);
        remat_text_append(out, "\n");
    }
    free(text);
    return REMAT_OK;
}

remat_status dump_indices(struct remat_arena *arena, size_t count, uint32_t **out)
{
    *out = remat_arena_array(arena, count, sizeof **out);
    if (!*out)
        return REMAT_ERROR_MEMORY;
    memset(*out, 0xff, count * sizeof **out);
    return REMAT_OK;
}

remat_status dump_index_new(struct remat_arena *arena, size_t most, struct dump_index *out)
{
    remat_status st = REMAT_OK;
    for (out->mask = 0; out->mask < most;)
        out->mask = out->mask * 2 + 1;
    REMAT_TRY(dump_indices(arena, out->mask + 1, &out->first));
    REMAT_TRY(dump_indices(arena, most, &out->next));
fail:
    return st;
}

void dump_index_add(struct dump_index *index, uint64_t hash, uint32_t item)
{
    uint32_t *first = &index->first[hash & index->mask];
    index->next[item] = *first;
    *first = item;
}

const char *dump_ranges(struct remat_arena *arena, const uint32_t *items, size_t count)
{
    struct remat_text text = {.arena = arena};
    for (size_t i = 0, end; i < count; i = end) {
        for (end = i + 1; end < count && items[end] == items[end - 1] + 1;)
            end++;
        remat_text_append(&text, "%s%" PRIu32, i ? "," : "", items[i]);
        if (end - i > 1)
            remat_text_append(&text, "-%" PRIu32, items[end - 1]);
    }
    return count == 0 || text.failed ? "none" : text.items;
}

remat_status dump_pattern(struct remat_arena *arena, const char *path, int32_t layer,
                          const char **out)
{
    char number[16];
    size_t length = (size_t)snprintf(number, sizeof number, ".%" PRId32, layer);
    const char *at = layer < 0 ? NULL : strstr(path, number);
    while (at && at[length] >= '0' && at[length] <= '9')
        at = strstr(at + 1, number);
    *out = at ? remat_arena_format(arena, "%.*s.*%s", (int)(at - path), path, at + length) : path;
    return *out ? REMAT_OK : REMAT_ERROR_MEMORY;
}

static bool is_inside_character(char byte)
{
    return ((unsigned char)byte & 0xc0) == 0x80;
}

void dump_append_name(struct remat_text *out, const char *name, size_t width)
{
    assert(width > 3);
    size_t length = strlen(name), head = (width - 3) / 3, tail = width - 3 - head;
    while (head > 0 && length > width && is_inside_character(name[head]))
        head--;
    while (tail > 0 && length > width && is_inside_character(name[length - tail]))
        tail--;
    if (length <= width)
        remat_text_append(out, "%s", name);
    else
        remat_text_append(out, "%.*s...%s", (int)head, name, name + length - tail);
}

uint32_t dump_segment_of(const struct remat_program *program, uint32_t command)
{
    for (uint32_t s = 0; s < program->segment_count; s++) {
        const struct remat_segment *segment = &program->segments[s];
        if (command >= segment->command_begin && command < segment->command_end)
            return s;
    }
    return REMAT_NONE;
}

uint32_t dump_step_segment(const struct remat_program *program)
{
    const struct remat_call *step = remat_program_step_call(program);
    if (step)
        return step->segment;
    uint32_t longest = REMAT_NONE, most = 0;
    for (uint32_t s = 0; s < program->segment_count; s++) {
        const struct remat_segment *segment = &program->segments[s];
        if (longest == REMAT_NONE || segment->command_end - segment->command_begin > most) {
            most = segment->command_end - segment->command_begin;
            longest = s;
        }
    }
    return longest;
}
