/* SPDX-License-Identifier: Apache-2.0 */
/* Plan file -> struct remat_program: what cannot be expressed natively is refused here, the rest by
 * remat_program_verify and remat_program_simulate. */
#include "program.h"

#include "reader.h"

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
#define TEXT(field)  REMAT_TRY(remat_reader_text(reader, in.field, table, i, &out->field));
#define RANK(field)  REMAT_TRY(read_dims(reader, in.field, table, i, &out->rank, out->field));
#define WHOLE(field)                                                                               \
    REMAT_TRY(read_dims(reader, in.field, table, i, &out->field##_rank, out->field));
#define DIMS(field) REMAT_TRY(read_strides(reader, in.field, table, i, out->rank, out->field));
#define RECORDS(Table, Item, items, item_count, fields)                                            \
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
#include "records.def"

/* --- CUDA code --- */

static remat_status read_cuda_preludes(struct remat_reader *reader,
                                       const struct remat_fb_program_CudaCode *root,
                                       struct remat_cuda_code *code)
{
    remat_status st = REMAT_OK;
    REMAT_READER_NEW_TABLES(reader, root, code, preludes, prelude_count);
    for (uint32_t i = 0; i < code->prelude_count; i++) {
        struct remat_fb_text in;
        remat_fb_read_text(root->preludes, i, &in);
        REMAT_TRY(remat_reader_lines(reader, in, "cuda.preludes", i, &code->preludes[i]));
    }
fail:
    return st;
}

static remat_status read_cuda_kernels(struct remat_reader *reader,
                                      const struct remat_fb_program_CudaCode *root,
                                      struct remat_cuda_code *code)
{
    remat_status st = REMAT_OK;
    REMAT_READER_NEW_TABLES(reader, root, code, kernels, kernel_count);
    for (uint32_t i = 0; i < code->kernel_count; i++) {
        struct remat_fb_program_CudaKernel in;
        struct remat_cuda_kernel *out = &code->kernels[i];
        remat_fb_read_program_CudaKernel(root->kernels, i, &in);
        *out = (struct remat_cuda_kernel){.prelude = (uint32_t)in.prelude,
                                          .threads = in.threads,
                                          .shared_bytes = in.shared_bytes,
                                          .tensor_words = in.tensor_words};
        REMAT_TRY(remat_reader_text(reader, in.key, "cuda.kernels", i, &out->key));
        REMAT_TRY(remat_reader_text(reader, in.symbol, "cuda.kernels", i, &out->symbol));
        REMAT_TRY(remat_reader_lines(reader, in.text, "cuda.kernels", i, &out->text));
    }
fail:
    return st;
}

static remat_status read_cuda_launches(struct remat_reader *reader,
                                       const struct remat_fb_program_CudaCode *root,
                                       uint32_t command_count, struct remat_cuda_code *code)
{
    remat_status st = REMAT_OK;
    if (root->launch_begin.count && root->launch_begin.count != (uint64_t)command_count + 1)
        REMAT_FAIL(reader->ctx, REMAT_ERROR_INVALID, "%s: cuda.launch_begin: %u for %u commands",
                   reader->name, root->launch_begin.count, command_count);
    REMAT_TRY(
        remat_reader_claim(reader, root->launches.count, sizeof(struct remat_fb_cuda_launch)));
    REMAT_TRY(remat_reader_claim(reader, root->launch_begin.count, sizeof(uint32_t)));
    REMAT_TRY_NEW(reader->arena, code->launches, root->launches.count);
    code->launch_count = root->launches.count;
    for (uint32_t i = 0; i < code->launch_count; i++) {
        struct remat_fb_cuda_launch in;
        memcpy(&in, (const char *)root->launches.data + i * sizeof in, sizeof in);
        code->launches[i] =
            (struct remat_cuda_launch){in.kernel, in.blocks, in.word_begin, in.word_end};
    }
    if (!root->launch_begin.count)
        return REMAT_OK;
    REMAT_TRY_NEW(reader->arena, code->launch_begin, root->launch_begin.count);
    for (uint32_t i = 0; i < root->launch_begin.count; i++)
        code->launch_begin[i] = remat_fb_u32(root->launch_begin, i);
fail:
    return st;
}

static remat_status read_cuda_words(struct remat_reader *reader,
                                    const struct remat_fb_program_CudaCode *root,
                                    struct remat_cuda_code *code)
{
    remat_status st = REMAT_OK;
    if (root->word_kinds.count != root->word_values.count)
        REMAT_FAIL(reader->ctx, REMAT_ERROR_INVALID, "%s: cuda: %u word_kinds, %u word_values",
                   reader->name, root->word_kinds.count, root->word_values.count);
    REMAT_TRY(remat_reader_claim(reader, root->word_values.count, 1 + sizeof(uint64_t)));
    REMAT_TRY_NEW(reader->arena, code->words, root->word_values.count);
    code->word_count = root->word_values.count;
    for (uint32_t i = 0; i < code->word_count; i++)
        code->words[i] = (struct remat_cuda_word){remat_fb_u8(root->word_kinds, i),
                                                  remat_fb_u64(root->word_values, i)};
fail:
    return st;
}

static remat_status read_cuda_cubins(struct remat_reader *reader,
                                     const struct remat_fb_program_CudaCode *root,
                                     struct remat_cuda_code *code)
{
    remat_status st = REMAT_OK;
    REMAT_READER_NEW_TABLES(reader, root, code, cubins, cubin_count);
    for (uint32_t i = 0; i < code->cubin_count; i++) {
        struct remat_fb_program_Cubin in;
        struct remat_cubin *out = &code->cubins[i];
        remat_fb_read_program_Cubin(root->cubins, i, &in);
        *out = (struct remat_cubin){.kernel = (uint32_t)in.kernel,
                                    .data = in.data.data,
                                    .bytes = in.data.count,
                                    .registers = in.registers,
                                    .spill_bytes = in.spill_bytes,
                                    .shared_bytes = in.shared_bytes};
        REMAT_TRY(remat_reader_claim(reader, in.data.count, 1));
        REMAT_TRY(remat_reader_text(reader, in.arch, "cuda.cubins", i, &out->arch));
        REMAT_TRY(remat_reader_text(reader, in.warnings, "cuda.cubins", i, &out->warnings));
    }
fail:
    return st;
}

/* `codes`: the vector of the plan, of one table or none. */
static remat_status read_cuda(struct remat_reader *reader, struct remat_fb_tables codes,
                              uint32_t command_count, struct remat_cuda_code *out)
{
    remat_status st = REMAT_OK;
    struct remat_fb_program_CudaCode root;
    *out = (struct remat_cuda_code){0};
    if (codes.count == 0)
        return REMAT_OK;
    if (codes.count > 1)
        REMAT_FAIL(reader->ctx, REMAT_ERROR_INVALID, "%s: cuda: %u tables, at most one is possible",
                   reader->name, codes.count);
    remat_fb_read_program_CudaCode(codes, 0, &root);
    out->workspace_bytes = root.workspace_bytes;
    out->nvrtc_version = root.nvrtc_version;
    REMAT_TRY(read_cuda_preludes(reader, &root, out));
    REMAT_TRY(read_cuda_kernels(reader, &root, out));
    REMAT_TRY(read_cuda_launches(reader, &root, command_count, out));
    REMAT_TRY(read_cuda_words(reader, &root, out));
    REMAT_TRY(read_cuda_cubins(reader, &root, out));
fail:
    return st;
}

/* --- the program --- */

/* Files written before transfers could be overlapped say nothing: theirs are blocking. */
static void complete_blocking(struct remat_program *program)
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

/* Stays where it is in the file's copy. */
static remat_status read_constants(struct remat_reader *reader,
                                   const struct remat_fb_program_Plan *root,
                                   struct remat_program *program)
{
    remat_status st = REMAT_OK;
    REMAT_TRY(remat_reader_claim(reader, root->constants.count, REMAT_READER_TABLE_BYTES));
    for (uint32_t i = 0; i < root->constants.count; i++) {
        struct remat_fb_program_Constant in;
        remat_fb_read_program_Constant(root->constants, i, &in);
        REMAT_TRY(remat_reader_claim(reader, in.data.count, 1));
        if (in.tensor < 0 || (uint32_t)in.tensor >= program->tensor_count || !in.data.count)
            REMAT_FAIL(reader->ctx, REMAT_ERROR_INVALID,
                       "%s: constants[%u]: tensor %d is out of range (%u tensors), or without data",
                       reader->name, i, in.tensor, program->tensor_count);
        struct remat_tensor *tensor = &program->tensors[in.tensor];
        if (tensor->data)
            REMAT_FAIL(reader->ctx, REMAT_ERROR_INVALID,
                       "%s: constants[%u]: tensor \"%s\" has data already", reader->name, i,
                       tensor->name);
        tensor->data = in.data.data;
        tensor->data_bytes = in.data.count;
    }
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
                                      .number_tensor = (uint32_t)root->number_tensor,
                                      .layer_count = root->layer_count,
                                      .depth = root->depth};
    REMAT_TRY(remat_reader_text(reader, root->producer, "producer", 0, &program->producer));
    REMAT_TRY(remat_reader_text(reader, root->graph_name, "graph_name", 0, &program->graph_name));
    REMAT_TRY(remat_reader_text(reader, root->target, "target", 0, &program->target));
    REMAT_TRY(
        remat_reader_text(reader, root->target_arch, "target_arch", 0, &program->target_arch));
    REMAT_TRY(remat_reader_text(reader, root->config, "config", 0, &program->config));
    REMAT_TRY(remat_reader_text(reader, root->plan_only, "plan_only", 0, &program->plan_only));
    REMAT_TRY(remat_reader_text(reader, root->chosen_by, "chosen_by", 0, &program->chosen_by));
    REMAT_TRY(remat_reader_text(reader, root->policy, "policy", 0, &program->policy));
    REMAT_TRY(remat_reader_text(reader, root->limited_by, "limited_by", 0, &program->limited_by));
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
                                        REMAT_FEATURE_PLAN_ONLY | REMAT_FEATURE_NUMBER |
                                        REMAT_FEATURE_ABSENT | REMAT_FEATURE_CONSTANTS));
    REMAT_TRY_NEW(arena, program, 1);
    REMAT_TRY(read_head(&reader, &root, program));
    REMAT_TRY(read_buffers(&reader, &root, program));
    REMAT_TRY(read_values(&reader, &root, program));
    REMAT_TRY(read_operands(&reader, &root, program));
    REMAT_TRY(read_kernels(&reader, &root, program));
    REMAT_TRY(read_commands(&reader, &root, program));
    complete_blocking(program);
    REMAT_TRY(read_segments(&reader, &root, program));
    REMAT_TRY(read_entries(&reader, &root, program));
    REMAT_TRY(read_calls(&reader, &root, program));
    REMAT_TRY(read_tensors(&reader, &root, program));
    REMAT_TRY(read_constants(&reader, &root, program));
    REMAT_TRY(read_decisions(&reader, &root, program));
    REMAT_TRY(read_settings(&reader, &root, program));
    REMAT_TRY(read_mesh(&reader, &root, program));
    REMAT_TRY(read_manuals(&reader, &root, program));
    REMAT_TRY(read_keeps(&reader, &root, program));
    REMAT_TRY(read_notes(&reader, &root, program));
    REMAT_TRY(read_numbers(&reader, &root, program));
    REMAT_TRY(read_cuda(&reader, root.cuda, program->command_count, &program->cuda));
    REMAT_TRY(remat_reader_prefix(&reader, remat_program_verify(ctx, program)));
    REMAT_TRY(remat_reader_prefix(&reader, remat_program_simulate(ctx, program)));
    *out = program;
fail:
    return st;
}
