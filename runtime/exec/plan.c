/* SPDX-License-Identifier: Apache-2.0 */
/* Loading plans, and what a host may ask them. */
#include "plan.h"

#include "file.h"

#include <assert.h>

#define DTYPE(NAME, ...)                                                                           \
    _Static_assert((int)REMAT_ELEMENT_##NAME == REMAT_##NAME, "public and internal numbers");
#include <remat/dtypes.def>
_Static_assert((int)REMAT_TENSOR_PARAMETER == REMAT_ROLE_PARAMETER &&
                   (int)REMAT_TENSOR_GRADIENT == REMAT_ROLE_GRADIENT &&
                   (int)REMAT_TENSOR_OPTIMIZER_STATE == REMAT_ROLE_OPTIMIZER_STATE &&
                   (int)REMAT_TENSOR_INPUT == REMAT_ROLE_INPUT &&
                   (int)REMAT_TENSOR_CONSTANT == REMAT_ROLE_CONSTANT &&
                   (int)REMAT_TENSOR_OUTPUT == REMAT_ROLE_OUTPUT &&
                   (int)REMAT_TENSOR_STEP_STATE == REMAT_ROLE_STEP_STATE,
               "public and internal roles have the same numbers");
_Static_assert(REMAT_TENSOR_RANK_MAX == REMAT_RANK_MAX, "public and internal ranks agree");

uint32_t remat_api_version(void)
{
    return REMAT_API_VERSION;
}

remat_status remat_plan_load_memory(remat_context *ctx, const char *name, const void *data,
                                    size_t bytes, remat_plan **out)
{
    remat_status st = REMAT_OK;
    *out = NULL;
    remat_plan *plan = remat_reallocate(ctx, NULL, sizeof *plan);
    if (!plan)
        return REMAT_ERROR_MEMORY;
    remat_arena_init(&plan->arena, ctx);
    REMAT_TRY(remat_program_read(ctx, name, data, bytes, &plan->arena, &plan->program));
    remat_program_mesh_print(plan->program, plan->mesh);
    *out = plan;
    return REMAT_OK;
fail:
    remat_plan_destroy(&plan);
    return st;
}

remat_status remat_plan_load_file(remat_context *ctx, const char *path, remat_plan **out)
{
    remat_status st = REMAT_OK;
    struct remat_arena file;
    remat_arena_init(&file, ctx);
    char *data;
    size_t bytes;
    *out = NULL;
    REMAT_TRY(remat_file_read(ctx, path, &file, &data, &bytes));
    REMAT_TRY(remat_plan_load_memory(ctx, path, data, bytes, out));
fail:
    remat_arena_release(&file);
    return st;
}

void remat_plan_destroy(remat_plan **plan)
{
    if (!*plan)
        return;
    remat_context *ctx = (*plan)->arena.ctx;
    remat_arena_release(&(*plan)->arena);
    remat_reallocate(ctx, *plan, 0);
    *plan = NULL;
}

/* Copies as much of a struct as the caller's version of it has. */
static void hand_out(void *out, size_t struct_size, const void *from, size_t bytes)
{
    size_t known = struct_size < bytes ? struct_size : bytes;
    memcpy((char *)out + sizeof(size_t), (const char *)from + sizeof(size_t),
           known > sizeof(size_t) ? known - sizeof(size_t) : 0);
}

void remat_plan_get_info(const remat_plan *plan, remat_plan_info *out)
{
    const struct remat_program *p = plan->program;
    remat_plan_info info = {
        .graph_name = p->graph_name,
        .target = p->target,
        .policy = p->policy,
        .budget_bytes = p->budget_bytes,
        .reserve_bytes = p->reserve_bytes,
        .arena_bytes = p->arena_bytes,
        .peak_bytes = p->peak_bytes,
        .static_bytes = p->static_bytes,
        .predicted_step_ns = p->step_ns,
        .predicted_base_step_ns = p->base_step_ns,
        .numerics_hash = p->numerics_hash,
        .command_count = p->command_count,
        .recomputed_count = remat_program_recomputed(p),
        .rank_count = remat_program_ranks(p),
        .mesh = plan->mesh,
        .target_arch = p->target_arch ? p->target_arch : "",
        .config = p->config ? p->config : "",
        .step_tokens = p->tokens,
        .model_flops = p->model_flops,
        .model_ns = p->model_ns,
        .plan_only = p->plan_only ? p->plan_only : "",
        .chosen_by = p->chosen_by ? p->chosen_by : "",
    };
    hand_out(out, out->struct_size, &info, sizeof info);
}

const char *remat_plan_setting(const remat_plan *plan, const char *option)
{
    const struct remat_program *p = plan->program;
    for (uint32_t s = 0; s < p->setting_count; s++)
        if (strcmp(p->settings[s].name, option) == 0)
            return p->settings[s].value;
    return NULL;
}

uint32_t remat_rank_stride(const struct remat_program *program, uint32_t axis)
{
    assert(axis < program->mesh_count);
    uint32_t stride = 1;
    for (uint32_t k = axis + 1; k < program->mesh_count; k++)
        stride *= program->mesh[k].size;
    return stride;
}

static remat_division division_along(const struct remat_program *program, uint32_t axis,
                                     uint64_t run)
{
    if (axis == REMAT_NONE)
        return (remat_division){1, 1, UINT64_MAX};
    return (remat_division){program->mesh[axis].size, remat_rank_stride(program, axis), run};
}

remat_parts remat_parts_of(const struct remat_program *program,
                           const struct remat_program_value *value)
{
    uint32_t part_axis = value->whole_rank ? value->part_axis : REMAT_NONE;
    uint32_t block_axis = value->whole_rank ? value->block_axis : REMAT_NONE;
    uint64_t elements = value->bytes / remat_dtype_bytes((remat_dtype)value->dtype);
    remat_parts out = {.divisions = {division_along(program, part_axis, value->part_run),
                                     division_along(program, block_axis, elements)}};
    out.count = out.divisions[0].count * out.divisions[1].count;
    return out;
}

uint32_t remat_plan_tensor_count(const remat_plan *plan)
{
    return plan->program->tensor_count;
}

int remat_plan_get_tensor(const remat_plan *plan, uint32_t index, remat_tensor_info *out)
{
    const struct remat_program *p = plan->program;
    if (index >= p->tensor_count)
        return 0;
    const struct remat_tensor *tensor = &p->tensors[index];
    const struct remat_program_value *value = &p->values[tensor->value];
    remat_tensor_info info = {
        .name = tensor->name,
        .element = (remat_element)value->dtype,
        .role = (remat_tensor_role)value->role,
        .rank = value->rank,
        .bytes = value->bytes,
        .index_bound = tensor->index_bound,
        .index_ignored = tensor->index_ignored,
        .parts = remat_parts_of(p, value),
        .whole_rank = value->whole_rank ? value->whole_rank : value->rank,
    };
    memcpy(info.shape, value->shape, sizeof info.shape);
    memcpy(info.whole_shape, value->whole_rank ? value->whole : value->shape, sizeof info.shape);
    info.unpadded_rows = tensor->unpadded_rows ? tensor->unpadded_rows : info.whole_shape[0];
    hand_out(out, out->struct_size, &info, sizeof info);
    return 1;
}

uint32_t remat_plan_find_tensor(const remat_plan *plan, const char *name)
{
    for (uint32_t t = 0; t < plan->program->tensor_count; t++)
        if (strcmp(plan->program->tensors[t].name, name) == 0)
            return t;
    return UINT32_MAX;
}

size_t remat_plan_command_operands(const remat_plan *plan, uint32_t command, char *out,
                                   size_t bytes)
{
    const struct remat_program *program = plan->program;
    size_t length = 0;
    if (command >= program->command_count)
        return 0;
    const struct remat_command *c = &program->commands[command];
    for (uint32_t o = c->operand_begin; o < c->operand_end; o++) {
        char text[REMAT_OPERAND_TEXT_BYTES + 1] = " ";
        bool first = o == c->operand_begin;
        remat_operand_print(&program->operands[o], text + !first, sizeof text - 1);
        if (length < bytes)
            snprintf(out + length, bytes - length, "%s", text);
        length += strlen(text);
    }
    if (bytes && c->operand_begin == c->operand_end)
        *out = 0;
    return length + 1;
}

uint32_t remat_plan_entry_count(const remat_plan *plan)
{
    return plan->program->entry_count;
}

const char *remat_plan_entry_name(const remat_plan *plan, uint32_t index)
{
    return index < plan->program->entry_count ? plan->program->entries[index].name : NULL;
}

const struct remat_entry *remat_plan_find_entry(const struct remat_plan *plan, const char *name)
{
    return remat_program_find_entry(plan->program, name);
}

static uint32_t segment_access(const struct remat_program *program,
                               const struct remat_segment *segment, uint32_t buffer)
{
    uint32_t access = 0;
    for (uint32_t c = segment->command_begin; c < segment->command_end; c++) {
        const struct remat_command *command = &program->commands[c];
        for (uint32_t o = command->operand_begin; o < command->operand_end; o++)
            if (program->values[program->operands[o].value].buffer == buffer)
                access |= program->operands[o].access & REMAT_ACCESS_UPDATE;
    }
    return access;
}

_Static_assert(REMAT_ENTRY_READS == REMAT_ACCESS_READ && REMAT_ENTRY_WRITES == REMAT_ACCESS_WRITE &&
                   REMAT_ACCESS_UPDATE == (REMAT_ACCESS_READ | REMAT_ACCESS_WRITE),
               "public and internal kinds of access have the same bits");

uint32_t remat_plan_entry_access(const remat_plan *plan, uint32_t entry, uint32_t tensor)
{
    const struct remat_program *p = plan->program;
    uint32_t access = 0;
    if (entry >= p->entry_count || tensor >= p->tensor_count)
        return 0;
    uint32_t buffer = p->values[p->tensors[tensor].value].buffer;
    if (p->tensors[tensor].data && strcmp(p->entries[entry].name, "init") == 0)
        access = REMAT_ENTRY_WRITES; /* by the session */
    for (uint32_t c = p->entries[entry].call_begin; c < p->entries[entry].call_end; c++)
        access |= segment_access(p, &p->segments[p->calls[c].segment], buffer);
    return access;
}
