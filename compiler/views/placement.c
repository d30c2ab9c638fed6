/* SPDX-License-Identifier: Apache-2.0 */
/* --placement: how ranks divide values, and the transfers that this takes. */
#include "placed.h"

#include "layer_transfers.h"
#include "table.h"
#include "views.h"

#include <inttypes.h>

/* --- values --- */

/* The whole's. */
static const char *shape_text(struct remat_arena *arena, const struct remat_program_value *value)
{
    struct remat_text text = {.arena = arena};
    remat_text_append(&text, "[");
    for (uint32_t d = 0; d < value->whole_rank; d++)
        remat_text_append(&text, "%s%" PRId64, d ? "," : "", value->whole[d]);
    remat_text_append(&text, "]");
    return text.failed ? NULL : text.items;
}

static const char *dimension_text(struct remat_arena *arena, const struct placement *placement)
{
    if (placement->end - placement->begin > 1)
        return remat_arena_format(arena, "%" PRIu32 "-%" PRIu32, placement->begin,
                                  placement->end - 1);
    if (placement->blocks > 1)
        return remat_arena_format(arena, "%" PRIu32 ", %" PRIu64 " blocks", placement->begin,
                                  placement->blocks);
    return remat_arena_format(arena, "%" PRIu32, placement->begin);
}

/* Ranks along the second one divide what those along the first one have. */
static const char *axes_text(struct remat_arena *arena, const struct remat_program *program,
                             const struct remat_program_value *value)
{
    const char *axis = program->mesh[value->part_axis].name;
    return value->block_axis == REMAT_NONE
               ? axis
               : remat_arena_format(arena, "%s, %s", axis, program->mesh[value->block_axis].name);
}

/* Each once. */
static remat_status add_name(struct dump_table *names, const struct placement_name *name)
{
    const char *const cells[DUMP_TABLE_COLUMNS] = {name->megatron, name->torchtitan};
    for (size_t r = 0; r < names->rows.count; r++)
        if (names->rows.items[r].cells[0] == name->megatron)
            return REMAT_OK;
    return dump_table_add(names, -1, cells);
}

static remat_status print_values(struct remat_arena *arena, const struct remat_program *program,
                                 const struct placements *placements, struct remat_text *out)
{
    remat_status st = REMAT_OK;
    struct dump_table table = {.arena = arena,
                               .titles = {"value", "whole", "dimension", "axis", "Megatron-LM"}};
    struct dump_table names = {.arena = arena, .titles = {"Megatron-LM", "torchtitan"}};
    for (size_t p = 0; p < placements->count; p++) {
        const struct placement *placement = &placements->items[p];
        const struct remat_program_value *value = &program->values[placement->value];
        const char *cells[DUMP_TABLE_COLUMNS] = {
            NULL, shape_text(arena, value), dimension_text(arena, placement),
            axes_text(arena, program, value), placement->name ? placement->name->megatron : "-"};
        REMAT_TRY(dump_pattern(arena, value->name, placement->layer, &cells[0]));
        if (!cells[1] || !cells[2] || !cells[3])
            return REMAT_ERROR_MEMORY;
        REMAT_TRY(dump_table_add(&table, placement->layer, cells));
        if (placement->name)
            REMAT_TRY(add_name(&names, placement->name));
    }
    dump_table_print(&table, out);
    if (names.rows.count) {
        remat_text_append(out, "\n");
        dump_table_print(&names, out);
    }
fail:
    return st;
}

/* Their lengths or, without `dims`, their numbers. */
static json_t *make_dims(const int64_t *dims, uint32_t begin, uint32_t end)
{
    json_t *array = json_array();
    for (uint32_t d = begin; d < end && array; d++)
        if (json_array_append_new(array, json_integer(dims ? (json_int_t)dims[d] : d)) != 0) {
            json_decref(array);
            array = NULL;
        }
    return array;
}

static json_t *make_value(const struct remat_program *program, const struct placement *placement)
{
    const struct remat_program_value *value = &program->values[placement->value];
    const struct placement_name *name = placement->name;
    bool in_blocks = value->block_axis != REMAT_NONE;
    return json_pack("{s:s,s:s,s:I,s:s,s:o,s:o,s:I,s:s,s:o,s:b,s:s?,s:s?}", "name", value->name,
                     "role", remat_role_name(value->role), "layer", (json_int_t)placement->layer,
                     "dtype", remat_dtype_name((remat_dtype)value->dtype), "whole",
                     make_dims(value->whole, 0, value->whole_rank), "dimensions",
                     make_dims(NULL, placement->begin, placement->end), "blocks",
                     (json_int_t)placement->blocks, "axis", program->mesh[value->part_axis].name,
                     "block_axis",
                     in_blocks ? json_string(program->mesh[value->block_axis].name) : json_null(),
                     "tokens", (int)value->part_tokens, "megatron", name ? name->megatron : NULL,
                     "torchtitan", name ? name->torchtitan : NULL);
}

/* --- the view --- */

remat_status dump_placement_text(remat_context *ctx, struct remat_arena *arena,
                                 const struct remat_program *program,
                                 const struct dump_asked *asked, struct remat_text *out)
{
    (void)ctx, (void)asked;
    remat_status st = REMAT_OK;
    struct placements placements = {0};
    struct dump_decided decided;
    struct transfers transfers = {0};
    REMAT_TRY(placed_find(arena, program, &placements));
    REMAT_TRY(dump_decided(arena, program, program->peak_command, &decided));
    REMAT_TRY(transfers_find(arena, program, decided.decision, &transfers));
    if (placements.count)
        REMAT_TRY(print_values(arena, program, &placements, out));
    else
        remat_text_append(out, "every rank has all parameters and values whole\n");
    for (uint32_t axis = 0; axis < program->mesh_count; axis++)
        REMAT_TRY(transfers_print(arena, program, &transfers, axis, out));
fail:
    return st;
}

remat_status dump_placement_json(remat_context *ctx, struct remat_arena *arena,
                                 const struct remat_program *program,
                                 const struct dump_asked *asked, struct dump_json *out)
{
    (void)ctx, (void)asked;
    remat_status st = REMAT_OK;
    struct placements placements = {0};
    struct dump_decided decided;
    struct transfers transfers = {0};
    json_t *values = json_array(), *moved = json_array();
    REMAT_TRY(placed_find(arena, program, &placements));
    REMAT_TRY(dump_decided(arena, program, program->peak_command, &decided));
    REMAT_TRY(transfers_find(arena, program, decided.decision, &transfers));
    for (size_t p = 0; p < placements.count; p++)
        dump_push(out, values, make_value(program, &placements.items[p]));
    for (size_t t = 0; t < transfers.count; t++)
        dump_push(out, moved, transfer_json(program, &transfers.items[t]));
fail:
    dump_set(out, "placement", values);
    dump_set(out, "transfers", moved);
    return st;
}
