/* SPDX-License-Identifier: Apache-2.0 */
/* Plan file -> struct remat_program: what cannot be expressed natively is refused here, the rest by
 * remat_program_verify and remat_program_simulate. */
#include "program_read.h"

#include "cuda_read.h"
#include "program_simulate.h"
#include "program_verify.h"

_Static_assert(REMAT_RANK_MAX < 256, "ranks are stored in a byte");

static remat_status read_dims(struct remat_reader *reader, struct remat_fb_array dims,
                              const char *table, uint32_t index, uint8_t *rank, int64_t *out)
{
    if (dims.count > REMAT_RANK_MAX)
        return remat_error(reader->ctx, REMAT_ERROR_INVALID, "%s: %s[%u]: %u axes, the limit is %d",
                           reader->name, table, index, dims.count, REMAT_RANK_MAX);
    *rank = (uint8_t)dims.count;
    for (uint32_t d = 0; d < dims.count; d++)
        out[d] = remat_fb_i64(dims, d);
    return remat_reader_claim(reader, dims.count, sizeof *out);
}

static remat_status read_strides(struct remat_reader *reader, struct remat_fb_array strides,
                                 const char *table, uint32_t index, uint8_t rank, int64_t *out)
{
    remat_status st = REMAT_OK;
    uint8_t count;
    REMAT_TRY(read_dims(reader, strides, table, index, &count, out));
    if (count != rank)
        REMAT_FAIL(reader->ctx, REMAT_ERROR_INVALID, "%s: %s[%u]: %u dims, %u strides",
                   reader->name, table, index, rank, count);
fail:
    return st;
}

#define FIELD(field) out->field = in.field;
#define INDEX(field) out->field = (uint32_t)in.field;
#define TEXT(field)  REMAT_TRY(remat_reader_text(reader, in.field, table, i, &out->field));
#define RANK(field)  REMAT_TRY(read_dims(reader, in.field, table, i, &out->rank, out->field));
#define WHOLE(field)                                                                               \
    REMAT_TRY(read_dims(reader, in.field, table, i, &out->field##_rank, out->field));
#define DIMS(field) REMAT_TRY(read_strides(reader, in.field, table, i, out->rank, out->field));
#define TABLE(Table, Item, items, item_count, fields)                                              \
    static remat_status read_##items(struct remat_reader *reader,                                  \
                                     const struct remat_fb_program_Plan *root,                     \
                                     struct remat_program *program)                                \
    {                                                                                              \
        remat_status st = REMAT_OK;                                                                \
        const char *table = #items;                                                                \
        (void)table;                                                                               \
        REMAT_READER_NEW_TABLES(reader, root, program, items, item_count);                         \
        for (uint32_t i = 0; i < program->item_count; i++) {                                       \
            struct remat_fb_program_##Table in;                                                    \
            Item *out = &program->items[i]; /* NOLINT(bugprone-macro-parentheses) */               \
            remat_fb_read_program_##Table(root->items, i, &in);                                    \
            fields                                                                                 \
        }                                                                                          \
    fail:                                                                                          \
        return st;                                                                                 \
    }
#include "program_tables.def"

/* Files of before transfers could be in flight say nothing. */
static void complete_in_line(struct remat_program *program)
{
    for (uint32_t i = 0; i < program->command_count; i++) {
        struct remat_command *c = &program->commands[i];
        if (c->kernel < program->kernel_count && c->complete_before == 0 &&
            remat_kernel_kind_is_transfer(program->kernels[c->kernel].kind))
            c->complete_before = i + 1;
    }
}

/* The file's opcodes by name: result[k] is the native number of opcodes[k]. */
static remat_status read_opcodes(struct remat_reader *reader,
                                 const struct remat_fb_program_Plan *root, uint16_t **out)
{
    remat_status st = REMAT_OK;
    REMAT_TRY(remat_reader_claim(reader, root->opcodes.count, REMAT_READER_TABLE_BYTES));
    REMAT_TRY_NEW(reader->arena, *out, root->opcodes.count);
    for (uint32_t i = 0; i < root->opcodes.count; i++) {
        struct remat_fb_text in;
        const char *name;
        uint16_t opcode = 0;
        remat_fb_read_text(root->opcodes, i, &in);
        REMAT_TRY(remat_reader_text(reader, in, "opcodes", i, &name));
        while (opcode < REMAT_INSTRUCTION_COUNT && strcmp(remat_opcode_name(opcode), name) != 0)
            opcode++;
        if (opcode == REMAT_INSTRUCTION_COUNT)
            REMAT_FAIL(reader->ctx, REMAT_ERROR_INVALID,
                       "%s: opcodes[%u]: unknown instruction \"%s\"", reader->name, i, name);
        (*out)[i] = opcode;
    }
fail:
    return st;
}

static remat_status read_instructions(struct remat_reader *reader, uint32_t kernel,
                                      struct remat_fb_array array, const uint16_t *opcodes,
                                      uint32_t opcode_count, struct remat_kernel_body *out)
{
    remat_status st = REMAT_OK;
    struct remat_instruction *instructions;
    struct remat_fb_instruction in;
    REMAT_TRY(remat_reader_claim(reader, array.count, sizeof in));
    REMAT_TRY_NEW(reader->arena, instructions, array.count);
    for (uint32_t i = 0; i < array.count; i++) {
        memcpy(&in, (const char *)array.data + i * sizeof in, sizeof in);
        if (in.opcode >= opcode_count || in.reserved)
            REMAT_FAIL(reader->ctx, REMAT_ERROR_INVALID,
                       "%s: kernels[%u]: instruction %u: opcode %u of %u, reserved %u",
                       reader->name, kernel, i, in.opcode, opcode_count, in.reserved);
        instructions[i] = (struct remat_instruction){.opcode = opcodes[in.opcode],
                                                     .operand = in.operand,
                                                     .args = {in.a, in.b, in.c},
                                                     .immediate = in.immediate};
    }
    out->instructions = instructions;
    out->instruction_count = array.count;
fail:
    return st;
}

static remat_status read_kernels(struct remat_reader *reader,
                                 const struct remat_fb_program_Plan *root,
                                 struct remat_program *program)
{
    remat_status st = REMAT_OK;
    uint16_t *opcodes;
    REMAT_TRY(read_opcodes(reader, root, &opcodes));
    REMAT_READER_NEW_TABLES(reader, root, program, kernels, kernel_count);
    for (uint32_t i = 0; i < program->kernel_count; i++) {
        struct remat_fb_program_Kernel in;
        struct remat_kernel *out = &program->kernels[i];
        const char *kind;
        remat_fb_read_program_Kernel(root->kernels, i, &in);
        REMAT_TRY(remat_reader_text(reader, in.key, "kernels", i, &out->key));
        REMAT_TRY(remat_reader_text(reader, in.kind, "kernels", i, &kind));
        while (out->kind < REMAT_KERNEL_KIND_COUNT &&
               strcmp(remat_kernel_kind_name(out->kind), kind) != 0)
            out->kind++;
        if (out->kind == REMAT_KERNEL_KIND_COUNT)
            REMAT_FAIL(reader->ctx, REMAT_ERROR_INVALID,
                       "%s: kernels[%u] \"%s\": unknown kernel \"%s\"", reader->name, i, out->key,
                       kind);
        out->body.operand_count = in.operand_count;
        REMAT_TRY(read_instructions(reader, i, in.instructions, opcodes, root->opcodes.count,
                                    &out->body));
    }
fail:
    return st;
}

static remat_status read_notes(struct remat_reader *reader,
                               const struct remat_fb_program_Plan *root,
                               struct remat_program *program)
{
    remat_status st = REMAT_OK;
    REMAT_READER_NEW_TABLES(reader, root, program, notes, note_count);
    for (uint32_t i = 0; i < program->note_count; i++) {
        struct remat_fb_text in;
        remat_fb_read_text(root->notes, i, &in);
        REMAT_TRY(remat_reader_text(reader, in, "notes", i, &program->notes[i]));
    }
fail:
    return st;
}

static remat_status read_numbers(struct remat_reader *reader,
                                 const struct remat_fb_program_Plan *root,
                                 struct remat_program *program)
{
    remat_status st = REMAT_OK;
    REMAT_TRY(remat_reader_claim(reader, root->parameters.count, sizeof(double)));
    REMAT_TRY(remat_reader_claim(reader, root->recomputed_layers.count, sizeof(uint32_t)));
    REMAT_TRY_NEW(reader->arena, program->parameters, root->parameters.count);
    REMAT_TRY_NEW(reader->arena, program->recomputed_layers, root->recomputed_layers.count);
    program->parameter_count = root->parameters.count;
    program->recomputed_layer_count = root->recomputed_layers.count;
    for (uint32_t i = 0; i < program->parameter_count; i++)
        program->parameters[i] = remat_fb_f64(root->parameters, i);
    for (uint32_t i = 0; i < program->recomputed_layer_count; i++)
        program->recomputed_layers[i] = remat_fb_u32(root->recomputed_layers, i);
fail:
    return st;
}

static remat_status read_head(struct remat_reader *reader, const struct remat_fb_program_Plan *root,
                              struct remat_program *program)
{
    remat_status st = REMAT_OK;
    *program = (struct remat_program){.graph_hash = root->graph_hash,
                                      .numerics_hash = root->numerics_hash,
                                      .budget_bytes = root->budget_bytes,
                                      .reserve_bytes = root->reserve_bytes,
                                      .arena_bytes = root->arena_bytes,
                                      .peak_bytes = root->peak_bytes,
                                      .static_bytes = root->static_bytes,
                                      .touched_bytes = root->touched_bytes,
                                      .peak_command = root->peak_command,
                                      .step_ns = root->step_ns,
                                      .base_step_ns = root->base_step_ns,
                                      .bound_step_ns = root->bound_step_ns,
                                      .floor_bytes = root->floor_bytes,
                                      .tokens = root->tokens,
                                      .model_flops = root->model_flops,
                                      .model_ns = root->model_ns,
                                      .workspace_bytes = root->workspace_bytes,
                                      .exact_extras = root->exact_extras,
                                      .layer_count = root->layer_count};
    REMAT_TRY(remat_reader_text(reader, root->producer, "producer", 0, &program->producer));
    REMAT_TRY(remat_reader_text(reader, root->graph_name, "graph_name", 0, &program->graph_name));
    REMAT_TRY(remat_reader_text(reader, root->target, "target", 0, &program->target));
    REMAT_TRY(
        remat_reader_text(reader, root->target_arch, "target_arch", 0, &program->target_arch));
    REMAT_TRY(remat_reader_text(reader, root->config, "config", 0, &program->config));
    REMAT_TRY(remat_reader_text(reader, root->plan_only, "plan_only", 0, &program->plan_only));
    REMAT_TRY(remat_reader_text(reader, root->chosen_by, "chosen_by", 0, &program->chosen_by));
    REMAT_TRY(remat_reader_text(reader, root->policy, "policy", 0, &program->policy));
fail:
    return st;
}

remat_status remat_program_read(remat_context *ctx, const char *name, const void *data,
                                size_t bytes, struct remat_arena *arena, struct remat_program **out)
{
    remat_status st = REMAT_OK;
    struct remat_reader reader;
    struct remat_fb_program_Plan root;
    struct remat_program *program;
    REMAT_TRY(remat_reader_open(ctx, name, data, bytes, arena, REMAT_PLAN_IDENTIFIER, &reader));
    REMAT_TRY(
        remat_reader_result(&reader, remat_fb_open_program(reader.data, reader.bytes, &root)));
    REMAT_TRY(remat_reader_versions(&reader, root.producer, root.format_version,
                                    root.min_reader_version, root.required_features,
                                    REMAT_FEATURE_TENSORS | REMAT_FEATURE_MESH |
                                        REMAT_FEATURE_PARTS | REMAT_FEATURE_BLOCKS |
                                        REMAT_FEATURE_PLAN_ONLY));
    REMAT_TRY_NEW(arena, program, 1);
    REMAT_TRY(read_head(&reader, &root, program));
    REMAT_TRY(read_buffers(&reader, &root, program));
    REMAT_TRY(read_values(&reader, &root, program));
    REMAT_TRY(read_operands(&reader, &root, program));
    REMAT_TRY(read_kernels(&reader, &root, program));
    REMAT_TRY(read_commands(&reader, &root, program));
    complete_in_line(program);
    REMAT_TRY(read_segments(&reader, &root, program));
    REMAT_TRY(read_entries(&reader, &root, program));
    REMAT_TRY(read_calls(&reader, &root, program));
    REMAT_TRY(read_tensors(&reader, &root, program));
    REMAT_TRY(read_decisions(&reader, &root, program));
    REMAT_TRY(read_settings(&reader, &root, program));
    REMAT_TRY(read_mesh(&reader, &root, program));
    REMAT_TRY(read_manuals(&reader, &root, program));
    REMAT_TRY(read_notes(&reader, &root, program));
    REMAT_TRY(read_numbers(&reader, &root, program));
    REMAT_TRY(remat_cuda_read(&reader, root.cuda, program->command_count, &program->cuda));
    REMAT_TRY(remat_reader_prefix(&reader, remat_program_verify(ctx, program)));
    REMAT_TRY(remat_reader_prefix(&reader, remat_program_simulate(ctx, program)));
    *out = program;
fail:
    return st;
}
