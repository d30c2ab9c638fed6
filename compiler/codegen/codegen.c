/* SPDX-License-Identifier: Apache-2.0 */
/* Commands to kernels and launches. Texts are compared, so commands that differ in counts,
 * addresses and sites only share a kernel. */
#include "attention.h"
#include "builtin.h"
#include "columns.h"
#include "layout.h"
#include "shapes.h"
#include "source.h"
#include "unwind.h"

enum { SYMBOL_OPS_MAX = 160 };     /* characters */
enum { DIGIT_BITS_MAX = 6 };       /* by which tokens are sorted at once: so many blocks */
#define IDS_MAX (INT64_C(1) << 31) /* of i32: what a table has beyond them is reached by none */

struct emitter {
    remat_context *ctx;
    struct remat_arena *arena, *scratch;
    const struct remat_program *program;
    const struct remat_cuda_settings *settings;
    struct remat_cuda_code *code;
    struct remat_text text; /* of the kernel being written */
    struct REMAT_LIST(struct remat_cuda_kernel) kernels;
    struct REMAT_LIST(uint64_t) hashes; /* hashes of the kernels' bodies */
    struct REMAT_LIST(struct remat_cuda_launch) launches;
    struct REMAT_LIST(struct remat_cuda_word) words;
};

static const char *const shape_names[] = {
    [CUDA_POINTWISE] = "pointwise", [CUDA_TENSORS] = "tensors", [CUDA_TEAM] = "team",
    [CUDA_BLOCK] = "block",         [CUDA_COLUMNS] = "columns", [CUDA_GATHER] = "gather",
    [CUDA_SORT] = "sort",           [CUDA_SCATTER] = "scatter", [CUDA_ITEMS] = "items",
    [CUDA_FORWARD] = "forward",     [CUDA_DELTA] = "delta",     [CUDA_KEYS] = "keys",
    [CUDA_QUERIES] = "queries"};

/* The kernel's name in the plan without its hash, which is of the instructions; so much of it. */
static char *printable_key(struct emitter *e, const struct cuda_source *s, uint64_t hash,
                           size_t most)
{
    const char *key = e->program->kernels[s->command->kernel].key;
    size_t length = strcspn(key, "#");
    return REMAT_FORMAT(e->arena, "%.*s.%s%s.v%u#%016llx", (int)(length < most ? length : most),
                        key, shape_names[s->shape], s->totals ? "_totals" : "", s->width,
                        (unsigned long long)hash);
}

/* The key as a C identifier, cut so that it can be a file's name. */
static const char *symbol_of(struct emitter *e, const struct cuda_source *s, uint64_t hash)
{
    char *symbol = printable_key(e, s, hash, SYMBOL_OPS_MAX);
    for (char *c = symbol; c && *c; c++)
        if ((c == symbol && *c >= '0' && *c <= '9') ||
            !strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_", *c))
            *c = '_';
    return symbol;
}

static void add_kernel(struct emitter *e, const struct cuda_source *s, uint64_t hash,
                       const char *body)
{
    bool tensors = s->shape == CUDA_TENSORS;
    struct remat_cuda_kernel kernel = {.key = printable_key(e, s, hash, INT32_MAX),
                                       .symbol = symbol_of(e, s, hash),
                                       .threads = s->threads ? s->threads : CUDA_THREADS,
                                       .shared_bytes = s->shared_bytes,
                                       .prelude = s->shape >= CUDA_FORWARD,
                                       .tensor_words = tensors ? cuda_tensor_words(s) : 0};
    struct remat_text text = {.arena = e->arena};
    remat_text_append(&text, "\n/* %s */\n%sKERNEL(%s, %u)\n{\n%s}\n", kernel.key,
                      tensors ? "TENSORS_" : "", kernel.symbol, kernel.threads, body);
    remat_text_complete(&text);
    kernel.text = text.items;
    REMAT_PUSH(e->arena, &e->kernels, kernel);
    REMAT_PUSH(e->arena, &e->hashes, hash);
}

static void add_word(struct emitter *e, uint32_t kind, uint64_t value)
{
    REMAT_PUSH(e->arena, &e->words, ((struct remat_cuda_word){kind, value}));
}

static void add_words(struct emitter *e, const struct cuda_source *s)
{
    bool tensors = s->shape == CUDA_TENSORS;
    uint32_t head = tensors ? cuda_head_words(s) : 0;
    uint32_t count = 2 + s->operand_count + s->site_count;
    struct remat_cuda_word words[REMAT_CUDA_WORDS_MAX] = {
        {REMAT_CUDA_VALUE, tensors ? 1 : s->rows}};
    words[head + 1].value = s->columns; /* words[head]: the tensor's first block */
    if (tensors)
        count = head + cuda_tensor_words(s);
    for (uint32_t i = 0; i < s->count; i++) {
        const struct cuda_node *node = &s->nodes[i];
        if (node->access == CUDA_NONE)
            continue;
        const struct cuda_access *access = &s->accesses[node->access];
        words[cuda_word_of(s, access->operand) + (cuda_is_shared(s, access->operand) ? 0 : head)] =
            (struct remat_cuda_word){REMAT_CUDA_ARENA, access->begin_bytes};
        if (cuda_is_random(node))
            words[2 + s->operand_count + node->site] =
                (struct remat_cuda_word){REMAT_CUDA_VALUE, (uint64_t)node->immediate};
    }
    if (s->shape == CUDA_COLUMNS)
        words[count++] = (struct remat_cuda_word){REMAT_CUDA_WORKSPACE, 0};
    for (uint32_t w = 0; w < count; w++)
        REMAT_PUSH(e->arena, &e->words, words[w]);
}

/* The kernel whose body has just been written, and a launch of it. */
static remat_status add_launch(struct emitter *e, struct cuda_source *s)
{
    struct remat_cuda_launch launch = {.blocks = (uint32_t)s->blocks,
                                       .word_begin = (uint32_t)e->words.count};
    remat_text_complete(s->out);
    if (s->blocks > INT32_MAX || (s->shape == CUDA_SORT && s->rows > INT32_MAX))
        return CUDA_INVALID(s, "%s",
                            "too large for CUDA text: fewer rows (--microbatches, "
                            "--loss-chunk) avoid that");
    uint64_t hash = remat_hash(s->out->items, s->out->count, 0);
    while (launch.kernel < e->hashes.count && e->hashes.items[launch.kernel] != hash)
        launch.kernel++;
    if (launch.kernel == e->hashes.count)
        add_kernel(e, s, hash, s->out->items);
    add_words(e, s);
    REMAT_PUSH(e->arena, &e->launches, launch);
    s->out->count = 0;
    return REMAT_OK;
}

/* The command uses so much of the workspace, a multiple of REMAT_ALIGNMENT. */
static remat_status use_workspace(struct emitter *e, const struct cuda_source *s, uint64_t bytes)
{
    uint64_t limit = e->settings->workspace_bytes;
    if (limit && bytes > limit)
        return CUDA_INVALID(s,
                            "its sums need a workspace of %llu B, and the target's has %llu B: "
                            "a larger workspace_bytes in its description avoids that",
                            (unsigned long long)bytes, (unsigned long long)limit);
    if (bytes > e->code->workspace_bytes)
        e->code->workspace_bytes = bytes;
    return REMAT_OK;
}

static struct cuda_source start_source(struct emitter *e, const struct remat_command *command,
                                       enum cuda_shape shape)
{
    e->text = (struct remat_text){.arena = e->scratch};
    return (struct cuda_source){.ctx = e->ctx,
                                .arena = e->scratch,
                                .command = command,
                                .shape = shape,
                                .width = 1,
                                .out = &e->text,
                                .indent = 1,
                                .rows = 1};
}

static remat_status emit_columns(struct emitter *e, struct cuda_source *s)
{
    if (cuda_columns_shared_bytes(s) > REMAT_CUDA_STATIC_MAX)
        return CUDA_INVALID(s, "%s", "too many sums of columns in one kernel of CUDA text");
    REMAT_CHECK(use_workspace(e, s, cuda_columns_workspace_bytes(s)));
    for (uint32_t pass = 0; pass < s->pass_count; pass++) {
        if (!cuda_begin_pass(s, pass))
            continue;
        cuda_write_partial_sums(s, pass);
        REMAT_CHECK(add_launch(e, s));
        if (!cuda_pass_reduces(s, pass))
            continue;
        cuda_write_column_totals(s, pass);
        REMAT_CHECK(add_launch(e, s));
    }
    return REMAT_OK;
}

static remat_status emit_command(struct emitter *e, const struct remat_command *command)
{
    struct cuda_source s = start_source(e, command, CUDA_POINTWISE);
    REMAT_CHECK(cuda_source_read(&s, e->program));
    cuda_choose_layout(&s, e->settings);
    if (s.shape == CUDA_COLUMNS)
        return emit_columns(e, &s);
    if (s.shape == CUDA_TEAM)
        cuda_write_team(&s);
    else if (s.shape == CUDA_BLOCK)
        cuda_write_block(&s);
    else
        cuda_write_pointwise(&s);
    return add_launch(e, &s);
}

/* --- built-in kernels --- */

static const struct remat_operand *operand_of(const struct emitter *e,
                                              const struct remat_command *command, uint32_t index)
{
    return &e->program->operands[command->operand_begin + index];
}

/* Runs `instructions` over the shape of operand 0, as if the plan's command were so. */
static remat_status emit_program(struct emitter *e, const struct remat_command *command,
                                 const struct remat_kernel_body *instructions,
                                 struct remat_operand *operands)
{
    struct remat_kernel kernel = {REMAT_KERNEL_fused, *instructions,
                                  e->program->kernels[command->kernel].key};
    struct remat_command run = {.operand_end = instructions->operand_count,
                                .rank = operands[0].rank,
                                .name = command->name};
    struct remat_program program = *e->program;
    struct emitter running = *e;
    memcpy(run.space, operands[0].shape, sizeof run.space);
    program.kernels = &kernel;
    program.operands = operands;
    running.program = &program;
    remat_status st = emit_command(&running, &run);
    running.program = e->program;
    *e = running;
    return st;
}

/* The bits of `in` to `out`, both over the shape of `in`. */
static remat_status emit_move(struct emitter *e, const struct remat_command *command,
                              const struct remat_operand *in, const struct remat_operand *out)
{
    static const struct remat_instruction instructions[] = {
        {.opcode = REMAT_INSTRUCTION_load,
         .args = {REMAT_NO_REGISTER, REMAT_NO_REGISTER, REMAT_NO_REGISTER}},
        {.opcode = REMAT_INSTRUCTION_store,
         .operand = 1,
         .args = {0, REMAT_NO_REGISTER, REMAT_NO_REGISTER}}};
    struct remat_operand operands[2] = {*in, *out};
    for (uint32_t o = 0; o < 2; o++)
        operands[o].dtype =
            remat_dtype_bytes((remat_dtype)operands[o].dtype) == 2 ? CUDA_WORD16 : REMAT_F32;
    return emit_program(e, command, &(struct remat_kernel_body){2, instructions, 2}, operands);
}

/* An i32 is stored as the f32 that has its bits. */
static remat_status emit_fill(struct emitter *e, const struct remat_command *command,
                              const struct remat_operand *out, double value)
{
    struct remat_instruction instructions[] = {
        {.opcode = REMAT_INSTRUCTION_constant,
         .args = {REMAT_NO_REGISTER, REMAT_NO_REGISTER, REMAT_NO_REGISTER},
         .immediate = (float)value},
        {.opcode = REMAT_INSTRUCTION_store, .args = {0, REMAT_NO_REGISTER, REMAT_NO_REGISTER}}};
    struct remat_operand operand = *out;
    if (out->dtype == REMAT_I32) {
        int32_t integer = (int32_t)value;
        memcpy(&instructions[0].immediate, &integer, sizeof integer);
        operand.dtype = REMAT_F32;
    }
    return emit_program(e, command, &(struct remat_kernel_body){2, instructions, 1}, &operand);
}

/* Each input to its part of the result, from `begin` on along the axis. */
static remat_status emit_parts(struct emitter *e, const struct remat_command *command,
                               uint32_t inputs, uint32_t axis, uint64_t begin)
{
    struct remat_operand part = *operand_of(e, command, inputs);
    for (uint32_t i = 0; i < inputs; i++) {
        const struct remat_operand *in = operand_of(e, command, i);
        part.offset_elements =
            operand_of(e, command, inputs)->offset_elements + begin * (uint64_t)part.strides[axis];
        REMAT_CHECK(emit_move(e, command, in, &part));
        begin += (uint64_t)in->shape[axis];
    }
    return REMAT_OK;
}

static uint64_t bytes_at(const struct emitter *e, const struct remat_operand *operand)
{
    return e->program->buffers[e->program->values[operand->value].buffer].offset_bytes +
           operand->offset_elements * remat_dtype_bytes((remat_dtype)operand->dtype);
}

/* At most `width`: vectors of both tensors are aligned where their rows are. */
static uint32_t embedding_width(const struct emitter *e, const struct remat_operand *table,
                                const struct remat_operand *rows, uint32_t width)
{
    while (width > 1 &&
           (table->shape[1] % width || bytes_at(e, table) % 16 || bytes_at(e, rows) % 16))
        width /= 2;
    return width;
}

/* Sorts the tokens, s->rows, by `ids`, which become the list: two in the workspace take turns. */
static remat_status emit_sort(struct emitter *e, struct cuda_source s, uint64_t table_rows,
                              struct remat_cuda_word *ids)
{
    uint32_t bits = 64 - (uint32_t)__builtin_clzll(table_rows);
    uint32_t digits = (bits + DIGIT_BITS_MAX - 1) / DIGIT_BITS_MAX;
    uint32_t digit_bits = (bits + digits - 1) / digits;
    uint64_t list_bytes = remat_align_up(s.rows * 8, REMAT_ALIGNMENT);
    s.shape = CUDA_SORT;
    s.width = 1;
    s.threads = REMAT_CUDA_THREADS_MAX;
    REMAT_CHECK(use_workspace(e, &s, (digits > 1 ? 2 : 1) * list_bytes));
    for (uint32_t d = 0; d < digits; d++) {
        s.columns = d * digit_bits; /* the lowest bit */
        uint64_t values = (table_rows >> s.columns) + 1, most = UINT64_C(1) << digit_bits;
        cuda_write_sort(&s, table_rows, digit_bits);
        s.blocks = values < most ? values : most;
        REMAT_CHECK(add_launch(e, &s));
        add_word(e, REMAT_CUDA_WORKSPACE, d % 2 * list_bytes);
        add_word(e, ids->kind, ids->value);
        *ids = (struct remat_cuda_word){REMAT_CUDA_WORKSPACE, d % 2 * list_bytes};
    }
    return REMAT_OK;
}

static double parameter_of(const struct emitter *e, const struct remat_command *command, uint32_t p)
{
    return e->program->parameters[command->parameter_begin + p];
}

/* `operands`: of table, ids and rows. */
static remat_status emit_embedding(struct emitter *e, const struct remat_command *command,
                                   bool backward, const uint32_t operands[3])
{
    const struct remat_operand *table = operand_of(e, command, operands[0]),
                               *ids = operand_of(e, command, operands[1]),
                               *rows = operand_of(e, command, operands[2]);
    struct cuda_embedding embedding = {
        table->shape[0] < IDS_MAX ? (uint64_t)table->shape[0] : IDS_MAX, table->dtype, rows->dtype,
        backward && parameter_of(e, command, 0) != 0};
    struct cuda_source s = start_source(e, command, backward ? CUDA_SCATTER : CUDA_GATHER);
    s.width = embedding_width(e, table, rows, backward ? 4 / cuda_dtype_bytes(rows->dtype) : 4);
    s.columns = (uint64_t)table->shape[1];
    for (uint32_t k = 0; k < ids->rank; k++)
        s.rows *= (uint64_t)ids->shape[k];
    struct remat_cuda_word list = {REMAT_CUDA_ARENA, bytes_at(e, ids)};
    s.blocks = cuda_divide_up(s.rows * (s.columns / s.width), CUDA_THREADS);
    if (backward) {
        s.blocks = cuda_divide_up(s.rows, CUDA_RUN_ROWS) * cuda_divide_up(s.columns, 32 * s.width);
        if (!embedding.accumulate)
            REMAT_CHECK(emit_fill(e, command, table, 0));
        REMAT_CHECK(emit_sort(e, s, embedding.table_rows, &list));
        cuda_write_scatter_add(&s, &embedding);
    } else {
        cuda_write_gather(&s, &embedding);
    }
    REMAT_CHECK(add_launch(e, &s));
    add_word(e, REMAT_CUDA_ARENA, bytes_at(e, table));
    add_word(e, list.kind, list.value);
    add_word(e, REMAT_CUDA_ARENA, bytes_at(e, rows));
    return REMAT_OK;
}

/* Words of its own behind those that every launch has. */
static void add_words_of(struct emitter *e, const struct remat_command *command)
{
    for (uint32_t o = command->operand_begin; o < command->operand_end; o++)
        add_word(e, REMAT_CUDA_ARENA, bytes_at(e, &e->program->operands[o]));
    for (uint32_t p = command->parameter_begin; p < command->parameter_end; p++) {
        uint64_t bits;
        memcpy(&bits, &e->program->parameters[p], sizeof bits);
        add_word(e, REMAT_CUDA_VALUE, bits);
    }
    uint32_t kind = e->program->kernels[command->kernel].kind;
    if (kind == REMAT_KERNEL_fill_normal || kind == REMAT_KERNEL_fill_normal_part)
        add_word(e, REMAT_CUDA_SEED, 0);
}

/* Of where the operands begin, at most 16 bytes. */
static uint32_t alignment_of(const struct emitter *e, const struct remat_command *command)
{
    uint32_t alignment = 16;
    for (uint32_t o = command->operand_begin; o < command->operand_end; o++)
        while (bytes_at(e, &e->program->operands[o]) % alignment)
            alignment /= 2;
    return alignment;
}

static remat_status emit_items(struct emitter *e, const struct remat_command *command)
{
    struct cuda_source s = start_source(e, command, CUDA_ITEMS);
    const struct remat_operand *last = &e->program->operands[command->operand_end - 1];
    for (uint32_t k = 0; k < last->rank; k++)
        s.rows *= (uint64_t)last->shape[k];
    if (!cuda_write_items(&s, e->program->kernels[command->kernel].kind, operand_of(e, command, 0),
                          alignment_of(e, command)))
        return remat_error(e->ctx, REMAT_ERROR_INVALID, "kernel %s has no CUDA text",
                           remat_kernel_kind_name(e->program->kernels[command->kernel].kind));
    s.blocks = cuda_divide_up(s.rows, CUDA_THREADS);
    REMAT_CHECK(add_launch(e, &s));
    add_words_of(e, command);
    return REMAT_OK;
}

/* What all kernels begin with, and what some go on with. */
static void add_prelude(struct emitter *e, const char *const *more)
{
    struct remat_text text = {.arena = e->arena};
    for (const char *const *piece = cuda_prelude; *piece; piece++)
        remat_text_append(&text, "%s", *piece);
    for (const char *const *piece = more; piece && *piece; piece++)
        remat_text_append(&text, "%s", *piece);
    remat_text_complete(&text);
    if (!e->code->preludes)
        REMAT_NEW(e->arena, e->code->preludes, 2);
    e->code->preludes[e->code->prelude_count++] = text.items;
}

static remat_status emit_attention(struct emitter *e, const struct remat_command *command,
                                   enum cuda_shape shape)
{
    struct cuda_source s = start_source(e, command, shape);
    if (e->code->prelude_count == 1)
        add_prelude(e, cuda_attention);
    REMAT_CHECK(cuda_write_attention(
        &s, operand_of(e, command, 0), command->operand_end - command->operand_begin,
        &e->program->parameters[command->parameter_begin], alignment_of(e, command), e->settings));
    REMAT_CHECK(add_launch(e, &s));
    add_words_of(e, command);
    if (shape != CUDA_FORWARD) {
        add_word(e, REMAT_CUDA_WORKSPACE, 0);
        REMAT_CHECK(use_workspace(e, &s, remat_align_up(s.columns * 4, REMAT_ALIGNMENT)));
    }
    return REMAT_OK;
}

static remat_status emit_kernel_of(struct emitter *e, const struct remat_command *command)
{
    uint32_t last = command->operand_end - command->operand_begin - 1;
    switch (e->program->kernels[command->kernel].kind) {
    case REMAT_KERNEL_fused:
        return emit_command(e, command);
    case REMAT_KERNEL_copy:
        return emit_move(e, command, operand_of(e, command, 0), operand_of(e, command, 1));
    case REMAT_KERNEL_concat:
        return emit_parts(e, command, last, (uint32_t)parameter_of(e, command, 0), 0);
    case REMAT_KERNEL_pad:
        REMAT_CHECK(emit_fill(e, command, operand_of(e, command, 1), 0));
        return emit_parts(e, command, 1, (uint32_t)parameter_of(e, command, 0),
                          (uint64_t)parameter_of(e, command, 1));
    case REMAT_KERNEL_embedding:
        return emit_embedding(e, command, false, (const uint32_t[]){0, 1, 2});
    case REMAT_KERNEL_embedding_backward:
        return emit_embedding(e, command, true, (const uint32_t[]){2, 1, 0});
    case REMAT_KERNEL_fill:
        return emit_fill(e, command, operand_of(e, command, 0), parameter_of(e, command, 0));
    case REMAT_KERNEL_attention:
        return emit_attention(e, command, CUDA_FORWARD);
    case REMAT_KERNEL_attention_backward:
        for (enum cuda_shape shape = CUDA_DELTA; shape <= CUDA_QUERIES; shape++)
            REMAT_CHECK(emit_attention(e, command, shape));
        return REMAT_OK;
    case REMAT_KERNEL_matmul:   /* cuBLASLt's */
    case REMAT_KERNEL_exchange: /* the engine's, and the next */
    case REMAT_KERNEL_gather:
        return REMAT_OK;
    default:
        return emit_items(e, command);
    }
}

remat_status remat_cuda_emit(remat_context *ctx, struct remat_arena *arena,
                             const struct remat_program *program,
                             const struct remat_cuda_settings *settings,
                             struct remat_cuda_code *out)
{
    remat_status st = REMAT_OK;
    struct emitter e = {
        .ctx = ctx, .arena = arena, .program = program, .settings = settings, .code = out};
    *out = (struct remat_cuda_code){0};
    e.scratch = remat_scratch_open(ctx);
    add_prelude(&e, NULL);
    REMAT_NEW(arena, out->launch_begin, program->command_count + 1);
    for (uint32_t c = 0; c < program->command_count; c++) {
        out->launch_begin[c] = (uint32_t)e.launches.count;
        REMAT_TRY(emit_kernel_of(&e, &program->commands[c]));
        remat_arena_reset(e.scratch);
    }
    out->launch_begin[program->command_count] = (uint32_t)e.launches.count;
    for (size_t l = 0; l < e.launches.count; l++)
        e.launches.items[l].word_end =
            l + 1 < e.launches.count ? e.launches.items[l + 1].word_begin : (uint32_t)e.words.count;
    out->kernels = e.kernels.items, out->kernel_count = (uint32_t)e.kernels.count;
    out->launches = e.launches.items, out->launch_count = (uint32_t)e.launches.count;
    out->words = e.words.items, out->word_count = (uint32_t)e.words.count;
fail:
    remat_scratch_close(e.scratch);
    return st;
}
