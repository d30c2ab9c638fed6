/* SPDX-License-Identifier: Apache-2.0 */
/* struct remat_program -> plan file. The order of writing is fixed, so equal programs give equal
 * bytes. */
#include "program.h"

#include "cuda_write.h"

#define FIELD(field) in.field = from->field;
#define TEXT(field)  REMAT_TRY(remat_writer_text(w, from->field, &in.field));
#define DIMS(field)  in.field = (struct remat_fb_array){from->field, from->rank};
#define RANK(field)  DIMS(field)
#define WHOLE(field) in.field = (struct remat_fb_array){from->field, from->field##_rank};
#define RECORDS(Table, Item, items, item_count, fields)                                            \
    REMAT_WRITE_TABLES(program_##Table, struct remat_program, Item, items, item_count, fields)
#include "records.def"

/* The file's opcodes are all of ours, in order: an index there is the native number. */
static remat_status write_opcodes(struct remat_writer *w, struct remat_fb_program_Plan *root)
{
    remat_status st = REMAT_OK;
    uint32_t *ids;
    REMAT_TRY_NEW(w->scratch, ids, REMAT_INSTRUCTION_COUNT);
    for (uint16_t i = 0; i < REMAT_INSTRUCTION_COUNT; i++) {
        struct remat_fb_text text;
        REMAT_TRY(remat_writer_text(w, remat_opcode_name(i), &text));
        ids[i] = text.id;
    }
    root->opcodes = (struct remat_fb_tables){ids, REMAT_INSTRUCTION_COUNT};
fail:
    return st;
}

static remat_status write_instructions(struct remat_writer *w, const struct remat_kernel_body *body,
                                       struct remat_fb_array *out)
{
    remat_status st = REMAT_OK;
    struct remat_fb_instruction *instructions;
    REMAT_TRY_NEW(w->scratch, instructions, body->instruction_count);
    for (uint32_t i = 0; i < body->instruction_count; i++) {
        const struct remat_instruction *from = &body->instructions[i];
        instructions[i] = (struct remat_fb_instruction){.opcode = from->opcode,
                                                        .operand = from->operand,
                                                        .a = from->args[0],
                                                        .b = from->args[1],
                                                        .c = from->args[2],
                                                        .immediate = from->immediate};
    }
    *out = (struct remat_fb_array){instructions, body->instruction_count};
fail:
    return st;
}

REMAT_WRITE_TABLES(program_Kernel, struct remat_program, struct remat_kernel, kernels, kernel_count,
                   {
                       REMAT_TRY(
                           remat_writer_text(w, remat_kernel_kind_name(from->kind), &in.kind));
                       TEXT(key)
                       REMAT_TRY(write_instructions(w, &from->body, &in.instructions));
                       in.operand_count = from->body.operand_count;
                   })

static remat_status write_constants(struct remat_writer *w, const struct remat_program *program,
                                    struct remat_fb_tables *out)
{
    remat_status st = REMAT_OK;
    uint32_t *ids;
    REMAT_TRY_NEW(w->scratch, ids, program->tensor_count);
    *out = (struct remat_fb_tables){ids, 0};
    for (uint32_t t = 0; t < program->tensor_count; t++) {
        const struct remat_tensor *tensor = &program->tensors[t];
        struct remat_fb_program_Constant in = {
            .tensor = (int32_t)t, .data = {tensor->data, (uint32_t)tensor->data_bytes}};
        if (tensor->data)
            ids[out->count++] = remat_fb_write_program_Constant(w->builder, &in);
    }
fail:
    return st;
}

/* What a reader must know of. */
static uint64_t features(const struct remat_program *program)
{
    uint64_t out =
        remat_cuda_features(&program->cuda) | remat_plan_only_feature(program->plan_only);
    for (uint32_t v = 0; v < program->value_count; v++) {
        const struct remat_program_value *value = &program->values[v];
        if (value->whole_rank)
            out |=
                REMAT_FEATURE_PARTS | (value->block_axis != REMAT_NONE ? REMAT_FEATURE_BLOCKS : 0);
    }
    for (uint32_t c = 0; c < program->command_count; c++)
        out |= program->commands[c].absent ? REMAT_FEATURE_ABSENT : 0;
    for (uint32_t t = 0; t < program->tensor_count; t++)
        out |= program->tensors[t].data ? REMAT_FEATURE_CONSTANTS : 0;
    out |= program->number_tensor != REMAT_NONE ? REMAT_FEATURE_NUMBER : 0;
    return program->mesh_count ? out | REMAT_FEATURE_MESH : out;
}

static remat_status write_head(struct remat_writer *w, const struct remat_program *program,
                               struct remat_fb_program_Plan *root)
{
    remat_status st = REMAT_OK;
    *root = (struct remat_fb_program_Plan){
        .format_version = REMAT_FORMAT_VERSION,
        .min_reader_version = REMAT_FORMAT_VERSION,
        .required_features = features(program),
        .graph_hash = program->graph_hash,
        .numerics_hash = program->numerics_hash,
        .budget_bytes = program->budget_bytes,
        .reserve_bytes = program->reserve_bytes,
        .arena_bytes = program->arena_bytes,
        .peak_bytes = program->peak_bytes,
        .static_bytes = program->static_bytes,
        .touched_bytes = program->touched_bytes,
        .peak_command = program->peak_command,
        .step_ns = program->step_ns,
        .base_step_ns = program->base_step_ns,
        .bound_step_ns = program->bound_step_ns,
        .floor_bytes = program->floor_bytes,
        .tokens = program->tokens,
        .model_flops = program->model_flops,
        .model_ns = program->model_ns,
        .workspace_bytes = program->workspace_bytes,
        .exact_extras = program->exact_extras,
        .number_tensor = (int32_t)program->number_tensor,
        .layer_count = program->layer_count,
        .depth = program->depth,
        .parameters = {program->parameters, program->parameter_count},
        .recomputed_layers = {program->recomputed_layers, program->recomputed_layer_count},
    };
    REMAT_TRY(remat_writer_text(w, program->producer, &root->producer));
    REMAT_TRY(remat_writer_text(w, program->graph_name, &root->graph_name));
    REMAT_TRY(remat_writer_text(w, program->target, &root->target));
    REMAT_TRY(remat_writer_text(w, program->target_arch, &root->target_arch));
    REMAT_TRY(remat_writer_text(w, program->config, &root->config));
    REMAT_TRY(remat_writer_text(w, program->limited_by, &root->limited_by));
    REMAT_TRY(remat_writer_text(w, program->plan_only, &root->plan_only));
    REMAT_TRY(remat_writer_text(w, program->chosen_by, &root->chosen_by));
    REMAT_TRY(remat_writer_text(w, program->policy, &root->policy));
fail:
    return st;
}

static remat_status write_plan(struct remat_writer *w, const void *what,
                               enum remat_fb_result *result, const void **data, size_t *bytes)
{
    remat_status st = REMAT_OK;
    const struct remat_program *program = what;
    struct remat_fb_program_Plan root;
    REMAT_TRY(write_head(w, program, &root));
    REMAT_TRY(write_opcodes(w, &root));
    REMAT_TRY(write_buffers(w, program, &root.buffers));
    REMAT_TRY(write_values(w, program, &root.values));
    REMAT_TRY(write_operands(w, program, &root.operands));
    REMAT_TRY(write_kernels(w, program, &root.kernels));
    REMAT_TRY(write_commands(w, program, &root.commands));
    REMAT_TRY(write_segments(w, program, &root.segments));
    REMAT_TRY(write_entries(w, program, &root.entries));
    REMAT_TRY(write_calls(w, program, &root.calls));
    REMAT_TRY(write_tensors(w, program, &root.tensors));
    REMAT_TRY(write_constants(w, program, &root.constants));
    REMAT_TRY(write_decisions(w, program, &root.decisions));
    REMAT_TRY(write_settings(w, program, &root.settings));
    REMAT_TRY(write_mesh(w, program, &root.mesh));
    REMAT_TRY(write_manuals(w, program, &root.manuals));
    REMAT_TRY(write_keeps(w, program, &root.keeps));
    REMAT_TRY(remat_writer_texts(w, program->notes, program->note_count, false, &root.notes));
    REMAT_TRY(remat_cuda_write(w, &program->cuda, program->command_count, &root.cuda));
    *result = remat_fb_finish_program(w->builder, remat_fb_write_program_Plan(w->builder, &root),
                                      data, bytes);
fail:
    return st;
}

remat_status remat_program_write(remat_context *ctx, const struct remat_program *program,
                                 struct remat_arena *arena, const void **out_data,
                                 size_t *out_bytes)
{
    if (program->foreign)
        return remat_error(ctx, REMAT_ERROR_USAGE,
                           "no plan can be written: node \"%.200s\" is foreign, known by its cost "
                           "alone",
                           program->foreign);
    remat_status st = remat_program_verify(ctx, program); /* what is written can be read */
    if (st != REMAT_OK)
        return st;
    return remat_writer_run(ctx, REMAT_PLAN_IDENTIFIER, write_plan, program, arena, out_data,
                            out_bytes);
}
