/* struct remat_program -> plan file. The order of writing is fixed, so equal programs give equal
 * bytes. */
#include "cuda_write.h"

/* Writes program->ITEMS, one table an item: fills `in` from `from` by `statements`, which go to
 * `fail` on error. */
#define WRITE_TABLES(w, Table, items, item_count, Type, statements)                                \
    static remat_status write_##items(struct remat_writer *w, const struct remat_program *program, \
                                      struct remat_fb_program_Plan *root)                          \
    {                                                                                              \
        remat_status st = REMAT_OK;                                                                \
        uint32_t *ids;                                                                             \
        REMAT_NEW(w->scratch, ids, program->item_count);                                           \
        for (uint32_t i = 0; i < program->item_count; i++) {                                       \
            const Type *from = &program->items[i];                                                 \
            struct remat_fb_program_##Table in = {0};                                              \
            statements;                                                                            \
            ids[i] = remat_fb_write_program_##Table(w->builder, &in);                              \
        }                                                                                          \
        root->items = (struct remat_fb_tables){ids, program->item_count};                          \
    fail:                                                                                          \
        return st;                                                                                 \
    }
#define COPY(field)       in.field = from->field
#define COPY_INDEX(field) in.field = (int32_t)from->field
#define COPY_TEXT(field)  REMAT_TRY(remat_writer_text(w, from->field, &in.field))
#define COPY_DIMS(field)                                                                           \
    in.field = (struct remat_fb_array)                                                             \
    {                                                                                              \
        from->field, from->rank                                                                    \
    }

WRITE_TABLES(w, Buffer, buffers, buffer_count, struct remat_buffer, {
    COPY(offset_bytes);
    COPY(bytes);
    COPY(begin);
    COPY(end);
    COPY(persistent);
})

WRITE_TABLES(w, Value, values, value_count, struct remat_program_value, {
    COPY_TEXT(name);
    COPY_TEXT(scope);
    COPY(layer);
    COPY(instance);
    COPY(dtype);
    COPY(role);
    COPY(phase);
    COPY_DIMS(shape);
    COPY(bytes);
    COPY_INDEX(buffer);
})

WRITE_TABLES(w, Operand, operands, operand_count, struct remat_operand, {
    COPY_INDEX(value);
    COPY_INDEX(previous);
    COPY(access);
    COPY(dtype);
    COPY_DIMS(shape);
    COPY_DIMS(strides);
    COPY(offset_elements);
})

WRITE_TABLES(w, Command, commands, command_count, struct remat_command, {
    COPY_INDEX(kernel);
    COPY(operand_begin);
    COPY(operand_end);
    COPY(parameter_begin);
    COPY(parameter_end);
    COPY(phase);
    COPY_DIMS(space);
    COPY_TEXT(name);
    COPY_TEXT(scope);
    COPY(layer);
    COPY(instance);
    COPY(flops);
    COPY(moved_bytes);
    COPY(estimated_ns);
    COPY(live_bytes);
    COPY(cost_source);
})

WRITE_TABLES(w, Segment, segments, segment_count, struct remat_segment, {
    COPY_TEXT(name);
    COPY(command_begin);
    COPY(command_end);
})

WRITE_TABLES(w, Entry, entries, entry_count, struct remat_entry, {
    COPY_TEXT(name);
    COPY(call_begin);
    COPY(call_end);
})

WRITE_TABLES(w, Call, calls, call_count, struct remat_call, {
    COPY_INDEX(segment);
    COPY(times);
})

WRITE_TABLES(w, Tensor, tensors, tensor_count, struct remat_tensor, {
    COPY_TEXT(name);
    COPY_INDEX(value);
    COPY(initializer);
    COPY(init_mean);
    COPY(init_std);
})

WRITE_TABLES(w, Decision, decisions, decision_count, struct remat_decision_record, {
    COPY_TEXT(name);
    COPY_TEXT(scope);
    COPY(layer);
    COPY(action);
    COPY_TEXT(reason);
    COPY(bytes);
    COPY(recompute_ns);
    COPY(saved_begin);
    COPY(saved_end);
    COPY(recomputable);
    COPY(recompute_extra_ns);
})

WRITE_TABLES(w, Setting, settings, setting_count, struct remat_setting, {
    COPY_TEXT(name);
    COPY_TEXT(value);
})

/* The file's opcodes are all of ours, in order: an index there is the native number. */
static remat_status write_opcodes(struct remat_writer *w, struct remat_fb_program_Plan *root)
{
    remat_status st = REMAT_OK;
    uint32_t *ids;
    REMAT_NEW(w->scratch, ids, REMAT_INSTRUCTION_COUNT);
    for (uint16_t i = 0; i < REMAT_INSTRUCTION_COUNT; i++) {
        struct remat_fb_text text;
        REMAT_TRY(remat_writer_text(w, remat_opcode_name(i), &text));
        ids[i] = text.id;
    }
    root->opcodes = (struct remat_fb_tables){ids, REMAT_INSTRUCTION_COUNT};
fail:
    return st;
}

static remat_status write_instructions(struct remat_writer *w,
                                       const struct remat_kernel_program *program,
                                       struct remat_fb_array *out)
{
    remat_status st = REMAT_OK;
    struct remat_fb_instruction *instructions;
    REMAT_NEW(w->scratch, instructions, program->instruction_count);
    for (uint32_t i = 0; i < program->instruction_count; i++) {
        const struct remat_instruction *from = &program->instructions[i];
        instructions[i] = (struct remat_fb_instruction){.opcode = from->opcode,
                                                        .operand = from->operand,
                                                        .a = from->args[0],
                                                        .b = from->args[1],
                                                        .c = from->args[2],
                                                        .immediate = from->immediate};
    }
    *out = (struct remat_fb_array){instructions, program->instruction_count};
fail:
    return st;
}

WRITE_TABLES(w, Kernel, kernels, kernel_count, struct remat_kernel, {
    REMAT_TRY(remat_writer_text(w, remat_kernel_kind_name(from->kind), &in.kind));
    COPY_TEXT(key);
    REMAT_TRY(write_instructions(w, &from->program, &in.instructions));
    in.operand_count = from->program.operand_count;
})

static remat_status write_notes(struct remat_writer *w, const struct remat_program *program,
                                struct remat_fb_program_Plan *root)
{
    remat_status st = REMAT_OK;
    uint32_t *ids;
    REMAT_NEW(w->scratch, ids, program->note_count);
    for (uint32_t i = 0; i < program->note_count; i++)
        ids[i] = remat_fb_write_text(w->builder, program->notes[i], strlen(program->notes[i]));
    root->notes = (struct remat_fb_tables){ids, program->note_count};
fail:
    return st;
}

static remat_status write_head(struct remat_writer *w, const struct remat_program *program,
                               struct remat_fb_program_Plan *root)
{
    remat_status st = REMAT_OK;
    *root = (struct remat_fb_program_Plan){
        .format_version = REMAT_FORMAT_VERSION,
        .min_reader_version = REMAT_FORMAT_VERSION,
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
        .manual_step_ns = program->manual_step_ns,
        .workspace_bytes = program->workspace_bytes,
        .exact_extras = program->exact_extras,
        .floor_slack_ns = program->floor_slack_ns,
        .layer_count = program->layer_count,
        .parameters = {program->parameters, program->parameter_count},
        .recomputed_layers = {program->recomputed_layers, program->recomputed_layer_count},
    };
    REMAT_TRY(remat_writer_text(w, program->producer, &root->producer));
    REMAT_TRY(remat_writer_text(w, program->graph_name, &root->graph_name));
    REMAT_TRY(remat_writer_text(w, program->target, &root->target));
    REMAT_TRY(remat_writer_text(w, program->policy, &root->policy));
    REMAT_TRY(remat_writer_text(w, program->manual_policy, &root->manual_policy));
    REMAT_TRY(remat_writer_text(w, program->manual_flags, &root->manual_flags));
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
    REMAT_TRY(write_buffers(w, program, &root));
    REMAT_TRY(write_values(w, program, &root));
    REMAT_TRY(write_operands(w, program, &root));
    REMAT_TRY(write_kernels(w, program, &root));
    REMAT_TRY(write_commands(w, program, &root));
    REMAT_TRY(write_segments(w, program, &root));
    REMAT_TRY(write_entries(w, program, &root));
    REMAT_TRY(write_calls(w, program, &root));
    REMAT_TRY(write_tensors(w, program, &root));
    REMAT_TRY(write_decisions(w, program, &root));
    REMAT_TRY(write_settings(w, program, &root));
    REMAT_TRY(write_notes(w, program, &root));
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
    remat_status st = remat_program_verify(ctx, program); /* what is written can be read */
    if (st != REMAT_OK)
        return st;
    return remat_writer_run(ctx, REMAT_PLAN_IDENTIFIER, write_plan, program, arena, out_data,
                            out_bytes);
}
