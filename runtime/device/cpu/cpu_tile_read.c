/* SPDX-License-Identifier: Apache-2.0 */
/* The index space of a fused kernel: strides of its operands over as few axes as they allow. */
#include "cpu_tile_builder.h"

#define PREFETCH_BYTES                                                                             \
    (32u << 20) /* operands at least this large are prefetched: no cache has them */

#define DTYPE(NAME, name, number, bytes, ...)                                                      \
    _Static_assert((bytes) == 2 || (bytes) == 4, "words of so many bytes move " #name);
#include <remat/dtypes.def>

/* Strides of one memory instruction over the axes of the space, as kernel.h defines them. */
static void fill_access(const struct remat_program *program, const struct cpu_tile_source *source,
                        const struct remat_instruction *instruction, const struct node *arg,
                        struct access *access, int64_t *strides)
{
    const struct remat_operand *operand = &source->operands[instruction->operand];
    const struct remat_buffer *buffer = &program->buffers[program->values[operand->value].buffer];
    uint32_t bytes = remat_dtype_bytes(operand->dtype);
    int last = (int)source->rank - 1;
    bool random = instruction->opcode == REMAT_INSTRUCTION_random;
    bool fixed = random || instruction->opcode == REMAT_INSTRUCTION_flag;
    for (int k = 0; k <= last; k++)
        strides[k] = source->space[k] == 1 || fixed ? 0 : operand->strides[k];
    bool by_row =
        instruction->opcode == REMAT_INSTRUCTION_load_row || (arg && arg->class == REMAT_CLASS_ROW);
    if (by_row && last >= 0)
        strides[last] = 0;
    if (arg && arg->class == REMAT_CLASS_COLUMN)
        for (int k = 0; k < last; k++)
            strides[k] = 0;
    access->type = operand->dtype;
    access->bytes = (uint8_t)bytes;
    if (source->words)
        access->type = bytes == 2 ? CPU_TILE_WORD16 : REMAT_F32;
    access->offset_bytes = buffer->offset_bytes + operand->offset_elements * bytes;
    uint64_t reach = 0;
    for (int k = 0; k <= last; k++)
        reach += (uint64_t)strides[k] * (uint64_t)(source->space[k] - 1);
    access->begin_bytes = access->offset_bytes;
    access->end_bytes = access->offset_bytes + (random ? 4 : reach + 1) * bytes;
    access->prefetch = access->end_bytes - access->begin_bytes >= PREFETCH_BYTES;
}

/* Whether what runs along the last axis is more than a list of elements. */
static bool needs_columns(const struct cpu_tile_builder *b)
{
    for (uint32_t i = 0; i < b->count; i++) {
        const struct node *node = &b->nodes[i];
        if (is_reduction(node) || node->opcode == REMAT_INSTRUCTION_column)
            return true;
        if (is_store(node) && b->nodes[node->args[0]].class == REMAT_CLASS_ROW)
            return true;
    }
    return false;
}

static bool mergeable(uint32_t accesses, int64_t (*strides)[REMAT_RANK_MAX], int outer, int inner,
                      int64_t length)
{
    for (uint32_t a = 0; a < accesses; a++)
        if (strides[a][outer] != strides[a][inner] * length)
            return false;
    return true;
}

/* Merges axes into as few as the strides allow: long rows without columns to keep, few row axes. */
static void collapse(struct cpu_tile_builder *b, const struct cpu_tile_source *source,
                     int64_t (*strides)[REMAT_RANK_MAX])
{
    struct cpu_tile *tile = b->tile;
    bool keep = needs_columns(b);
    int axes[REMAT_RANK_MAX], count = 0;
    int64_t lengths[REMAT_RANK_MAX];
    for (int k = 0; k < (int)source->rank; k++) {
        bool last = keep && k == (int)source->rank - 1;
        if (source->space[k] == 1 && !last)
            continue;
        if (count && !last &&
            mergeable(tile->access_count, strides, axes[count - 1], k, source->space[k])) {
            axes[count - 1] = k; /* the stride of the merged axis is the inner one's */
            lengths[count - 1] *= source->space[k];
            continue;
        }
        axes[count] = k;
        lengths[count++] = source->space[k];
    }
    int inner = count - 1;
    tile->row_axes = count ? (uint32_t)inner : 0;
    tile->columns = count ? lengths[inner] : 1;
    tile->rows = 1;
    for (int k = 0; k < inner; k++)
        tile->rows *= tile->axes[k] = lengths[k];
    for (uint32_t a = 0; a < tile->access_count; a++) {
        struct access *access = &tile->accesses[a];
        int64_t bytes = access->bytes;
        for (int k = 0; k < inner; k++)
            access->row_bytes[k] = strides[a][axes[k]] * bytes;
        if (tile->columns > 1)
            access->column_stride = strides[a][axes[inner]];
        access->column_bytes = access->column_stride * bytes;
        access->tile_bytes = CPU_TILE * access->column_bytes;
        access->prefetch &= access->column_stride == 1;
        tile->prefetches |= access->prefetch;
        if (access->column_stride)
            tile->moving[tile->moving_count++] = (uint16_t)a;
    }
}

static remat_status check_operands(remat_context *ctx, const struct cpu_tile_source *source)
{
    if (source->kernel->operand_count > source->operand_count)
        return remat_error(ctx, REMAT_ERROR_INVALID,
                           "command \"%s\": %u operands, its fused kernel has %u", source->name,
                           source->operand_count, source->kernel->operand_count);
    for (uint32_t i = 0; i < source->kernel->instruction_count; i++) {
        const struct remat_instruction *in = &source->kernel->instructions[i];
        const struct remat_operand *operand = &source->operands[in->operand];
        bool random = in->opcode == REMAT_INSTRUCTION_random;
        bool flag = in->opcode == REMAT_INSTRUCTION_flag;
        bool memory = in->opcode == REMAT_INSTRUCTION_load ||
                      in->opcode == REMAT_INSTRUCTION_load_row ||
                      in->opcode == REMAT_INSTRUCTION_store;
        if (memory && operand->rank != source->rank)
            return remat_error(ctx, REMAT_ERROR_INVALID,
                               "command \"%s\": operand %u has rank %u, its index space %u",
                               source->name, in->operand, operand->rank, source->rank);
        if ((random || flag) && operand->dtype != REMAT_I32)
            return remat_error(ctx, REMAT_ERROR_INVALID, "command \"%s\": operand %u is no %s, i32",
                               source->name, in->operand, random ? "random state" : "flag");
    }
    return REMAT_OK;
}

/* A store into a rounded dtype rounds by itself what was to be rounded first. */
static void drop_roundings(struct cpu_tile_builder *b)
{
    for (uint32_t i = 0; i < b->count; i++) {
        struct node *node = &b->nodes[i];
        if (is_store(node) &&
            b->nodes[node->args[0]].opcode ==
                remat_dtype_rounding((remat_dtype)b->tile->accesses[node->access].type))
            node->args[0] = b->nodes[node->args[0]].args[0];
    }
}

remat_status cpu_tile_read(struct cpu_tile_builder *b, const struct remat_program *program,
                           const struct cpu_tile_source *source)
{
    remat_status st = REMAT_OK;
    const struct remat_kernel_body *kernel = source->kernel;
    struct cpu_tile *tile = b->tile;
    enum remat_register_class *classes;
    int64_t(*strides)[REMAT_RANK_MAX];
    b->count = kernel->instruction_count;
    REMAT_TRY_NEW(&b->scratch, classes, b->count);
    REMAT_TRY_NEW(&b->scratch, b->nodes, b->count);
    REMAT_TRY_NEW(&b->scratch, strides, b->count);
    REMAT_TRY_NEW(b->arena, tile->accesses, b->count);
    REMAT_TRY_NEW(b->arena, tile->moving, b->count);
    REMAT_TRY(remat_kernel_body_check(b->ctx, kernel, source->name, classes));
    REMAT_TRY(check_operands(b->ctx, source));
    for (uint32_t i = 0; i < b->count; i++) {
        const struct remat_instruction *in = &kernel->instructions[i];
        struct node *node = &b->nodes[i];
        *node = (struct node){.opcode = in->opcode, .immediate = in->immediate};
        node->class = classes[i];
        memcpy(node->args, in->args, sizeof node->args);
        if (!is_load(node) && !is_store(node) && !is_random(node))
            continue;
        node->access = (uint16_t)tile->access_count++;
        struct access *access = &tile->accesses[node->access];
        fill_access(program, source, in, is_store(node) ? &b->nodes[in->args[0]] : NULL, access,
                    strides[node->access]);
        if (!is_flag(node) && (is_store(node) ? !tile->table->stores[access->type]
                                              : !tile->table->loads[access->type]))
            REMAT_FAIL(b->ctx, REMAT_ERROR_INVALID, "command \"%s\": the cpu device does not %s %s",
                       source->name, remat_opcode_name(in->opcode),
                       remat_dtype_name(source->operands[in->operand].dtype));
    }
    collapse(b, source, strides);
    tile->column_block_rows = remat_column_block_rows(
        (uint64_t)tile->rows, (uint64_t)tile->columns,
        b->options->column_sums ? b->options->column_sums : REMAT_COLUMN_SUMS);
    drop_roundings(b);
fail:
    return st;
}
