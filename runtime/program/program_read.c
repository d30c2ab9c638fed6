/* Plan file -> struct remat_program: what cannot be expressed natively is refused here, the rest by
 * remat_program_verify. */
#include "cuda_read.h"

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

static remat_status read_buffers(struct remat_reader *reader,
                                 const struct remat_fb_program_Plan *root,
                                 struct remat_program *program)
{
    remat_status st = REMAT_OK;
    REMAT_READER_NEW_TABLES(reader, root, program, buffers, buffer_count);
    for (uint32_t i = 0; i < program->buffer_count; i++) {
        struct remat_fb_program_Buffer in;
        remat_fb_read_program_Buffer(root->buffers, i, &in);
        program->buffers[i] = (struct remat_buffer){.offset_bytes = in.offset_bytes,
                                                    .bytes = in.bytes,
                                                    .begin = in.begin,
                                                    .end = in.end,
                                                    .persistent = in.persistent};
    }
fail:
    return st;
}

static remat_status read_values(struct remat_reader *reader,
                                const struct remat_fb_program_Plan *root,
                                struct remat_program *program)
{
    remat_status st = REMAT_OK;
    REMAT_READER_NEW_TABLES(reader, root, program, values, value_count);
    for (uint32_t i = 0; i < program->value_count; i++) {
        struct remat_fb_program_Value in;
        struct remat_program_value *out = &program->values[i];
        remat_fb_read_program_Value(root->values, i, &in);
        *out = (struct remat_program_value){.layer = in.layer,
                                            .instance = in.instance,
                                            .dtype = in.dtype,
                                            .role = in.role,
                                            .phase = in.phase,
                                            .bytes = in.bytes,
                                            .buffer = (uint32_t)in.buffer};
        REMAT_TRY(remat_reader_text(reader, in.name, "values", i, &out->name));
        REMAT_TRY(remat_reader_text(reader, in.scope, "values", i, &out->scope));
        REMAT_TRY(read_dims(reader, in.shape, "values", i, &out->rank, out->shape));
    }
fail:
    return st;
}

static remat_status read_operands(struct remat_reader *reader,
                                  const struct remat_fb_program_Plan *root,
                                  struct remat_program *program)
{
    remat_status st = REMAT_OK;
    REMAT_READER_NEW_TABLES(reader, root, program, operands, operand_count);
    for (uint32_t i = 0; i < program->operand_count; i++) {
        struct remat_fb_program_Operand in;
        struct remat_operand *out = &program->operands[i];
        uint8_t strides;
        remat_fb_read_program_Operand(root->operands, i, &in);
        *out = (struct remat_operand){.value = (uint32_t)in.value,
                                      .previous = (uint32_t)in.previous,
                                      .access = in.access,
                                      .dtype = in.dtype,
                                      .offset_elements = in.offset_elements};
        REMAT_TRY(read_dims(reader, in.shape, "operands", i, &out->rank, out->shape));
        REMAT_TRY(read_dims(reader, in.strides, "operands", i, &strides, out->strides));
        if (strides != out->rank)
            REMAT_FAIL(reader->ctx, REMAT_ERROR_INVALID, "%s: operands[%u]: %u dims, %u strides",
                       reader->name, i, out->rank, strides);
    }
fail:
    return st;
}

/* The file's opcodes by name: result[k] is the native number of opcodes[k]. */
static remat_status read_opcodes(struct remat_reader *reader,
                                 const struct remat_fb_program_Plan *root, uint16_t **out)
{
    remat_status st = REMAT_OK;
    REMAT_TRY(remat_reader_claim(reader, root->opcodes.count, REMAT_READER_TABLE_BYTES));
    REMAT_NEW(reader->arena, *out, root->opcodes.count);
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
                                      uint32_t opcode_count, struct remat_kernel_program *out)
{
    remat_status st = REMAT_OK;
    struct remat_instruction *instructions;
    struct remat_fb_instruction in;
    REMAT_TRY(remat_reader_claim(reader, array.count, sizeof in));
    REMAT_NEW(reader->arena, instructions, array.count);
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
        out->program.operand_count = in.operand_count;
        REMAT_TRY(read_instructions(reader, i, in.instructions, opcodes, root->opcodes.count,
                                    &out->program));
    }
fail:
    return st;
}

static remat_status read_commands(struct remat_reader *reader,
                                  const struct remat_fb_program_Plan *root,
                                  struct remat_program *program)
{
    remat_status st = REMAT_OK;
    REMAT_READER_NEW_TABLES(reader, root, program, commands, command_count);
    for (uint32_t i = 0; i < program->command_count; i++) {
        struct remat_fb_program_Command in;
        struct remat_command *out = &program->commands[i];
        remat_fb_read_program_Command(root->commands, i, &in);
        *out = (struct remat_command){.kernel = (uint32_t)in.kernel,
                                      .operand_begin = in.operand_begin,
                                      .operand_end = in.operand_end,
                                      .parameter_begin = in.parameter_begin,
                                      .parameter_end = in.parameter_end,
                                      .phase = in.phase,
                                      .layer = in.layer,
                                      .instance = in.instance,
                                      .flops = in.flops,
                                      .moved_bytes = in.moved_bytes,
                                      .estimated_ns = in.estimated_ns,
                                      .live_bytes = in.live_bytes,
                                      .cost_source = in.cost_source};
        REMAT_TRY(remat_reader_text(reader, in.name, "commands", i, &out->name));
        REMAT_TRY(remat_reader_text(reader, in.scope, "commands", i, &out->scope));
        REMAT_TRY(read_dims(reader, in.space, "commands", i, &out->rank, out->space));
    }
fail:
    return st;
}

static remat_status read_entries(struct remat_reader *reader,
                                 const struct remat_fb_program_Plan *root,
                                 struct remat_program *program)
{
    remat_status st = REMAT_OK;
    REMAT_READER_NEW_TABLES(reader, root, program, segments, segment_count);
    REMAT_READER_NEW_TABLES(reader, root, program, entries, entry_count);
    REMAT_READER_NEW_TABLES(reader, root, program, calls, call_count);
    for (uint32_t i = 0; i < program->segment_count; i++) {
        struct remat_fb_program_Segment in;
        struct remat_segment *out = &program->segments[i];
        remat_fb_read_program_Segment(root->segments, i, &in);
        out->command_begin = in.command_begin;
        out->command_end = in.command_end;
        REMAT_TRY(remat_reader_text(reader, in.name, "segments", i, &out->name));
    }
    for (uint32_t i = 0; i < program->entry_count; i++) {
        struct remat_fb_program_Entry in;
        struct remat_entry *out = &program->entries[i];
        remat_fb_read_program_Entry(root->entries, i, &in);
        out->call_begin = in.call_begin;
        out->call_end = in.call_end;
        REMAT_TRY(remat_reader_text(reader, in.name, "entries", i, &out->name));
    }
    for (uint32_t i = 0; i < program->call_count; i++) {
        struct remat_fb_program_Call in;
        remat_fb_read_program_Call(root->calls, i, &in);
        program->calls[i] = (struct remat_call){(uint32_t)in.segment, in.times};
    }
fail:
    return st;
}

static remat_status read_tensors(struct remat_reader *reader,
                                 const struct remat_fb_program_Plan *root,
                                 struct remat_program *program)
{
    remat_status st = REMAT_OK;
    REMAT_READER_NEW_TABLES(reader, root, program, tensors, tensor_count);
    for (uint32_t i = 0; i < program->tensor_count; i++) {
        struct remat_fb_program_Tensor in;
        struct remat_tensor *out = &program->tensors[i];
        remat_fb_read_program_Tensor(root->tensors, i, &in);
        *out = (struct remat_tensor){.value = (uint32_t)in.value,
                                     .initializer = in.initializer,
                                     .init_mean = in.init_mean,
                                     .init_std = in.init_std};
        REMAT_TRY(remat_reader_text(reader, in.name, "tensors", i, &out->name));
    }
fail:
    return st;
}

static remat_status read_decisions(struct remat_reader *reader,
                                   const struct remat_fb_program_Plan *root,
                                   struct remat_program *program)
{
    remat_status st = REMAT_OK;
    REMAT_READER_NEW_TABLES(reader, root, program, decisions, decision_count);
    for (uint32_t i = 0; i < program->decision_count; i++) {
        struct remat_fb_program_Decision in;
        struct remat_decision_record *out = &program->decisions[i];
        remat_fb_read_program_Decision(root->decisions, i, &in);
        *out = (struct remat_decision_record){.layer = in.layer,
                                              .action = in.action,
                                              .bytes = in.bytes,
                                              .recompute_ns = in.recompute_ns,
                                              .saved_begin = in.saved_begin,
                                              .saved_end = in.saved_end,
                                              .recomputable = in.recomputable,
                                              .recompute_extra_ns = in.recompute_extra_ns};
        REMAT_TRY(remat_reader_text(reader, in.name, "decisions", i, &out->name));
        REMAT_TRY(remat_reader_text(reader, in.scope, "decisions", i, &out->scope));
        REMAT_TRY(remat_reader_text(reader, in.reason, "decisions", i, &out->reason));
    }
fail:
    return st;
}

static remat_status read_settings(struct remat_reader *reader,
                                  const struct remat_fb_program_Plan *root,
                                  struct remat_program *program)
{
    remat_status st = REMAT_OK;
    REMAT_READER_NEW_TABLES(reader, root, program, settings, setting_count);
    REMAT_READER_NEW_TABLES(reader, root, program, notes, note_count);
    for (uint32_t i = 0; i < program->setting_count; i++) {
        struct remat_fb_program_Setting in;
        struct remat_setting *out = &program->settings[i];
        remat_fb_read_program_Setting(root->settings, i, &in);
        REMAT_TRY(remat_reader_text(reader, in.name, "settings", i, &out->name));
        REMAT_TRY(remat_reader_text(reader, in.value, "settings", i, &out->value));
    }
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
    REMAT_NEW(reader->arena, program->parameters, root->parameters.count);
    REMAT_NEW(reader->arena, program->recomputed_layers, root->recomputed_layers.count);
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
                                      .manual_step_ns = root->manual_step_ns,
                                      .workspace_bytes = root->workspace_bytes,
                                      .exact_extras = root->exact_extras,
                                      .floor_slack_ns = root->floor_slack_ns,
                                      .layer_count = root->layer_count};
    REMAT_TRY(remat_reader_text(reader, root->producer, "producer", 0, &program->producer));
    REMAT_TRY(remat_reader_text(reader, root->graph_name, "graph_name", 0, &program->graph_name));
    REMAT_TRY(remat_reader_text(reader, root->target, "target", 0, &program->target));
    REMAT_TRY(remat_reader_text(reader, root->policy, "policy", 0, &program->policy));
    REMAT_TRY(remat_reader_text(reader, root->manual_policy, "manual_policy", 0,
                                &program->manual_policy));
    REMAT_TRY(
        remat_reader_text(reader, root->manual_flags, "manual_flags", 0, &program->manual_flags));
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
                                    root.min_reader_version, root.required_features));
    REMAT_NEW(arena, program, 1);
    REMAT_TRY(read_head(&reader, &root, program));
    REMAT_TRY(read_buffers(&reader, &root, program));
    REMAT_TRY(read_values(&reader, &root, program));
    REMAT_TRY(read_operands(&reader, &root, program));
    REMAT_TRY(read_kernels(&reader, &root, program));
    REMAT_TRY(read_commands(&reader, &root, program));
    REMAT_TRY(read_entries(&reader, &root, program));
    REMAT_TRY(read_tensors(&reader, &root, program));
    REMAT_TRY(read_decisions(&reader, &root, program));
    REMAT_TRY(read_settings(&reader, &root, program));
    REMAT_TRY(read_numbers(&reader, &root, program));
    REMAT_TRY(remat_cuda_read(&reader, root.cuda, program->command_count, &program->cuda));
    REMAT_TRY(remat_reader_prefix(&reader, remat_program_verify(ctx, program)));
    *out = program;
fail:
    return st;
}
