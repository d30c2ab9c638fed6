/* SPDX-License-Identifier: Apache-2.0 */
/* Opcode and built-in-kernel tables, the check of untrusted fused kernels, and their text. */
#include "kernel.h"

#include <assert.h>

static const struct {
    const char *name;
    uint16_t arity, flops;
} opcodes[REMAT_INSTRUCTION_COUNT] = {
#define INSTRUCTION(name, arity, flops, text) {#name, arity, flops},
#include "instructions.def"
#undef INSTRUCTION
};

const char *remat_opcode_name(uint16_t opcode)
{
    return opcode < REMAT_INSTRUCTION_COUNT ? opcodes[opcode].name : NULL;
}

uint32_t remat_opcode_arity(uint16_t opcode)
{
    return opcode < REMAT_INSTRUCTION_COUNT ? opcodes[opcode].arity : 0;
}

uint32_t remat_opcode_flops(uint16_t opcode)
{
    return opcode < REMAT_INSTRUCTION_COUNT ? opcodes[opcode].flops : 0;
}

uint16_t remat_dtype_rounding(remat_dtype dtype)
{
    switch (dtype) {
#define ROUNDED_DTYPE(NAME, name, ...)                                                             \
    case REMAT_##NAME:                                                                             \
        return REMAT_INSTRUCTION_round_##name;
#include <remat/dtypes.def>
    default:
        return REMAT_INSTRUCTION_COUNT;
    }
}

bool remat_opcode_has_result(uint16_t opcode)
{
    return opcode != REMAT_INSTRUCTION_store && opcode != REMAT_INSTRUCTION_flag;
}

bool remat_opcode_is_row_reduction(uint16_t opcode)
{
    return opcode == REMAT_INSTRUCTION_row_sum || opcode == REMAT_INSTRUCTION_row_max;
}

bool remat_opcode_is_column_reduction(uint16_t opcode)
{
    return opcode == REMAT_INSTRUCTION_column_sum;
}

bool remat_opcode_is_reduction(uint16_t opcode)
{
    return remat_opcode_is_row_reduction(opcode) || remat_opcode_is_column_reduction(opcode);
}

uint32_t remat_column_block_rows(uint64_t rows, uint64_t columns, uint64_t sums)
{
    uint64_t shortest = (rows + 255) / 256, most = columns < sums ? sums / (columns + !columns) : 1;
    uint64_t length = (shortest + most - 1) / most;
    return (uint32_t)(256 * (length ? length : 1));
}

static bool has_operand(uint16_t opcode)
{
    return opcode == REMAT_INSTRUCTION_load || opcode == REMAT_INSTRUCTION_load_row ||
           opcode == REMAT_INSTRUCTION_random || !remat_opcode_has_result(opcode);
}

static enum remat_register_class class_of_both(enum remat_register_class a,
                                               enum remat_register_class b)
{
    if (a == b || b == REMAT_CLASS_CONSTANT)
        return a;
    return a == REMAT_CLASS_CONSTANT ? b : REMAT_CLASS_ELEMENT;
}

enum remat_register_class remat_instruction_class(const struct remat_instruction *instruction,
                                                  const enum remat_register_class *classes)
{
    switch (instruction->opcode) {
    case REMAT_INSTRUCTION_store:
    case REMAT_INSTRUCTION_flag:
        return REMAT_CLASS_NONE;
    case REMAT_INSTRUCTION_load:
    case REMAT_INSTRUCTION_column:
    case REMAT_INSTRUCTION_random:
        return REMAT_CLASS_ELEMENT;
    case REMAT_INSTRUCTION_load_row:
    case REMAT_INSTRUCTION_row_sum:
    case REMAT_INSTRUCTION_row_max:
        return REMAT_CLASS_ROW;
    case REMAT_INSTRUCTION_column_sum:
        return REMAT_CLASS_COLUMN;
    default:
        break;
    }
    enum remat_register_class result = REMAT_CLASS_CONSTANT;
    for (uint32_t k = 0; k < remat_opcode_arity(instruction->opcode); k++)
        result = class_of_both(result, classes[instruction->args[k]]);
    return result;
}

static bool is_site(float immediate)
{
    return immediate >= 0 && immediate < REMAT_SITES && immediate == (float)(uint32_t)immediate;
}

static remat_status check_arguments(remat_context *ctx, const struct remat_kernel_body *body,
                                    uint32_t index, const char *where,
                                    const enum remat_register_class *classes)
{
    const struct remat_instruction *instruction = &body->instructions[index];
    if (instruction->opcode >= REMAT_INSTRUCTION_COUNT)
        return remat_error(ctx, REMAT_ERROR_INVALID, "%s: instruction %u: unknown opcode %u", where,
                           index, instruction->opcode);
    const char *name = opcodes[instruction->opcode].name;
    for (uint32_t k = 0; k < 3; k++) {
        uint16_t arg = instruction->args[k];
        if (k >= opcodes[instruction->opcode].arity) {
            if (arg != REMAT_NO_REGISTER)
                return remat_error(ctx, REMAT_ERROR_INVALID,
                                   "%s: instruction %u (%s): argument %u, expected %u arguments",
                                   where, index, name, k, opcodes[instruction->opcode].arity);
        } else if (arg >= index) {
            return remat_error(ctx, REMAT_ERROR_INVALID,
                               "%s: instruction %u (%s): argument %u is register %u, which is not "
                               "defined yet",
                               where, index, name, k, arg);
        } else if (classes[arg] == REMAT_CLASS_NONE) {
            return remat_error(ctx, REMAT_ERROR_INVALID,
                               "%s: instruction %u (%s): argument %u is register %u, a %s", where,
                               index, name, k, arg, opcodes[body->instructions[arg].opcode].name);
        } else if (classes[arg] == REMAT_CLASS_COLUMN &&
                   remat_opcode_is_column_reduction(instruction->opcode)) {
            return remat_error(ctx, REMAT_ERROR_INVALID,
                               "%s: instruction %u (%s): its argument is reduced already", where,
                               index, name);
        }
    }
    if (has_operand(instruction->opcode) && instruction->operand >= body->operand_count)
        return remat_error(ctx, REMAT_ERROR_INVALID,
                           "%s: instruction %u (%s): operand %u of %u operands", where, index, name,
                           instruction->operand, body->operand_count);
    if (instruction->opcode == REMAT_INSTRUCTION_random && !is_site(instruction->immediate))
        return remat_error(ctx, REMAT_ERROR_INVALID,
                           "%s: instruction %u (%s): %g is no site, a whole number below %d", where,
                           index, name, (double)instruction->immediate, REMAT_SITES);
    return REMAT_OK;
}

remat_status remat_kernel_body_check(remat_context *ctx, const struct remat_kernel_body *body,
                                     const char *where, enum remat_register_class *classes)
{
    remat_status st = REMAT_OK;
    struct remat_arena scratch;
    remat_arena_init(&scratch, ctx);
    bool rows = false, columns = false;
    if (body->instruction_count >= REMAT_NO_REGISTER)
        REMAT_FAIL(ctx, REMAT_ERROR_INVALID, "%s: %u instructions, the limit is %u", where,
                   body->instruction_count, REMAT_NO_REGISTER - 1);
    if (!classes)
        REMAT_TRY_NEW(&scratch, classes, body->instruction_count);
    for (uint32_t i = 0; i < body->instruction_count; i++) {
        const struct remat_instruction *instruction = &body->instructions[i];
        REMAT_TRY(check_arguments(ctx, body, i, where, classes));
        classes[i] = remat_instruction_class(instruction, classes);
        rows |= remat_opcode_is_row_reduction(instruction->opcode);
        columns |= remat_opcode_is_column_reduction(instruction->opcode);
        if (rows && columns)
            REMAT_FAIL(ctx, REMAT_ERROR_INVALID,
                       "%s: instruction %u (%s): row and column reductions in one program", where,
                       i, opcodes[instruction->opcode].name);
    }
fail:
    remat_arena_release(&scratch);
    return st;
}

void remat_kernel_body_print(const struct remat_kernel_body *body, struct remat_text *out)
{
    for (uint32_t i = 0; i < body->instruction_count; i++) {
        const struct remat_instruction *instruction = &body->instructions[i];
        uint16_t opcode = instruction->opcode;
        if (remat_opcode_has_result(opcode))
            remat_text_append(out, "r%u = ", i);
        remat_text_append(out, "%s", opcode < REMAT_INSTRUCTION_COUNT ? opcodes[opcode].name : "?");
        if (has_operand(opcode))
            remat_text_append(out, " [%u]", instruction->operand);
        if (opcode == REMAT_INSTRUCTION_constant || opcode == REMAT_INSTRUCTION_random)
            remat_text_append(out, " %.9g", (double)instruction->immediate);
        for (uint32_t k = 0; k < remat_opcode_arity(opcode); k++)
            remat_text_append(out, " r%u", instruction->args[k]);
        remat_text_append(out, "\n");
    }
}

static const struct remat_kernel_row rows[REMAT_KERNEL_KIND_COUNT + 1] = {
    [REMAT_KERNEL_fused] = {.name = "program",
                            .operands_max = UINT16_MAX,
                            .operands = "",
                            .dtypes = "",
                            .access = "",
                            .layouts = "",
                            .shapes = "",
                            .parameters = ""},
#define BUILTIN_KERNEL(name, dispatch, ...)                                                        \
    [REMAT_KERNEL_##name] = {#name, REMAT_DISPATCH_##dispatch, __VA_ARGS__},
#include "builtin_kernels.def"
#undef BUILTIN_KERNEL
    [REMAT_KERNEL_foreign] = {.name = "foreign",
                              .operands_max = UINT16_MAX,
                              .operands = "",
                              .dtypes = "",
                              .access = "",
                              .layouts = "",
                              .shapes = "",
                              .parameters = "flops bytes launches ns",
                              .arithmetic = REMAT_ARITHMETIC_FOREIGN},
};

const struct remat_kernel_row *remat_kernel_row(uint32_t kind)
{
    assert(kind <= REMAT_KERNEL_foreign);
    return &rows[kind];
}

uint32_t remat_operand_number(uint32_t absent, uint32_t position)
{
    uint32_t number = 0;
    for (; absent; absent >>= 1, number++)
        if (!(absent & 1) && position-- == 0)
            return number;
    return number + position;
}

uint32_t remat_operand_position(uint32_t absent, uint32_t count, uint32_t number)
{
    for (uint32_t position = 0; position < count; position++)
        if (remat_operand_number(absent, position) == number)
            return position;
    return REMAT_NONE;
}

uint32_t remat_kernel_operand(uint32_t kind, uint32_t absent, uint32_t count, const char *name)
{
    const char *names = remat_kernel_row(kind)->operands, *given;
    uint32_t number = 0;
    int length;
    while ((given = remat_kernel_row_name(names, number, &length)) &&
           ((size_t)length != strlen(name) || memcmp(given, name, (size_t)length) != 0))
        number++;
    assert(given);
    return remat_operand_position(absent, count, number);
}

uint32_t remat_kernel_row_letter(const struct remat_kernel_row *row, uint32_t absent,
                                 uint32_t position, uint32_t count)
{
    uint32_t letters = (uint32_t)strlen(row->dtypes), more = count > letters ? count - letters : 0;
    uint32_t number = remat_operand_number(absent, position);
    return number < more ? 0 : number - more;
}

bool remat_kernel_row_optional(const struct remat_kernel_row *row, uint32_t number)
{
    int length;
    const char *shape = remat_kernel_row_name(row->shapes, number, &length);
    return shape && shape[length - 1] == '?';
}

static bool is_contiguous(uint32_t rank, const int64_t *shape, const int64_t *strides)
{
    uint64_t stride = 1;
    for (uint32_t d = rank; d-- > 0; stride *= (uint64_t)shape[d])
        if (shape[d] > 1 && (uint64_t)strides[d] != stride)
            return false;
    return true;
}

bool remat_layout_has(char layout, uint32_t rank, const int64_t *shape, const int64_t *strides)
{
    assert(rank <= REMAT_RANK_MAX);
    uint32_t last = rank - 1;
    bool by_row = rank == 0 || shape[last] == 1 || strides[last] == 1;
    switch (layout) {
    case 's':
        return true;
    case 'm':
        return by_row || (rank > 1 && (shape[last - 1] == 1 || strides[last - 1] == 1));
    case 'r':
        return by_row;
    case 'p':
        return is_contiguous(rank, shape, strides) ||
               (rank == 2 && by_row && strides[0] >= shape[1]);
    default:
        return is_contiguous(rank, shape, strides);
    }
}

const char *remat_kernel_row_name(const char *names, uint32_t index, int *length)
{
    for (; *names && index; index--) {
        names += strcspn(names, " ");
        names += *names == ' ';
    }
    *length = (int)strcspn(names, " ");
    return *names ? names : NULL;
}

const char *remat_kernel_kind_name(uint32_t kind)
{
    return kind < REMAT_KERNEL_KIND_COUNT ? rows[kind].name : NULL;
}

void remat_kernel_kind_arity(uint32_t kind, uint32_t *operands_min, uint32_t *operands_max,
                             uint32_t *parameters)
{
    bool known = kind < REMAT_KERNEL_KIND_COUNT;
    int length;
    *operands_min = known ? rows[kind].operands_min : 0;
    *operands_max = known ? rows[kind].operands_max : 0;
    *parameters = 0;
    while (known && remat_kernel_row_name(rows[kind].parameters, *parameters, &length))
        ++*parameters;
}

bool remat_kernel_kind_is_transfer(uint32_t kind)
{
    return kind < REMAT_KERNEL_KIND_COUNT && rows[kind].dispatch == REMAT_DISPATCH_ENGINE;
}

struct remat_workspace remat_kernel_workspace(uint32_t kind)
{
    switch (kind) {
    case REMAT_KERNEL_attention_backward: /* a delta for each lse */
        return (struct remat_workspace){5, 1, sizeof(float)};
    case REMAT_KERNEL_embedding_backward: /* tokens and their ids, sorted from one list to the other
                                           */
        return (struct remat_workspace){1, 2, 2 * sizeof(int32_t)};
    default:
        return (struct remat_workspace){0};
    }
}

uint64_t remat_workspace_list_bytes(uint32_t kind, uint64_t elements)
{
    return remat_aligned_bytes(elements * remat_kernel_workspace(kind).item_bytes);
}
