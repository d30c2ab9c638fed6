/* SPDX-License-Identifier: Apache-2.0 */
/* Commands to kernels and launches. Texts are compared, so commands that differ in counts,
 * addresses and sites only share a kernel. */
#include "emitter.h"

#include <assert.h>

#include "unwind.h"

enum { SYMBOL_OPS_MAX = 160 }; /* characters */

static const char *const shape_names[] = {
    [CUDA_POINTWISE] = "pointwise", [CUDA_TENSORS] = "tensors", [CUDA_TEAM] = "team",
    [CUDA_BLOCK] = "block",         [CUDA_COLUMNS] = "columns", [CUDA_GATHER] = "gather",
    [CUDA_SORT] = "sort",           [CUDA_SCATTER] = "scatter", [CUDA_ITEMS] = "items",
    [CUDA_FORWARD] = "forward",     [CUDA_DELTA] = "delta",     [CUDA_KEYS] = "keys",
    [CUDA_QUERIES] = "queries"};

/* The kernel's name in the plan without its hash, which is of the instructions; so much of it. */
static char *printable_key(struct cuda_emitter *e, const struct cuda_source *s, uint64_t hash,
                           size_t most)
{
    const char *key = e->program->kernels[s->command->kernel].key;
    size_t length = strcspn(key, "#");
    return REMAT_FORMAT(e->arena, "%.*s.%s%s.v%u#%016llx", (int)(length < most ? length : most),
                        key, shape_names[s->shape], s->totals ? "_totals" : "", s->width,
                        (unsigned long long)hash);
}

/* The key as a C identifier, cut so that it can be a file's name. */
static const char *symbol_of(struct cuda_emitter *e, const struct cuda_source *s, uint64_t hash)
{
    char *symbol = printable_key(e, s, hash, SYMBOL_OPS_MAX);
    for (char *c = symbol; c && *c; c++)
        if ((c == symbol && *c >= '0' && *c <= '9') ||
            !strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_", *c))
            *c = '_';
    return symbol;
}

static void add_kernel(struct cuda_emitter *e, const struct cuda_source *s, uint64_t hash,
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
    remat_text_append(&text, "\n/* %s */\n%sKERNEL(%s, %u", kernel.key, tensors ? "TENSORS_" : "",
                      kernel.symbol, kernel.threads);
    if (s->held_blocks)
        remat_text_append(&text, ", %u", s->held_blocks);
    remat_text_append(&text, ")\n{\n%s}\n", body);
    remat_text_complete(&text);
    kernel.text = text.items;
    REMAT_PUSH(e->arena, &e->kernels, kernel);
    REMAT_PUSH(e->arena, &e->hashes, hash);
}

void cuda_add_word(struct cuda_emitter *e, uint32_t kind, uint64_t value)
{
    REMAT_PUSH(e->arena, &e->words, ((struct remat_cuda_word){kind, value}));
}

static void add_counts_and_operands(struct cuda_emitter *e, const struct cuda_source *s)
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

remat_status cuda_add_launch(struct cuda_emitter *e, struct cuda_source *s)
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
    add_counts_and_operands(e, s);
    REMAT_PUSH(e->arena, &e->launches, launch);
    s->out->count = 0;
    return REMAT_OK;
}

remat_status cuda_use_workspace(struct cuda_emitter *e, const struct cuda_source *s, uint64_t bytes)
{
    assert(bytes % REMAT_ALIGNMENT == 0);
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

struct cuda_source cuda_start_source(struct cuda_emitter *e, const struct remat_command *command,
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

const struct remat_operand *cuda_operand(const struct cuda_emitter *e,
                                         const struct remat_command *command, uint32_t index)
{
    assert(index < command->operand_end - command->operand_begin);
    return &e->program->operands[command->operand_begin + index];
}

uint64_t cuda_operand_begin(const struct cuda_emitter *e, const struct remat_operand *operand)
{
    return e->program->buffers[e->program->values[operand->value].buffer].offset_bytes +
           operand->offset_elements * remat_dtype_bytes((remat_dtype)operand->dtype);
}

bool cuda_has_operand(const struct cuda_emitter *e, const struct remat_command *command,
                      const char *name)
{
    return remat_kernel_operand(e->program->kernels[command->kernel].kind, command->absent,
                                command->operand_end - command->operand_begin, name) != REMAT_NONE;
}

double cuda_parameter(const struct cuda_emitter *e, const struct remat_command *command, uint32_t p)
{
    assert(p < command->parameter_end - command->parameter_begin);
    return e->program->parameters[command->parameter_begin + p];
}

void cuda_add_command_words(struct cuda_emitter *e, const struct remat_command *command)
{
    for (uint32_t o = command->operand_begin; o < command->operand_end; o++)
        cuda_add_word(e, REMAT_CUDA_ARENA, cuda_operand_begin(e, &e->program->operands[o]));
    for (uint32_t p = command->parameter_begin; p < command->parameter_end; p++) {
        uint64_t bits;
        memcpy(&bits, &e->program->parameters[p], sizeof bits);
        cuda_add_word(e, REMAT_CUDA_VALUE, bits);
    }
}

uint32_t cuda_alignment(const struct cuda_emitter *e, const struct remat_command *command)
{
    uint32_t alignment = 16;
    for (uint32_t o = command->operand_begin; o < command->operand_end; o++)
        while (cuda_operand_begin(e, &e->program->operands[o]) % alignment)
            alignment /= 2;
    return alignment;
}

void cuda_add_prelude(struct cuda_emitter *e, const char *const *more)
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

/* --- templates --- */

static const struct cuda_constant *find(const struct cuda_constant *constants, uint32_t count,
                                        const char *name, size_t length)
{
    uint32_t c = 0;
    while (c < count &&
           (strlen(constants[c].name) != length || memcmp(constants[c].name, name, length) != 0))
        c++;
    assert(c < count);
    return &constants[c];
}

void cuda_write_template(struct cuda_source *s, const char *body,
                         const struct cuda_constant *constants, uint32_t count)
{
    size_t length;
    for (; body[length = strcspn(body, "@")]; body += length + 1) {
        remat_text_append(s->out, "%.*s", (int)length, body);
        body += length + 1;
        length = strcspn(body, "@");
        assert(body[length]);
        const struct cuda_constant *constant = find(constants, count, body, length);
        if (constant->text)
            remat_text_append(s->out, "%s", constant->text);
        else
            remat_text_append(s->out, "%llu", (unsigned long long)constant->value);
    }
    remat_text_append(s->out, "%s", body);
}
