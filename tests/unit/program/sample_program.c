/* SPDX-License-Identifier: Apache-2.0 */
#include "sample_program.h"

static struct remat_program_value matrix(const char *name, uint8_t role, int64_t rows,
                                         int64_t columns, uint32_t buffer)
{
    return (struct remat_program_value){.name = name,
                                        .scope = "layers.0/mlp",
                                        .layer = 0,
                                        .dtype = REMAT_F32,
                                        .role = role,
                                        .rank = 2,
                                        .shape = {rows, columns},
                                        .bytes = 4 * (uint64_t)(rows * columns),
                                        .buffer = buffer};
}

static struct remat_operand dense(uint32_t value, uint8_t access, int64_t rows, int64_t columns)
{
    return (struct remat_operand){.value = value,
                                  .previous = REMAT_NONE,
                                  .access = access,
                                  .dtype = REMAT_F32,
                                  .rank = 2,
                                  .shape = {rows, columns},
                                  .strides = {columns, 1}};
}

static struct remat_instruction instruction(uint16_t opcode, uint16_t operand, uint16_t a,
                                            uint16_t b)
{
    return (struct remat_instruction){
        .opcode = opcode, .operand = operand, .args = {a, b, REMAT_NO_REGISTER}};
}

#define I(name, operand, a, b) instruction(REMAT_INSTRUCTION_##name, (operand), (a), (b))
#define NO                     REMAT_NO_REGISTER

static void fill_kernels(struct sample *s)
{
    const struct remat_instruction multiply[] = {I(load, 0, NO, NO),   I(constant, 0, NO, NO),
                                                 I(mul, 0, 0, 1),      I(store, 1, 2, NO),
                                                 I(row_sum, 0, 2, NO), I(store, 2, 4, NO)};
    const struct remat_instruction subtract[] = {I(load, 0, NO, NO), I(load_row, 1, NO, NO),
                                                 I(sub, 0, 0, 1), I(store, 0, 2, NO)};
    const struct remat_instruction update[] = {I(load, 0, NO, NO),   I(load, 1, NO, NO),
                                               I(sub, 0, 0, 1),      I(store, 0, 2, NO),
                                               I(row_sum, 0, 2, NO), I(store, 2, 4, NO)};
    memcpy(s->multiply, multiply, sizeof multiply);
    memcpy(s->subtract, subtract, sizeof subtract);
    memcpy(s->update, update, sizeof update);
    s->multiply[1].immediate = 2;
    s->kernels[0] = (struct remat_kernel){.kind = REMAT_KERNEL_fill_normal, .key = "fill_normal"};
    s->kernels[1] = (struct remat_kernel){.kind = REMAT_KERNEL_fill, .key = "fill"};
    s->kernels[2] = (struct remat_kernel){.kind = REMAT_KERNEL_matmul, .key = "matmul"};
    s->kernels[3] = (struct remat_kernel){.body = {6, s->multiply, 3}, .key = "multiply#1"};
    s->kernels[4] = (struct remat_kernel){.body = {4, s->subtract, 2}, .key = "subtract#2"};
    s->kernels[5] = (struct remat_kernel){.body = {6, s->update, 3}, .key = "update#3"};
}

static void fill_values(struct sample *s)
{
    const struct remat_buffer buffers[] = {{0, 128, 0, 6, true},    {256, 32, 0, 6, true},
                                           {512, 128, 0, 6, true},  {768, 64, 2, 4, false},
                                           {1024, 64, 3, 6, false}, {1280, 8, 3, 5, false},
                                           {768, 16, 5, 6, false}};
    memcpy(s->buffers, buffers, sizeof buffers);
    s->values[W] = matrix("w", REMAT_ROLE_PARAMETER, 4, 8, 0);
    s->values[X] = matrix("x", REMAT_ROLE_INPUT, 2, 4, 1);
    s->values[M] = matrix("m", REMAT_ROLE_OPTIMIZER_STATE, 4, 8, 2);
    s->values[Y] = matrix("y", REMAT_ROLE_ACTIVATION, 2, 8, 3);
    s->values[Z] = matrix("z", REMAT_ROLE_ACTIVATION, 2, 8, 4);
    s->values[S] = matrix("s", REMAT_ROLE_ACTIVATION, 2, 1, 5);
    s->values[Z2] = matrix("z2", REMAT_ROLE_GRADIENT, 2, 8, 4);
    s->values[W2] = matrix("w2", REMAT_ROLE_PARAMETER, 4, 8, 0);
    s->values[LOSS] = matrix("loss", REMAT_ROLE_OUTPUT, 4, 1, 6);
    s->values[Z2].phase = REMAT_PHASE_BACKWARD;
    s->values[Z2].instance = 1;
    s->values[X].layer = -1;
    s->values[X].scope = "";
}

static void fill_operands(struct sample *s)
{
    struct remat_operand *o = s->operands;
    o[0] = dense(W, REMAT_ACCESS_WRITE, 4, 8);
    o[1] = dense(M, REMAT_ACCESS_WRITE, 4, 8);
    o[2] = dense(X, REMAT_ACCESS_READ, 2, 4);
    o[3] = dense(W, REMAT_ACCESS_READ, 4, 8);
    o[4] = dense(Y, REMAT_ACCESS_WRITE, 2, 8);
    o[5] = dense(Y, REMAT_ACCESS_READ, 2, 8);
    o[6] = dense(Z, REMAT_ACCESS_WRITE, 2, 8);
    o[7] = dense(S, REMAT_ACCESS_WRITE, 2, 1);
    o[8] = dense(Z2, REMAT_ACCESS_UPDATE, 2, 8);
    o[8].previous = Z;
    o[9] = dense(S, REMAT_ACCESS_READ, 2, 1);
    o[10] = dense(W2, REMAT_ACCESS_UPDATE, 4, 8);
    o[10].previous = W;
    o[11] = dense(Z2, REMAT_ACCESS_READ, 1, 8);
    o[11].strides[0] = 0;
    o[12] = dense(LOSS, REMAT_ACCESS_WRITE, 4, 1);
}

static struct remat_command command(const char *name, uint32_t kernel, uint32_t begin, uint32_t end,
                                    uint64_t live_bytes)
{
    return (struct remat_command){.kernel = kernel,
                                  .operand_begin = begin,
                                  .operand_end = end,
                                  .name = name,
                                  .scope = "layers.0/mlp",
                                  .layer = 0,
                                  .flops = 100 + begin,
                                  .moved_bytes = 200 + begin,
                                  .estimated_ns = 300 + begin,
                                  .cost_source = REMAT_COST_SOURCES - 1,
                                  .live_bytes = live_bytes};
}

static void set_space(struct remat_command *c, uint8_t phase, int64_t rows, int64_t columns)
{
    c->phase = phase;
    c->rank = 2;
    c->space[0] = rows;
    c->space[1] = columns;
}

static void fill_commands(struct sample *s)
{
    s->commands[0] = command("w", 0, 0, 1, 768);
    s->commands[1] = command("m", 1, 1, 2, 768);
    s->commands[2] = command("y", 2, 2, 5, 1024);
    s->commands[3] = command("z", 3, 5, 8, 1536);
    s->commands[4] = command("z2", 4, 8, 10, 1280);
    s->commands[5] = command("w2", 5, 10, 13, 1280);
    s->commands[0].parameter_end = 4;
    s->commands[1].parameter_begin = 4;
    s->commands[1].parameter_end = 5;
    s->commands[0].phase = s->commands[1].phase = REMAT_PHASE_INIT;
    set_space(&s->commands[3], REMAT_PHASE_FORWARD, 2, 8);
    set_space(&s->commands[4], REMAT_PHASE_BACKWARD, 2, 8);
    set_space(&s->commands[5], REMAT_PHASE_OPTIMIZER, 4, 8);
    s->commands[4].instance = 1;
    s->segments[0] = (struct remat_segment){"init", 0, 2};
    s->segments[1] = (struct remat_segment){"step", 2, 6};
    s->entries[0] = (struct remat_entry){"init", 0, 1};
    s->entries[1] = (struct remat_entry){"train", 1, 3};
    s->calls[0] = (struct remat_call){0, 1, 0};
    s->calls[1] = (struct remat_call){1, 3, 0};
    s->calls[2] = (struct remat_call){1, 1, 0};
}

static void fill_report(struct sample *s)
{
    const double parameters[] = {0, 0.02, 12345, 4294967295.0, 0.5};
    memcpy(s->parameters, parameters, sizeof parameters);
    s->tensors[0] = (struct remat_tensor){"w", W, REMAT_INIT_NORMAL, 0, 0.02, 0, 0, 1, NULL, 0};
    s->tensors[1] = (struct remat_tensor){"x", X, REMAT_INIT_NONE, 0, 0, 0, 0, 0, NULL, 0};
    s->tensors[2] = (struct remat_tensor){"m", M, REMAT_INIT_CONSTANT, 0.5, 0, 0, 0, 0, NULL, 0};
    s->tensors[3] = (struct remat_tensor){"loss", LOSS, REMAT_INIT_NONE, 0, 0, 0, 0, 0, NULL, 0};
#define TYPE_OF_Y REMAT_F32, 2, {4, 4}, true
#define TYPE_OF_Z REMAT_BF16, 1, {32}, false
#define NO_TYPE   0, 0, {0}, false
    s->decisions[0] = (struct remat_decision_record){
        "y", "layers.0/mlp", 0,   REMAT_ACTION_SAVE, "fits", 64,       0, 2,
        5,   true,           -12, "linear",          3,      TYPE_OF_Y};
    s->decisions[1] = (struct remat_decision_record){"z",
                                                     "layers.0/mlp",
                                                     0,
                                                     REMAT_ACTION_RECOMPUTE,
                                                     "pin --recompute z",
                                                     64,
                                                     77,
                                                     3,
                                                     4,
                                                     true,
                                                     70,
                                                     "gelu",
                                                     0,
                                                     TYPE_OF_Z};
    s->decisions[2] = (struct remat_decision_record){
        "q", "layers.1/mlp", 1, REMAT_ACTION_INLINE, "planner", 32, 0, 3, 6, false, 0, "",
        0,   NO_TYPE};
    s->settings[0] = (struct remat_setting){"budget", "2.2GB"};
    s->settings[1] = (struct remat_setting){"policy", ""};
    s->keeps[0] = (struct remat_keep_record){0, REMAT_ACTION_PART, 256, 40};
    s->keeps[1] = (struct remat_keep_record){1, REMAT_ACTION_PART, 512, 70};
    s->manuals[0] = (struct remat_manual){"megatron", "block 1", "--recompute-num-layers 1", 1100};
    s->manuals[1] = (struct remat_manual){"torchtune", "none", "", 1200};
    s->mesh[0] = s->mesh[1] = (struct remat_mesh_axis){"dp", 4, 0};
    s->recomputed_layers[0] = 1;
    s->notes[0] = "a note";
    s->notes[1] = "größer als erwartet";
}

/* Commands 3 and 4 launch two kernels and one, command 5 one that may launch for others too. */
static void fill_cuda(struct sample *s)
{
    const uint32_t begin[] = {0, 0, 0, 0, 2, 3, 4};
    memcpy(s->launch_begin, begin, sizeof begin);
    s->preludes[0] = "#define KERNEL void\n";
    s->cuda_kernels[0] = (struct remat_cuda_kernel){
        "multiply.team.v1#1", "multiply", 0, "KERNEL multiply\n{}\n", 256, 0, 0};
    s->cuda_kernels[1] = (struct remat_cuda_kernel){
        "subtract.block.v1#2", "subtract_2", 0, "KERNEL subtract\n{}\n", 32, 1024, 0};
    s->cuda_kernels[2] = (struct remat_cuda_kernel){
        "update.tensors.v1#3", "update", 0, "KERNEL update\n{}\n", 256, 0, 3};
    s->cuda_launches[0] = (struct remat_cuda_launch){0, 1, 0, 2};
    s->cuda_launches[1] = (struct remat_cuda_launch){1, 77, 2, 5};
    s->cuda_launches[2] = (struct remat_cuda_launch){1, 1, 2, 4};
    s->cuda_launches[3] = (struct remat_cuda_launch){2, 1, 5, 10};
    s->cuda_words[0] = (struct remat_cuda_word){REMAT_CUDA_VALUE, UINT64_MAX};
    s->cuda_words[1] = (struct remat_cuda_word){REMAT_CUDA_ARENA, 1280};
    s->cuda_words[2] = (struct remat_cuda_word){REMAT_CUDA_WORKSPACE, 256};
    s->cuda_words[3] = (struct remat_cuda_word){REMAT_CUDA_ARENA, 0};
    s->cuda_words[4] = (struct remat_cuda_word){REMAT_CUDA_SEED, 0};
    s->cuda_words[5] = (struct remat_cuda_word){REMAT_CUDA_VALUE, 1};
    s->cuda_words[6] = (struct remat_cuda_word){REMAT_CUDA_ARENA, 512};
    s->cuda_words[7] = (struct remat_cuda_word){REMAT_CUDA_VALUE, 0};
    s->cuda_words[8] = (struct remat_cuda_word){REMAT_CUDA_VALUE, 32};
    s->cuda_words[9] = (struct remat_cuda_word){REMAT_CUDA_ARENA, 0};
    s->cubins[0] = (struct remat_cubin){0,
                                        "sm_80",
                                        "\x7f"
                                        "ELF80",
                                        6,
                                        32,
                                        0,
                                        0,
                                        ""};
    s->cubins[1] = (struct remat_cubin){0,
                                        "sm_90a",
                                        "\x7f"
                                        "ELF\0",
                                        5,
                                        40,
                                        8,
                                        1024,
                                        "a warning"};
    s->cubins[2] = (struct remat_cubin){1, "sm_80", "x", 1, 255, 0, 0, ""};
}

void sample_program(struct sample *s)
{
    memset(s, 0, sizeof *s);
    fill_kernels(s);
    fill_values(s);
    fill_operands(s);
    fill_commands(s);
    fill_report(s);
    fill_cuda(s);
    s->program = (struct remat_program){.producer = "test 1",
                                        .graph_name = "sample",
                                        .target = "cpu",
                                        .target_arch = "sm_90",
                                        .limited_by = "computation",
                                        .config = "{\"model_type\": \"gpt2\"}",
                                        .plan_only = "",
                                        .chosen_by = "--ranks 8",
                                        .policy = "layers",
                                        .number_tensor = REMAT_NONE,
                                        .graph_hash = UINT64_C(0xfedcba9876543210),
                                        .numerics_hash = 42,
                                        .budget_bytes = 4096,
                                        .reserve_bytes = 1000,
                                        .arena_bytes = 1536,
                                        .peak_bytes = 1536,
                                        .static_bytes = 768,
                                        .touched_bytes = 1288,
                                        .peak_command = 3,
                                        .step_ns = 1000,
                                        .base_step_ns = 900,
                                        .bound_step_ns = 890,
                                        .floor_bytes = 512,
                                        .tokens = 77,
                                        .model_flops = 1 << 20,
                                        .model_ns = 300,
                                        .exact_extras = true,
                                        .layer_count = 2,
                                        .buffer_count = 7,
                                        .value_count = 9,
                                        .operand_count = 13,
                                        .kernel_count = 6,
                                        .command_count = 6,
                                        .segment_count = 2,
                                        .entry_count = 2,
                                        .call_count = 3,
                                        .tensor_count = 4,
                                        .decision_count = 3,
                                        .parameter_count = 5,
                                        .setting_count = 2,
                                        .manual_count = 2,
                                        .keep_count = 2,
                                        .recomputed_layer_count = 1,
                                        .buffers = s->buffers,
                                        .values = s->values,
                                        .operands = s->operands,
                                        .kernels = s->kernels,
                                        .commands = s->commands,
                                        .segments = s->segments,
                                        .entries = s->entries,
                                        .calls = s->calls,
                                        .tensors = s->tensors,
                                        .decisions = s->decisions,
                                        .parameters = s->parameters,
                                        .settings = s->settings,
                                        .manuals = s->manuals,
                                        .keeps = s->keeps,
                                        .mesh = s->mesh,
                                        .recomputed_layers = s->recomputed_layers,
                                        .notes = s->notes,
                                        .note_count = 2,
                                        .cuda = {.prelude_count = 1,
                                                 .kernel_count = 3,
                                                 .launch_count = 4,
                                                 .word_count = 10,
                                                 .cubin_count = 3,
                                                 .preludes = s->preludes,
                                                 .kernels = s->cuda_kernels,
                                                 .launches = s->cuda_launches,
                                                 .words = s->cuda_words,
                                                 .launch_begin = s->launch_begin,
                                                 .workspace_bytes = 512,
                                                 .cubins = s->cubins,
                                                 .nvrtc_version = 13010}};
}
