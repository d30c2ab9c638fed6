/* SPDX-License-Identifier: Apache-2.0 */
#include "views.h"

/* How commands use a value around a place. Buffers tell less: others may lie there later. */
struct use {
    bool before, after; /* in that place counts as both */
    bool early_after;   /* the forward pass, there or after it */
    bool late_before;   /* the backward pass, there or before it */
};

static void add_uses(const struct remat_program *program, uint32_t c, uint32_t place,
                     struct use *uses)
{
    const struct remat_command *command = &program->commands[c];
    bool early = command->phase == REMAT_PHASE_FORWARD || command->phase == REMAT_PHASE_LOSS;
    for (uint32_t o = command->operand_begin; o < command->operand_end; o++) {
        uint32_t value = program->operands[o].value;
        const struct remat_buffer *buffer = &program->buffers[program->values[value].buffer];
        if (c < buffer->begin || c >= buffer->end)
            continue;
        uses[value].before |= c <= place;
        uses[value].after |= c >= place;
        uses[value].early_after |= early && c >= place;
        uses[value].late_before |= !early && c <= place;
    }
}

static bool names_value(const struct remat_program_value *value,
                        const struct remat_decision_record *record)
{
    return value->role == REMAT_ROLE_ACTIVATION && strcmp(value->name, record->name) == 0;
}

bool dump_names_kept(const struct remat_decision_record *record, const char *name)
{
    size_t length = strlen(record->name);
    const char *suffix = remat_keep_words[record->action].suffix;
    return suffix && strncmp(name, record->name, length) == 0 && strcmp(name + length, suffix) == 0;
}

static void keep_first(uint32_t *first, uint32_t index)
{
    *first = index < *first ? index : *first;
}

static void add_value(const struct remat_program *program, const struct dump_index *by_name,
                      uint32_t v, struct use use, struct dump_decided *out)
{
    const struct remat_program_value *value = &program->values[v];
    size_t length = strlen(value->name);
    uint32_t d = dump_index_first(by_name, remat_hash(value->name, length, 0));
    for (; d != REMAT_NONE; d = by_name->next[d])
        if (names_value(value, &program->decisions[d])) {
            keep_first(&out->about[v], d);
            if (value->instance == 0)
                keep_first(&out->decision[v], d);
            out->stays[d] |= use.before && use.after &&
                             (value->instance > 0 || use.early_after || use.late_before);
        }
    for (uint32_t a = 0; a < REMAT_ACTION_COUNT && value->instance == 0; a++) {
        const char *suffix = remat_keep_words[a].suffix;
        if (!suffix || length < strlen(suffix))
            continue;
        d = dump_index_first(by_name, remat_hash(value->name, length - strlen(suffix), 0));
        for (; d != REMAT_NONE; d = by_name->next[d])
            if (dump_names_kept(&program->decisions[d], value->name)) {
                keep_first(&out->decision[v], d);
                keep_first(&out->about[v], d);
                keep_first(&out->kept[d], v);
            }
    }
}

remat_status dump_decided(struct remat_arena *arena, const struct remat_program *program,
                          uint32_t command, struct dump_decided *out)
{
    remat_status st = REMAT_OK;
    struct dump_index by_name;
    struct use *uses;
    REMAT_TRY_NEW(arena, uses, program->value_count);
    REMAT_TRY_NEW(arena, out->stays, program->decision_count);
    REMAT_TRY(dump_indices(arena, program->value_count, &out->decision));
    REMAT_TRY(dump_indices(arena, program->value_count, &out->about));
    REMAT_TRY(dump_indices(arena, program->decision_count, &out->kept));
    REMAT_TRY(dump_index_new(arena, program->decision_count, &by_name));
    for (uint32_t c = 0; c < program->command_count; c++)
        add_uses(program, c, command, uses);
    for (uint32_t d = 0; d < program->decision_count; d++)
        dump_index_add(&by_name, remat_hash_string(program->decisions[d].name, 0), d);
    for (uint32_t v = 0; v < program->value_count; v++)
        add_value(program, &by_name, v, uses[v], out);
fail:
    return st;
}
