/* SPDX-License-Identifier: Apache-2.0 */
/* The command that is meant by a number or a name. Evaluation has most names of the forward pass
 * once more, so the first segment of the schedule that has a name counts. */
#include "suggest.h"
#include "views.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { COMMANDS_NAMED = 5 };

struct found REMAT_LIST(uint32_t);

typedef bool (*is_meant)(const struct remat_program *program, uint32_t command, const char *word);

/* As the schedule prints it: "h.0.mlp.fc", of a recomputation "h.0.mlp.fc #1". */
static bool is_called(const struct remat_program *program, uint32_t command, const char *word)
{
    const struct remat_command *c = &program->commands[command];
    size_t length = strlen(c->name);
    char again[16] = "";
    if (c->instance)
        snprintf(again, sizeof again, " #%" PRIu32, c->instance);
    return strncmp(word, c->name, length) == 0 && strcmp(word + length, again) == 0;
}

static bool has_name(const struct remat_program *program, uint32_t command, const char *word)
{
    return strcmp(program->commands[command].name, word) == 0;
}

static bool contains(const struct remat_program *program, uint32_t command, const char *word)
{
    return strstr(program->commands[command].name, word) != NULL;
}

static bool writes(const struct remat_program *program, uint32_t command, const char *word)
{
    const struct remat_command *c = &program->commands[command];
    bool written = false;
    for (uint32_t o = c->operand_begin; o < c->operand_end && !written; o++)
        written = (program->operands[o].access & REMAT_ACCESS_WRITE) &&
                  strcmp(program->values[program->operands[o].value].name, word) == 0;
    return written;
}

/* Those of the first segment that has some. */
static remat_status find(struct remat_arena *arena, const struct remat_program *program,
                         const struct dump_order *order, is_meant meant, const char *word,
                         struct found *out)
{
    remat_status st = REMAT_OK;
    *out = (struct found){0};
    for (size_t i = 0; i < order->count && out->count == 0; i++) {
        const struct remat_segment *segment = &program->segments[order->items[i]];
        for (uint32_t c = segment->command_begin; c < segment->command_end; c++)
            if (meant(program, c, word))
                REMAT_TRY_PUSH(arena, out, c);
    }
fail:
    return st;
}

static const char *name_at(const void *user, uint32_t command)
{
    return ((const struct remat_program *)user)->commands[command].name;
}

/* Commands that compute a value of this name, else those with it in their names, else those with
 * the nearest name. */
static remat_status find_near(struct remat_arena *arena, const struct remat_program *program,
                              const struct dump_order *order, const char *word, const char **how,
                              struct found *out)
{
    remat_status st = REMAT_OK;
    *how = "the value is written by";
    REMAT_TRY(find(arena, program, order, writes, word, out));
    if (out->count)
        return REMAT_OK;
    *how = "near:";
    if (*word)
        REMAT_TRY(find(arena, program, order, contains, word, out));
    if (out->count)
        return REMAT_OK;
    uint32_t nearest = remat_nearest(word, name_at, program, program->command_count);
    if (nearest < program->command_count)
        REMAT_TRY(find(arena, program, order, has_name, name_at(program, nearest), out));
fail:
    return st;
}

/* "12 h.0.mlp.fc, 40 h.0.mlp.fc #1 and 3 more" */
static const char *list(struct remat_arena *arena, const struct remat_program *program,
                        const struct found *found)
{
    struct remat_text text = {.arena = arena};
    for (size_t i = 0; i < found->count && i < COMMANDS_NAMED; i++) {
        const struct remat_command *command = &program->commands[found->items[i]];
        remat_text_append(&text, "%s%" PRIu32 " %s", i ? ", " : "", found->items[i], command->name);
        if (command->instance)
            remat_text_append(&text, " #%" PRIu32, command->instance);
    }
    if (found->count > COMMANDS_NAMED)
        remat_text_append(&text, " and %zu more", found->count - COMMANDS_NAMED);
    return text.failed || !text.items ? "" : text.items;
}

static remat_status refuse(remat_context *ctx, struct remat_arena *arena,
                           const struct remat_program *program, const struct dump_order *order,
                           const char *word, const struct found *several)
{
    remat_status st = REMAT_OK;
    struct found near = {0};
    const char *how;
    if (several->count)
        return remat_error(ctx, REMAT_ERROR_USAGE,
                           "--at \"%s\": several commands have that name: %s; give a number", word,
                           list(arena, program, several));
    REMAT_TRY(find_near(arena, program, order, word, &how, &near));
    st = remat_error(ctx, REMAT_ERROR_USAGE, "--at \"%s\": no command has that name; %s %s", word,
                     near.count ? how : "--schedule",
                     near.count ? list(arena, program, &near) : "lists them all");
fail:
    return st;
}

static remat_status find_numbered(remat_context *ctx, const struct remat_program *program,
                                  const struct dump_order *order, const struct dump_asked *asked,
                                  uint32_t *out)
{
    errno = 0;
    unsigned long long number = strtoull(asked->command, NULL, 10);
    *out = number < program->command_count && !errno ? (uint32_t)number : REMAT_NONE;
    if (*out != REMAT_NONE && dump_is_among(program, order, *out))
        return REMAT_OK;
    if (!asked->segment)
        return remat_error(ctx, REMAT_ERROR_USAGE, "--at %s: the plan has %" PRIu32 " commands",
                           asked->command, program->command_count);
    const struct remat_segment *segment = &program->segments[order->items[0]];
    return remat_error(ctx, REMAT_ERROR_USAGE,
                       "--at %s: segment %s has commands %" PRIu32 " to %" PRIu32, asked->command,
                       segment->name, segment->command_begin, segment->command_end - 1);
}

remat_status dump_find_command(remat_context *ctx, struct remat_arena *arena,
                               const struct remat_program *program, const struct dump_asked *asked,
                               uint32_t *out)
{
    remat_status st = REMAT_OK;
    struct dump_order order = {0};
    struct found found;
    const char *word = asked->command;
    REMAT_TRY(dump_order(ctx, arena, program, asked->segment, &order));
    if (*word && strspn(word, "0123456789") == strlen(word))
        return find_numbered(ctx, program, &order, asked, out);
    REMAT_TRY(find(arena, program, &order, is_called, word, &found));
    if (found.count != 1)
        return refuse(ctx, arena, program, &order, word, &found);
    *out = found.items[0];
fail:
    return st;
}
