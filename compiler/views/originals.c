/* SPDX-License-Identifier: Apache-2.0 */
#include "formats.h"

/* Commands by the names of what they compute, the last one added first. */
struct name_table {
    struct dump_index index;
    const char **name;
    uint32_t *command, count;
};

static uint32_t find(const struct name_table *names, const char *name)
{
    uint32_t i = dump_index_first(&names->index, remat_hash_string(name, 0));
    while (i != REMAT_NONE && strcmp(names->name[i], name) != 0)
        i = names->index.next[i];
    return i == REMAT_NONE ? REMAT_NONE : names->command[i];
}

static void add(struct name_table *names, const char *name, uint32_t command)
{
    names->name[names->count] = name;
    names->command[names->count] = command;
    dump_index_add(&names->index, remat_hash_string(name, 0), names->count++);
}

/* By a value that both write, else by the first that both compute, which one may only have inside
 * its kernel. */
static uint32_t find_original(const struct remat_program *program, const struct name_table *written,
                              const struct name_table *computed, uint32_t c)
{
    const struct remat_command *command = &program->commands[c];
    uint32_t original = REMAT_NONE;
    for (uint32_t o = command->operand_begin; o < command->operand_end && original == REMAT_NONE;
         o++) {
        const struct remat_operand *operand = &program->operands[o];
        const struct remat_program_value *value = &program->values[operand->value];
        if (value->instance > 0 && (operand->access & REMAT_ACCESS_WRITE))
            original = find(written, value->name);
    }
    return original == REMAT_NONE && command->instance > 0 ? find(computed, command->name)
                                                           : original;
}

static void add_command(const struct remat_program *program, uint32_t c, struct name_table *written,
                        struct name_table *computed)
{
    const struct remat_command *command = &program->commands[c];
    for (uint32_t o = command->operand_begin; o < command->operand_end; o++) {
        const struct remat_operand *operand = &program->operands[o];
        const struct remat_program_value *value = &program->values[operand->value];
        if (value->instance == 0 && (operand->access & REMAT_ACCESS_WRITE))
            add(written, value->name, c);
    }
    if (command->instance == 0)
        add(computed, command->name, c);
}

static remat_status begin(struct remat_arena *arena, size_t most, struct name_table *out)
{
    remat_status st = REMAT_OK;
    REMAT_TRY(dump_index_new(arena, most, &out->index));
    REMAT_TRY_NEW(arena, out->name, most);
    REMAT_TRY_NEW(arena, out->command, most);
fail:
    return st;
}

remat_status dump_originals(struct remat_arena *arena, const struct remat_program *program,
                            const uint32_t **out)
{
    remat_status st = REMAT_OK;
    struct name_table written = {0}, computed = {0};
    uint32_t *originals;
    REMAT_TRY(begin(arena, program->operand_count, &written));
    REMAT_TRY(begin(arena, program->command_count, &computed));
    REMAT_TRY(dump_indices(arena, program->command_count, &originals));
    for (uint32_t c = 0; c < program->command_count; c++) {
        originals[c] = find_original(program, &written, &computed, c);
        add_command(program, c, &written, &computed);
    }
    *out = originals;
fail:
    return st;
}
