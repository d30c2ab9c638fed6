/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a command into nodes: merges axes of the index space as far as strides allow, and finds how
 * each value varies and the first pass in which each instruction can run. */
#include "source.h"

#include "unwind.h"
#include <assert.h>

uint32_t cuda_dtype_bytes(uint8_t dtype)
{
    return dtype == CUDA_WORD16 ? 2 : remat_dtype_bytes((remat_dtype)dtype);
}

const char *cuda_dtype_name(uint8_t dtype)
{
    return dtype == CUDA_WORD16 ? "word16" : remat_dtype_name((remat_dtype)dtype);
}

#define DTYPE(NAME, name, number, bytes, ...)                                                      \
    _Static_assert((bytes) == 2 || (bytes) == 4, "words of so many bytes move " #name);
#include <remat/dtypes.def>

uint8_t cuda_moved_as(uint8_t dtype)
{
    return cuda_dtype_bytes(dtype) == 2 ? CUDA_WORD16 : REMAT_F32;
}

/* --- memory --- */

static remat_status check_operand(const struct cuda_source *s, const struct remat_operand *operand,
                                  const struct cuda_node *node)
{
    bool fixed = cuda_is_random(node) || cuda_is_flag(node);
    bool known = operand->dtype == CUDA_WORD16 || !cuda_is_store(node) ||
                 remat_dtype_is_float((remat_dtype)operand->dtype);
    if (fixed ? operand->dtype != REMAT_I32 : !known)
        return CUDA_INVALID(s, "CUDA text does not %s %s", remat_opcode_name(node->opcode),
                            remat_dtype_name((remat_dtype)operand->dtype));
    if (!fixed && operand->rank != s->command->rank)
        return CUDA_INVALID(s, "operand of rank %u in an index space of rank %u", operand->rank,
                            s->command->rank);
    return REMAT_OK;
}

/* Strides over all axes of the space, as kernel.h defines them. */
static void read_access(const struct cuda_source *s, const struct remat_program *program,
                        const struct cuda_node *node, struct cuda_access *access, int64_t *strides)
{
    const struct remat_command *command = s->command;
    const struct remat_operand *operand =
        &program->operands[command->operand_begin + access->operand];
    const struct remat_buffer *buffer = &program->buffers[program->values[operand->value].buffer];
    enum remat_register_class stored =
        cuda_is_store(node) ? s->nodes[node->args[0]].class : REMAT_CLASS_NONE;
    bool by_row = node->opcode == REMAT_INSTRUCTION_load_row || stored == REMAT_CLASS_ROW;
    bool fixed = cuda_is_random(node) || cuda_is_flag(node);
    uint64_t reach = cuda_is_random(node) ? 3 : 0;
    for (uint32_t k = 0; k < command->rank; k++) {
        bool last = k + 1 == command->rank;
        bool repeats = command->space[k] == 1 || fixed || (last && by_row) ||
                       (!last && stored == REMAT_CLASS_COLUMN);
        strides[k] = repeats ? 0 : operand->strides[k];
        reach += (uint64_t)strides[k] * (uint64_t)(command->space[k] - 1);
    }
    access->dtype = operand->dtype;
    access->bytes = (uint8_t)cuda_dtype_bytes(operand->dtype);
    access->begin_bytes = buffer->offset_bytes + operand->offset_elements * access->bytes;
    access->end_bytes = access->begin_bytes + (reach + 1) * access->bytes;
}

static bool needs_columns(const struct cuda_source *s)
{
    for (uint32_t i = 0; i < s->count; i++)
        if (cuda_is_reduction(&s->nodes[i]) || s->nodes[i].opcode == REMAT_INSTRUCTION_column)
            return true;
    return s->stores_rows;
}

static bool mergeable(const struct cuda_source *s, int64_t (*strides)[REMAT_RANK_MAX],
                      uint32_t outer, uint32_t inner)
{
    for (uint32_t a = 0; a < s->access_count; a++)
        if (strides[a][outer] != strides[a][inner] * s->command->space[inner])
            return false;
    return true;
}

/* Merges axes into as few as the strides allow; the last stays apart where columns mean something.
 */
static void merge_axes(struct cuda_source *s, int64_t (*strides)[REMAT_RANK_MAX])
{
    uint32_t axes[REMAT_RANK_MAX], count = 0, rank = s->command->rank;
    int64_t lengths[REMAT_RANK_MAX];
    bool keep = needs_columns(s);
    for (uint32_t k = 0; k < rank; k++) {
        bool last = keep && k + 1 == rank;
        if (s->command->space[k] == 1 && !last)
            continue;
        if (count && !last && mergeable(s, strides, axes[count - 1], k)) {
            axes[count - 1] = k;
            lengths[count - 1] *= s->command->space[k];
            continue;
        }
        axes[count] = k;
        lengths[count++] = s->command->space[k];
    }
    s->row_axes = count ? count - 1 : 0;
    s->columns = count ? (uint64_t)lengths[count - 1] : 1;
    s->rows = 1;
    for (uint32_t k = 0; k < s->row_axes; k++) {
        s->axes[k] = lengths[k];
        s->rows *= (uint64_t)lengths[k];
    }
    for (uint32_t a = 0; a < s->access_count; a++) {
        for (uint32_t k = 0; k < s->row_axes; k++) {
            s->accesses[a].strides[k] = strides[a][axes[k]];
            s->accesses[a].by_row |= strides[a][axes[k]] != 0;
        }
        if (s->columns > 1)
            s->accesses[a].column_stride = strides[a][axes[count - 1]];
    }
}

static bool is_persistent(const struct cuda_source *s, const struct remat_program *program,
                          uint32_t operand)
{
    const struct remat_operand *o = &program->operands[s->command->operand_begin + operand];
    return program->buffers[program->values[o->value].buffer].persistent;
}

static remat_status read_instructions(struct cuda_source *s, const struct remat_program *program)
{
    const struct remat_kernel_body *kernel = &program->kernels[s->command->kernel].body;
    enum remat_register_class *classes;
    int64_t(*strides)[REMAT_RANK_MAX];
    s->count = kernel->instruction_count;
    s->operand_count = kernel->operand_count;
    s->lasting = true;
    REMAT_NEW(s->arena, classes, s->count);
    REMAT_NEW(s->arena, strides, s->count);
    REMAT_NEW(s->arena, s->nodes, s->count);
    REMAT_NEW(s->arena, s->accesses, s->count);
    REMAT_CHECK(remat_kernel_body_check(s->ctx, kernel, s->command->name, classes));
    for (uint32_t i = 0; i < s->count; i++) {
        const struct remat_instruction *in = &kernel->instructions[i];
        struct cuda_node *node = &s->nodes[i];
        *node = (struct cuda_node){.opcode = in->opcode,
                                   .args = {in->args[0], in->args[1], in->args[2]},
                                   .access = CUDA_NONE,
                                   .place = CUDA_NONE,
                                   .immediate = in->immediate,
                                   .class = classes[i]};
        if (!cuda_is_load(node) && !cuda_is_store(node) && !cuda_is_random(node))
            continue;
        REMAT_CHECK(
            check_operand(s, &program->operands[s->command->operand_begin + in->operand], node));
        if (cuda_is_random(node))
            node->site = (uint16_t)s->site_count++;
        node->access = (uint16_t)s->access_count++;
        s->accesses[node->access].operand = in->operand;
        read_access(s, program, node, &s->accesses[node->access], strides[node->access]);
        s->lasting &= !cuda_is_store(node) || is_persistent(s, program, in->operand);
        s->stores_rows |= cuda_is_store(node) && classes[in->args[0]] == REMAT_CLASS_ROW;
    }
    merge_axes(s, strides);
    return REMAT_OK;
}

/* --- what varies with what --- */

static enum cuda_variation combined_variation(enum cuda_variation x, enum cuda_variation y)
{
    if (x == y || y == CUDA_UNIFORM)
        return x;
    return x == CUDA_UNIFORM ? y : CUDA_BY_ELEMENT;
}

static enum cuda_variation variation_of(const struct cuda_source *s, const struct cuda_node *node)
{
    if (cuda_is_load(node)) {
        const struct cuda_access *access = &s->accesses[node->access];
        if (access->column_stride)
            return CUDA_BY_ELEMENT;
        return access->by_row ? CUDA_BY_ROW : CUDA_UNIFORM;
    }
    if (node->opcode == REMAT_INSTRUCTION_column || cuda_is_random(node))
        return CUDA_BY_ELEMENT;
    if (cuda_is_reduction(node))
        return remat_opcode_is_column_reduction(node->opcode) ? CUDA_BY_COLUMN : CUDA_BY_ROW;
    enum cuda_variation result = CUDA_UNIFORM;
    for (uint32_t k = 0; k < cuda_arity(node); k++)
        result = combined_variation(result, s->nodes[node->args[k]].variation);
    return result;
}

/* --- when an instruction runs --- */

static bool overlap(const struct cuda_access *x, const struct cuda_access *y)
{
    return x->begin_bytes < y->end_bytes && y->begin_bytes < x->end_bytes;
}

static bool is_over_a_load(const struct cuda_source *s, const struct cuda_node *store,
                           enum cuda_variation most)
{
    for (uint32_t i = 0; i < s->count; i++)
        if (cuda_is_load(&s->nodes[i]) && s->nodes[i].variation <= most &&
            overlap(&s->accesses[s->nodes[i].access], &s->accesses[store->access]))
            return true;
    return false;
}

static void assign_passes(struct cuda_source *s)
{
    for (uint32_t i = 0; i < s->count; i++) {
        struct cuda_node *node = &s->nodes[i];
        for (uint32_t k = 0; k < cuda_arity(node); k++) {
            const struct cuda_node *arg = &s->nodes[node->args[k]];
            node->pass = cuda_made_after(arg) > node->pass ? cuda_made_after(arg) : node->pass;
        }
        node->variation = variation_of(s, node);
        enum remat_register_class stored =
            cuda_is_store(node) ? s->nodes[node->args[0]].class : REMAT_CLASS_NONE;
        node->by_element = cuda_is_store(node)
                               ? stored == REMAT_CLASS_ELEMENT || stored == REMAT_CLASS_CONSTANT
                               : node->variation == CUDA_BY_ELEMENT || cuda_is_reduction(node);
    }
    for (uint32_t i = s->count; i-- > 0;) {
        struct cuda_node *node = &s->nodes[i];
        node->live |= cuda_is_store(node);
        if (!node->live)
            continue;
        s->draws_random |= cuda_is_random(node);
        s->pass_count = node->pass + 1 > s->pass_count ? node->pass + 1 : s->pass_count;
        for (uint32_t k = 0; k < cuda_arity(node); k++)
            s->nodes[node->args[k]].live = true;
    }
    for (uint32_t i = 0; i < s->count; i++) {
        struct cuda_node *node = &s->nodes[i];
        for (uint32_t j = 0; j < i; j++)
            node->order += cuda_reduces_in(&s->nodes[j], node->pass);
        if (cuda_reduces_in(&s->nodes[i], node->pass) && node->order >= s->most_reductions)
            s->most_reductions = node->order + 1;
        if (!cuda_is_store(node))
            continue;
        s->over_shared_load |= is_over_a_load(s, node, CUDA_BY_ROW);
        /* In place every element is loaded before it is stored: it waits for the last pass. */
        if (node->by_element && is_over_a_load(s, node, CUDA_BY_ELEMENT))
            node->pass = s->pass_count - 1;
    }
}

bool cuda_begin_pass(struct cuda_source *s, uint32_t pass)
{
    assert(pass < s->pass_count);
    bool by_columns = s->shape == CUDA_COLUMNS, any = false;
    for (uint32_t i = 0; i < s->count; i++) {
        struct cuda_node *node = &s->nodes[i];
        node->ready |= node->runs && node->kept;
        node->runs = node->live && node->pass == pass && node->by_element &&
                     (cuda_is_store(node) || cuda_is_reduction(node));
        if (by_columns && cuda_is_store(node) && s->nodes[node->args[0]].class == REMAT_CLASS_ROW)
            node->runs = pass + 1 == s->pass_count;
        any |= node->runs;
    }
    for (uint32_t i = s->count; i-- > 0;) {
        const struct cuda_node *node = &s->nodes[i];
        for (uint32_t k = 0; node->runs && k < cuda_arity(node); k++) {
            struct cuda_node *arg = &s->nodes[node->args[k]];
            bool again =
                arg->variation == CUDA_BY_ELEMENT || (by_columns && arg->variation == CUDA_BY_ROW);
            arg->runs |= again && !cuda_is_reduction(arg) && !arg->ready;
        }
    }
    return any;
}

bool cuda_reduces_in(const struct cuda_node *node, uint32_t pass)
{
    return node->live && cuda_is_reduction(node) && node->pass == pass;
}

bool cuda_pass_reduces(const struct cuda_source *s, uint32_t pass)
{
    for (uint32_t i = 0; i < s->count; i++)
        if (cuda_reduces_in(&s->nodes[i], pass))
            return true;
    return false;
}

remat_status cuda_source_read(struct cuda_source *out, const struct remat_program *program)
{
    REMAT_CHECK(read_instructions(out, program));
    /* Up to here at most CUDA_THREADS * 8 beyond an end is computed with in 32 bits. */
    if (out->rows > UINT32_MAX - 65536 || out->columns > UINT32_MAX - 65536)
        return CUDA_INVALID(out, "%llu rows of %llu elements are too many for CUDA text",
                            (unsigned long long)out->rows, (unsigned long long)out->columns);
    if (2 + out->operand_count + out->site_count + 1 > REMAT_CUDA_WORDS_MAX)
        return CUDA_INVALID(out, "%u operands and %u sites are too many for CUDA text",
                            out->operand_count, out->site_count);
    assign_passes(out);
    return REMAT_OK;
}

/* --- arguments of a launch of CUDA_TENSORS --- */

bool cuda_is_shared(const struct cuda_source *s, uint32_t operand)
{
    for (uint32_t i = 0; i < s->count; i++) {
        const struct cuda_node *node = &s->nodes[i];
        if (node->access != CUDA_NONE && s->accesses[node->access].operand == operand &&
            !cuda_is_flag(node) && (!cuda_is_load(node) || s->accesses[node->access].column_stride))
            return false;
    }
    return true;
}

static uint32_t shared_before(const struct cuda_source *s, uint32_t operand)
{
    uint32_t count = 0;
    for (uint32_t o = 0; o < operand; o++)
        count += cuda_is_shared(s, o);
    return count;
}

uint32_t cuda_head_words(const struct cuda_source *s)
{
    return 1 + shared_before(s, s->operand_count);
}

uint32_t cuda_tensor_words(const struct cuda_source *s)
{
    return 2 + s->operand_count - shared_before(s, s->operand_count);
}

uint32_t cuda_word_of(const struct cuda_source *s, uint32_t operand)
{
    assert(operand < s->operand_count);
    if (s->shape != CUDA_TENSORS)
        return 2 + operand;
    uint32_t shared = shared_before(s, operand);
    return cuda_is_shared(s, operand) ? 1 + shared : 2 + operand - shared;
}
