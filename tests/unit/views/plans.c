/* SPDX-License-Identifier: Apache-2.0 */
#include "plans.h"

/* Arena, in units of 256 bytes: w 0, m 1, ids 2 (static), then h0 3, h1 4, loss 5, g 6. h0 of layer
 * 0 is freed after the forward pass of layer 1 and recomputed at 4. */
static const struct remat_buffer buffers[] = {
    {.offset_bytes = 0, .bytes = 256, .end = 8, .persistent = true},
    {.offset_bytes = 256, .bytes = 256, .end = 8, .persistent = true},
    {.offset_bytes = 512, .bytes = 128, .end = 8, .persistent = true},
    {.offset_bytes = 768, .bytes = 256, .begin = 1, .end = 3},
    {.offset_bytes = 1024, .bytes = 256, .begin = 2, .end = 5},
    {.offset_bytes = 1280, .bytes = 4, .begin = 3, .end = 8},
    {.offset_bytes = 768, .bytes = 256, .begin = 4, .end = 7},
    {.offset_bytes = 1536, .bytes = 256, .begin = 5, .end = 8},
};
enum { W, M, IDS, H0, H1, LOSS, H0_AGAIN, G, W_NEW, VALUES };

static const struct remat_program_value values[VALUES] = {
    [W] = {"h.0.w", "h.0", 0, 0, REMAT_F32, REMAT_ROLE_PARAMETER, 0, 1, {64}, 256, .buffer = 0},
    [M] =
        {"h.0.w.m", "", -1, 0, REMAT_F32, REMAT_ROLE_OPTIMIZER_STATE, 0, 1, {64}, 256, .buffer = 1},
    [IDS] = {"tokens", "", -1, 0, REMAT_I32, REMAT_ROLE_INPUT, 0, 1, {32}, 128, .buffer = 2},
    [H0] = {"h.0.act", "h.0", 0, 0, REMAT_F32, REMAT_ROLE_ACTIVATION, 0, 1, {64}, 256, .buffer = 3},
    [H1] = {"h.1.act", "h.1", 1, 0, REMAT_F32, REMAT_ROLE_ACTIVATION, 0, 1, {64}, 256, .buffer = 4},
    [LOSS] = {"loss", "", -1, 0, REMAT_F32, REMAT_ROLE_OUTPUT, 1, 1, {1}, 4, .buffer = 5},
    [H0_AGAIN] =
        {"h.0.act", "h.0", 0, 1, REMAT_F32, REMAT_ROLE_ACTIVATION, 2, 1, {64}, 256, .buffer = 6},
    [G] = {"h.0.w.grad", "h.0", 0, 0, REMAT_F32, REMAT_ROLE_GRADIENT, 2, 1, {64}, 256, .buffer = 7},
    [W_NEW] =
        {"h.0.w.new", "h.0", 0, 0, REMAT_F32, REMAT_ROLE_PARAMETER, 3, 1, {64}, 256, .buffer = 0},
};

#define READ(v)                                                                                    \
    {                                                                                              \
        .value = (v), .previous = REMAT_NONE, .access = REMAT_ACCESS_READ                          \
    }
#define WRITE(v)                                                                                   \
    {                                                                                              \
        .value = (v), .previous = REMAT_NONE, .access = REMAT_ACCESS_WRITE                         \
    }
#define UPDATE(v, old)                                                                             \
    {                                                                                              \
        .value = (v), .previous = (old), .access = REMAT_ACCESS_UPDATE                             \
    }
static const struct remat_operand operands[] = {
    WRITE(W),                                          /* 0: init */
    READ(IDS),      READ(W),          WRITE(H0),       /* 1 */
    READ(H0),       WRITE(H1),                         /* 2 */
    READ(H1),       WRITE(LOSS),                       /* 3 */
    READ(IDS),      READ(W),          WRITE(H0_AGAIN), /* 4 */
    READ(H0_AGAIN), WRITE(G),                          /* 5 */
    READ(H0_AGAIN), UPDATE(G, G),                      /* 6 */
    READ(G),        UPDATE(W_NEW, W),                  /* 7 */
};

static const struct remat_instruction square[] = {
    {REMAT_INSTRUCTION_load, 0, {REMAT_NO_REGISTER, REMAT_NO_REGISTER, REMAT_NO_REGISTER}, 0, 0},
    {REMAT_INSTRUCTION_mul, 0, {0, 0, REMAT_NO_REGISTER}, 0, 0},
    {REMAT_INSTRUCTION_store, 1, {1, REMAT_NO_REGISTER, REMAT_NO_REGISTER}, 0, 0},
};
static const struct remat_kernel kernels[] = {
    {REMAT_KERNEL_fill, {0}, "fill"},
    {REMAT_KERNEL_embedding, {0}, "embedding"},
    {REMAT_KERNEL_fused, {3, square, 2}, "square/f32"},
};

#define COMMAND(kernel_, begin, end, phase_, name_, layer_, instance_, ns, live)                   \
    {                                                                                              \
        .kernel = (kernel_), .operand_begin = (begin), .operand_end = (end), .phase = (phase_),    \
        .name = (name_), .scope = "", .layer = (layer_), .instance = (instance_),                  \
        .estimated_ns = (ns), .live_bytes = (live)                                                 \
    }
static const struct remat_command commands[] = {
    COMMAND(0, 0, 1, REMAT_PHASE_INIT, "h.0.w", 0, 0, 10, 768),
    COMMAND(1, 1, 4, REMAT_PHASE_FORWARD, "h.0.act", 0, 0, 1000, 1024),
    COMMAND(2, 4, 6, REMAT_PHASE_FORWARD, "h.1.act", 1, 0, 2000, 1280),
    COMMAND(2, 6, 8, REMAT_PHASE_LOSS, "loss", -1, 0, 100, 1280),
    COMMAND(1, 8, 11, REMAT_PHASE_BACKWARD, "h.0.act", 0, 1, 1000, 1536),
    COMMAND(2, 11, 13, REMAT_PHASE_BACKWARD, "h.0.w.grad", 0, 0, 2000, 1536),
    COMMAND(2, 13, 15, REMAT_PHASE_BACKWARD, "h.0.w.grad", 0, 0, 2000, 1536),
    COMMAND(2, 15, 17, REMAT_PHASE_OPTIMIZER, "h.0.w.new", 0, 0, 500, 1280),
};

static const struct remat_segment segments[] = {{"init", 0, 1}, {"step", 1, 8}};
static const struct remat_entry entries[] = {{"init", 0, 1}, {"train", 1, 2}};
static const struct remat_call calls[] = {{0, 1, 0}, {1, 1, 0}};
/* dtype, rank, shape, leaves_layer */
#define MATRIX  REMAT_F32, 2, {8, 8}, false
#define VECTOR  REMAT_BF16, 1, {64}, false
#define NO_TYPE 0, 0, {0}, false
static const struct remat_decision_record decisions[] = {
    {"h.0.act", "h.0", 0, REMAT_ACTION_RECOMPUTE, "policy", 256, 1000, 1, 6, true, 900, "linear", 0,
     MATRIX},
    {"h.0.mid", "h.0", 0, REMAT_ACTION_INLINE, "planner", 128, 0, 1, 4, true, -150, "linear", 0,
     VECTOR},
    {"h.1.act", "h.1", 1, REMAT_ACTION_SAVE, "policy", 256, 0, 2, 5, true, 2000, "linear", 0,
     MATRIX},
    {"h.1.mid", "h.1", 1, REMAT_ACTION_SAVE, "policy", 128, 0, 2, 8, true, 300, "linear", 0,
     VECTOR},
    {"h.10.mid", "h.10", 10, REMAT_ACTION_SAVE, "policy", 128, 0, 2, 8, true, 300, "linear", 0,
     VECTOR},
    {"logits", "", -1, REMAT_ACTION_SAVE, "pin --save \"log*\"", 4096, 0, 3, 8, false, 0, "", 0,
     NO_TYPE},
};
static const struct remat_keep_record keeps[] = {{1, REMAT_ACTION_PART, 100, 40},
                                                 {3, REMAT_ACTION_PART, 100, 40},
                                                 {4, REMAT_ACTION_PART, 100, 40}};
static const struct remat_manual manuals[] = {
    {"megatron", "block 1", "--recompute-num-layers 1", 9460}};
static const struct remat_setting settings[] = {{"budget", "4KiB"}, {"hash", ""}};
static const uint32_t recomputed_layers[] = {0};
static const char *const notes[] = {"made by hand"};

/* The program's tables are not const, so they are copied. */
#define COPY(field, count_field, table)                                                            \
    do {                                                                                           \
        program->field =                                                                           \
            remat_arena_array(arena, sizeof(table) / sizeof *(table), sizeof *(table));            \
        if (!program->field)                                                                       \
            return NULL;                                                                           \
        memcpy(program->field, (table), sizeof(table));                                            \
        program->count_field = sizeof(table) / sizeof *(table);                                    \
    } while (0)

struct remat_program *make_small_plan(struct remat_arena *arena)
{
    struct remat_program *program = remat_arena_array(arena, 1, sizeof *program);
    if (!program)
        return NULL;
    *program = (struct remat_program){.producer = "remat test",
                                      .graph_name = "small",
                                      .target = "cpu",
                                      .policy = "full-block-1",
                                      .number_tensor = REMAT_NONE,
                                      .graph_hash = 0x123,
                                      .numerics_hash = UINT64_C(0xfedcba9876543210),
                                      .budget_bytes = 4096,
                                      .reserve_bytes = 1024,
                                      .arena_bytes = 1792,
                                      .peak_bytes = 1536,
                                      .static_bytes = 768,
                                      .touched_bytes = 1792,
                                      .peak_command = 4,
                                      .step_ns = 8600,
                                      .base_step_ns = 7600,
                                      .layer_count = 2};
    COPY(buffers, buffer_count, buffers);
    COPY(values, value_count, values);
    COPY(operands, operand_count, operands);
    COPY(kernels, kernel_count, kernels);
    COPY(commands, command_count, commands);
    COPY(segments, segment_count, segments);
    COPY(entries, entry_count, entries);
    COPY(calls, call_count, calls);
    COPY(decisions, decision_count, decisions);
    COPY(settings, setting_count, settings);
    COPY(manuals, manual_count, manuals);
    COPY(keeps, keep_count, keeps);
    COPY(recomputed_layers, recomputed_layer_count, recomputed_layers);
    COPY(notes, note_count, notes);
    return program;
}
