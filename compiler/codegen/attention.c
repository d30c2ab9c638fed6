/* SPDX-License-Identifier: Apache-2.0 */
/* Attention: the constants of attention*.cu, which say how large tiles are.
 *
 * Shared memory holds, of a row in `pitch` bytes, 32 KiB of the rows that a block owns (twice in
 * backward) and 8 KiB of those it visits, twice or four times: at most 97 KiB, which all GPUs have.
 * Bits depend on the visited rows of forward alone, which follow from dtype and head size. */
#include "body.h"
#include "emitter.h"
#include "unwind.h"

#define TILE_ALIGNMENT 256 /* of BODY(attention_tiles), as bits of addresses change up to there */
#define HEAD_SIZE_MAX  128 /* sums of 16 rows are that many f32 over a warp's registers */
#define OWNED_BYTES    32768
#define STAGE_BYTES    8192

struct attention {
    const struct remat_operand *operands;
    const char *names;
    uint32_t operand_count, absent, q;
    uint64_t batch, heads, kv_heads, queries, keys, head_size;
    uint32_t bytes; /* of an element */
    double scale, p;
    bool causal, query_segments, key_segments;
    uint32_t pitch, copy_bytes, warps, strips, visited, held_blocks;
};

static bool is_heads(const struct attention *a, uint32_t o)
{
    return a->operands[o].rank == 4;
}

static struct attention read_attention(const struct cuda_emitter *e,
                                       const struct remat_command *command, bool backward)
{
    const struct remat_operand *operands = cuda_operand(e, command, 0);
    const struct remat_operand *q = &operands[backward], *k = q + 1;
    const double *parameters = &e->program->parameters[command->parameter_begin];
    uint32_t kind = e->program->kernels[command->kernel].kind;
    return (struct attention){.operands = operands,
                              .operand_count = command->operand_end - command->operand_begin,
                              .absent = command->absent,
                              .names = remat_kernel_row(kind)->operands,
                              .q = backward,
                              .scale = parameters[0],
                              .causal = parameters[1] != 0,
                              .query_segments = cuda_has_operand(e, command, "query_segments"),
                              .key_segments = cuda_has_operand(e, command, "key_segments"),
                              .p = parameters[2],
                              .batch = (uint64_t)q->shape[0],
                              .queries = (uint64_t)q->shape[1],
                              .heads = (uint64_t)q->shape[2],
                              .head_size = (uint64_t)q->shape[3],
                              .keys = (uint64_t)k->shape[1],
                              .kv_heads = (uint64_t)k->shape[2],
                              .bytes = remat_dtype_bytes((remat_dtype)q->dtype)};
}

static remat_status check(const struct cuda_source *s, const struct attention *a,
                          uint32_t alignment)
{
    if (a->head_size > HEAD_SIZE_MAX)
        return CUDA_INVALID(
            s, "CUDA text has attention with heads of at most %d elements, not of %llu",
            HEAD_SIZE_MAX, (unsigned long long)a->head_size);
    if (alignment < 4)
        return CUDA_INVALID(s,
                            "CUDA text has no attention with rows of %llu elements of %u bytes "
                            "that are not aligned to 4 bytes",
                            (unsigned long long)a->head_size, a->bytes);
    if (!(a->scale > 0) || (float)a->p >= 1.0f)
        return CUDA_INVALID(s, "CUDA text has no attention with scale %g and dropout %g", a->scale,
                            a->p);
    if (a->queries > UINT32_MAX / 4 || a->keys > UINT32_MAX / 4 || a->heads > UINT16_MAX)
        return CUDA_INVALID(s, "%s", "too large for CUDA text");
    return REMAT_OK;
}

/* Common alignment of all rows of heads, at most 16 bytes. */
static uint32_t row_alignment(const struct attention *a, uint32_t alignment)
{
    for (uint32_t o = 0; o < a->operand_count; o++)
        for (uint32_t k = 0; k < 3 && is_heads(a, o); k++)
            while ((uint64_t)a->operands[o].strides[k] * a->bytes % alignment)
                alignment /= 2;
    while (a->head_size * a->bytes % alignment)
        alignment /= 2;
    return alignment;
}

static uint64_t blocks_of(const struct attention *a, enum cuda_shape shape)
{
    uint64_t rows = shape == CUDA_KEYS ? a->keys : a->queries;
    uint64_t heads = a->batch * (shape == CUDA_KEYS ? a->kv_heads : a->heads);
    if (shape == CUDA_DELTA)
        return cuda_divide_up(a->batch * a->heads * a->queries, a->warps);
    return heads * cuda_divide_up(rows, 16 * a->warps * a->strips);
}

/* A block owns as many rows as fit, fewer while there are fewer blocks than a large GPU runs. */
static void choose_tiles(struct attention *a, enum cuda_shape shape,
                         const struct remat_cuda_settings *settings)
{
    a->pitch = 128;
    while (a->pitch < a->head_size * a->bytes)
        a->pitch *= 2;
    a->strips = shape == CUDA_FORWARD && a->pitch == 128 ? 2 : 1;
    a->visited = STAGE_BYTES / a->pitch;
    a->warps = a->pitch > 256 ? OWNED_BYTES / 16 / a->pitch : 8;
    if (shape == CUDA_FORWARD) {
        a->warps = 4;
        a->visited = a->pitch > 256 ? 32 : 64;
    } else if (shape == CUDA_KEYS && a->pitch == 128 && a->p == 0) {
        a->warps = 4; /* 12 warps a multiprocessor in place of 8; with dropout they would spill */
        a->held_blocks = 3;
    }
    while (shape != CUDA_DELTA && a->warps > 1 &&
           blocks_of(a, shape) < settings->threads_wanted / 512)
        a->warps /= 2;
}

static uint32_t tile_bytes(const struct attention *a, enum cuda_shape shape)
{
    uint32_t owned = 16 * a->warps * a->strips * a->pitch, visited = a->visited * a->pitch;
    uint32_t tiles = shape == CUDA_FORWARD   ? owned + 2 * visited
                     : shape == CUDA_QUERIES ? 2 * owned + 4 * visited
                                             : 2 * owned + 4 * visited + 2 * a->visited * 8;
    return shape == CUDA_DELTA ? 0 : tiles + TILE_ALIGNMENT;
}

/* The smallest word of 32 random bits that kernel.h's comparison with p keeps. */
static uint64_t first_kept(float p)
{
    double bound = (double)p * 0x1p24;
    uint64_t below = (uint64_t)bound;
    return (below + ((double)below < bound)) << 8;
}

struct float_text { /* a number as it is written */
    char bits[9], value[32];
};

static struct float_text text_of(float x)
{
    struct float_text text;
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    snprintf(text.bits, sizeof text.bits, "%08x", bits);
    snprintf(text.value, sizeof text.value, "%g", (double)x);
    return text;
}

/* The constant `half` of the text, by dtype. */
enum { HALF_f32, HALF_bf16 = 0, HALF_f16 = 1 };
static bool is_half(uint8_t dtype)
{
    switch (dtype) {
#define FLOAT_DTYPE(NAME, name, ...)                                                               \
    case REMAT_##NAME:                                                                             \
        return HALF_##name;
#include <remat/dtypes.def>
    default:
        return false;
    }
}

static void write_constants(struct cuda_source *s, const struct attention *a)
{
    struct float_text scale = text_of((float)a->scale),
                      factor = text_of((float)(1.0 / (1.0 - a->p)));
    const struct cuda_constant constants[] = {
        {"element_bytes", a->bytes, NULL},
        {"half", is_half(a->operands[a->q].dtype), NULL},
        {"head_size", a->head_size, NULL},
        {"heads", a->heads, NULL},
        {"kv_heads", a->kv_heads, NULL},
        {"queries", a->queries, NULL},
        {"keys", a->keys, NULL},
        {"causal", a->causal, NULL},
        {"depth", cuda_divide_up(a->head_size, 16) * 16, NULL},
        {"pitch", a->pitch, NULL},
        {"copy_bytes", a->copy_bytes, NULL},
        {"warps", a->warps, NULL},
        {"strips", a->strips, NULL},
        {"visited", a->visited, NULL},
        {"drops", a->p > 0, NULL},
        {"kept_from", first_kept((float)a->p), NULL},
        {"query_segments", a->query_segments, NULL},
        {"key_segments", a->key_segments, NULL},
        {"scale_bits", 0, scale.bits},
        {"scale", 0, scale.value},
        {"factor_bits", 0, factor.bits},
        {"factor", 0, factor.value},
    };
    cuda_write_template(s, cuda_body_attention_constants, constants,
                        sizeof constants / sizeof *constants);
}

static void write_operands(struct cuda_source *s, const struct attention *a)
{
    for (uint32_t o = 0; o < a->operand_count; o++) {
        const int64_t *strides = a->operands[o].strides;
        int length;
        const char *name =
            remat_kernel_row_name(a->names, remat_operand_number(a->absent, o), &length);
        if (is_heads(a, o))
            cuda_text(
                s, "const struct heads %.*s = heads_at(arguments.word[%u], %lldu, %lldu, %lldu);",
                length, name, 2 + o, (long long)strides[0] * a->bytes,
                (long long)strides[1] * a->bytes, (long long)strides[2] * a->bytes);
        else
            cuda_text(s, "u8 *const %.*s = (u8 *)arguments.word[%u];", length, name, 2 + o);
    }
    /* After the operands come the four parameters, then the workspace. */
    if (a->q == 1)
        cuda_text(s, "u8 *const delta = (u8 *)arguments.word[%u];", 2 + a->operand_count + 4);
    if (s->shape == CUDA_DELTA)
        return;
    const struct cuda_constant segments[] = {
        {"queries", 0, a->query_segments ? "query_segments" : "(const u8 *)0"},
        {"keys", 0, a->key_segments ? "key_segments" : "(const u8 *)0"}};
    cuda_write_template(s, cuda_body_attention_segments, segments, 2);
    const struct cuda_constant site = {"site_word", 2 + a->operand_count + 3, NULL};
    cuda_write_template(
        s, a->p > 0 ? cuda_body_attention_with_dropout : cuda_body_attention_without_dropout, &site,
        1);
}

static const char *const calls[] = {[CUDA_FORWARD] = cuda_body_attention_forward,
                                    [CUDA_DELTA] = cuda_body_attention_delta,
                                    [CUDA_KEYS] = cuda_body_attention_backward_keys,
                                    [CUDA_QUERIES] = cuda_body_attention_backward_queries};

/* The kernel that the shape says: its body, threads, shared memory and blocks; `s->columns`: the
 * rows whose deltas, f32 each, lie in the workspace. The arguments are the number of probabilities,
 * the columns, the operands, the parameters and, in backward, the workspace. */
static remat_status write_attention(struct cuda_emitter *e, struct cuda_source *s)
{
    struct attention a = read_attention(e, s->command, s->shape != CUDA_FORWARD);
    uint32_t alignment = row_alignment(&a, cuda_alignment(e, s->command));
    REMAT_CHECK(check(s, &a, alignment));
    a.copy_bytes = alignment == 16 ? 16 : 4;
    choose_tiles(&a, s->shape, e->settings);
    s->width = s->shape == CUDA_DELTA ? 4 / a.bytes : a.copy_bytes / a.bytes;
    s->threads = a.warps * 32;
    s->held_blocks = a.held_blocks;
    s->shared_bytes = tile_bytes(&a, s->shape);
    s->rows = a.batch * a.heads * a.queries * a.keys;
    s->columns = a.batch * a.heads * a.queries;
    if (s->shared_bytes)
        cuda_write_template(s, cuda_body_attention_tiles, NULL, 0);
    write_constants(s, &a);
    write_operands(s, &a);
    cuda_write_template(s, calls[s->shape], NULL, 0);
    s->blocks = blocks_of(&a, s->shape);
    return REMAT_OK;
}

static remat_status emit_attention(struct cuda_emitter *e, const struct remat_command *command,
                                   enum cuda_shape shape)
{
    struct cuda_source s = cuda_start_source(e, command, shape);
    if (e->code->prelude_count == 1)
        cuda_add_prelude(e, cuda_attention);
    REMAT_CHECK(write_attention(e, &s));
    REMAT_CHECK(cuda_add_launch(e, &s));
    cuda_add_command_words(e, command);
    if (shape != CUDA_FORWARD) {
        cuda_add_word(e, REMAT_CUDA_WORKSPACE, 0);
        REMAT_CHECK(cuda_use_workspace(
            e, &s, remat_workspace_list_bytes(REMAT_KERNEL_attention_backward, s.columns)));
    }
    return REMAT_OK;
}

remat_status cuda_emit_attention(struct cuda_emitter *e, const struct remat_command *command)
{
    return emit_attention(e, command, CUDA_FORWARD);
}

remat_status cuda_emit_attention_backward(struct cuda_emitter *e,
                                          const struct remat_command *command)
{
    for (enum cuda_shape shape = CUDA_DELTA; shape <= CUDA_QUERIES; shape++)
        REMAT_CHECK(emit_attention(e, command, shape));
    return REMAT_OK;
}
