/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels, which commands execute: fused and built-in ones. This header says what they mean;
 * the CPU device, the emitted CUDA text and the float64 reference are executors of the same
 * definition.
 *
 * Kernel program: straight-line SSA over an index space of rows x columns. The space has up to
 * REMAT_RANK_MAX axes; the last one is the columns, the others together are the rows (row-major
 * order). Instruction i defines register i. A register has a class, given by its instruction:
 *
 *     ELEMENT   one value per (row, column)
 *     ROW       one value per row           (load_row, row reductions, arithmetic on ROW only)
 *     COLUMN    one value per column        (column reductions, arithmetic on COLUMN only)
 *     CONSTANT  one value                   (constant, arithmetic on CONSTANT only)
 *
 * Arithmetic on mixed classes is ELEMENT; CONSTANT mixes with any class and yields that class. ROW
 * and COLUMN reductions do not occur in one program. Every register is an f32. A value of the graph
 * of a narrower dtype that stays in a register is rounded (round_bf16) before it is used
 * (docs/numerics.md, rule 1).
 *
 * Memory operands are views: base + offset + strides in elements over the axes of the space. A
 * stride of 0 repeats. load_row and store of a ROW register ignore the stride of the last axis;
 * store of a COLUMN register ignores the strides of the others. Loads of bf16 and f16 convert to
 * f32 exactly, loads of i32 where that is below 2^24. A store into a bf16 or f16 operand rounds to
 * nearest even, subnormals too; NaN stays NaN. The CPU device has no f16. i32 is not stored. No
 * byte is stored by two operands, and one that is loaded (by the same operand or another) only in
 * place: both have one dtype and address the same elements in the same order, none of them for
 * several columns of a row. Every element is loaded before it is stored.
 *
 * random: the operand is i32, and the four elements from its offset on are the step's random state
 * { seed low, seed high, step, microbatch }; its shape and strides are ignored. The immediate is
 * the site, a whole number below 2^24. Element number i of the space, in row-major order, has
 *
 *     index = i + microbatch * (number of elements of the space)                         (64 bit)
 *     word  = Philox4x32-10(key = {seed low, seed high},
 *                           counter = {index/4 low, index/4 high, site, step})[index mod 4]
 *     value = (word >> 8) * 2^-24
 *
 * so that, with the batch as first axis, the value belongs to the element of the whole batch and
 * not to its microbatch, kernel, tile or thread. Dropout by p of x is everywhere (attention too)
 * value < p ? 0 : x * (1 / (1 - p)), with p and the factor as f32.
 *
 * flag: the operand is i32, and its first element becomes 1 if any a is NaN or infinite; else it
 * stays as it is. Its shape and strides are ignored. Nothing else of the program uses its memory
 * but other flags. All that is ever stored there is 1, so order and threads change nothing.
 *
 * Reductions have defined bits (docs/numerics.md, rule 3):
 *   row:    64 lanes from the identity; element j of the row is combined into lane j mod 64 in
 *           ascending order; then lanes l and l + w are combined for w = 32, 16, ..., 1.
 *   column: rows in blocks of remat_column_block_rows; in each block one ascending chain from 0;
 *           the block sums are added in order, starting from the first. */
#ifndef REMAT_KERNEL_H
#define REMAT_KERNEL_H

#include "base.h"

#define REMAT_RANK_MAX        6
#define REMAT_REDUCTION_LANES 64
#define REMAT_COLUMN_SUMS     1048576  /* sums of blocks of a column reduction, all columns' */
#define REMAT_WHOLES_MAX      16777216 /* whole numbers up to here are exact in f32 */
#define REMAT_NO_REGISTER     UINT16_MAX
#define REMAT_SITES           16777216 /* sites of random numbers are 0 ... REMAT_SITES - 1 */

enum remat_register_class {
    REMAT_CLASS_NONE, /* store, flag */
    REMAT_CLASS_CONSTANT,
    REMAT_CLASS_ROW,
    REMAT_CLASS_COLUMN,
    REMAT_CLASS_ELEMENT,
};

/* Opcodes, from instructions.def: REMAT_INSTRUCTION_add, ... */
enum remat_opcode {
#define INSTRUCTION(name, arity, flops, text) REMAT_INSTRUCTION_##name,
#include "instructions.def"
#undef INSTRUCTION
    REMAT_INSTRUCTION_COUNT
};

struct remat_instruction {
    uint16_t opcode;
    uint16_t operand; /* load, load_row, store, random, flag: index among the command's operands */
    uint16_t args[3]; /* registers, REMAT_NO_REGISTER beyond the arity */
    uint16_t reserved;
    float immediate; /* constant: its value; random: the site */
};

struct remat_kernel_body {
    uint32_t instruction_count;
    const struct remat_instruction *instructions;
    uint32_t operand_count; /* operands 0 ... operand_count - 1 are used */
};

const char *remat_opcode_name(uint16_t opcode);   /* NULL when out of range */
uint32_t remat_opcode_arity(uint16_t opcode);     /* number of register arguments */
uint32_t remat_opcode_flops(uint16_t opcode);     /* per element, for pricing */
uint16_t remat_dtype_rounding(remat_dtype dtype); /* round_bf16, ...; of a rounded dtype */
bool remat_opcode_has_result(uint16_t opcode);    /* it defines a register: no store, no flag */
bool remat_opcode_is_row_reduction(uint16_t opcode);
bool remat_opcode_is_column_reduction(uint16_t opcode);
bool remat_opcode_is_reduction(uint16_t opcode); /* one of the two */

/* Rows of a block of a column reduction: 256, or the fewest 256s with which the blocks' sums of all
 * columns are at most `sums` (REMAT_COLUMN_SUMS but in tests); all rows where even two blocks are
 * too many. At most UINT32_MAX - 255 rows. */
uint32_t remat_column_block_rows(uint64_t rows, uint64_t columns, uint64_t sums);

/* The class of a register of a verified program; `classes`: of the registers before it. */
enum remat_register_class remat_instruction_class(const struct remat_instruction *instruction,
                                                  const enum remat_register_class *classes);

/* Verifies untrusted instructions (opcodes, arguments before use, operand indices, classes) and
 * fills classes[instruction_count] when it is not NULL. `where` starts the message. Thread-safe. */
remat_status remat_kernel_body_check(remat_context *ctx, const struct remat_kernel_body *body,
                                     const char *where, enum remat_register_class *classes);

/* The program as text, one instruction a line, e.g. "r3 = add r0 r2". */
void remat_kernel_body_print(const struct remat_kernel_body *body, struct remat_text *out);

/* Built-in kernels, from builtin_kernels.def: REMAT_KERNEL_matmul, ... Operand order, shapes and
 * parameters are documented row by row there. REMAT_KERNEL_fused stands for a fused kernel. */
enum remat_kernel_kind {
    REMAT_KERNEL_fused,
#define BUILTIN_KERNEL(name, ...) REMAT_KERNEL_##name,
#include "builtin_kernels.def"
#undef BUILTIN_KERNEL
    REMAT_KERNEL_KIND_COUNT,
    REMAT_KERNEL_foreign = REMAT_KERNEL_KIND_COUNT /* the compiler's alone, in no program */
};
const char *remat_kernel_kind_name(uint32_t kind); /* "program", "matmul", ...; NULL out of range */
void remat_kernel_kind_arity(uint32_t kind, uint32_t *operands_min, uint32_t *operands_max,
                             uint32_t *parameters);

enum remat_arithmetic {
    REMAT_ARITHMETIC_POINTWISE,
    REMAT_ARITHMETIC_MATMUL,
    REMAT_ARITHMETIC_ATTENTION,
    REMAT_ARITHMETIC_ATTENTION_BACKWARD,
    REMAT_ARITHMETIC_SCATTER,  /* rows are looked for by their ids */
    REMAT_ARITHMETIC_SERIES,   /* in double */
    REMAT_ARITHMETIC_TRANSFER, /* none: bytes go from rank to rank */
    REMAT_ARITHMETIC_FOREIGN   /* what the node says */
};

/* The function that executes a command. */
enum remat_dispatch {
    REMAT_DISPATCH_TEXT,  /* the device: a GPU by the plan's CUDA text */
    REMAT_DISPATCH_GEMM,  /* the device: a GPU by cuBLASLt */
    REMAT_DISPATCH_ENGINE /* the session's engine */
};

bool remat_kernel_kind_is_transfer(uint32_t kind); /* exchange, gather; false out of range */

/* A row of builtin_kernels.def, which explains the columns; names are apart by a space. */
struct remat_kernel_row {
    const char *name;
    enum remat_dispatch dispatch;
    uint32_t operands_min, operands_max;
    const char *operands, *dtypes, *access, *layouts, *shapes, *parameters;
    uint32_t touched, touched_like;
    enum remat_arithmetic arithmetic;
};
/* `kind` is in range, or REMAT_KERNEL_foreign; REMAT_KERNEL_fused has dispatch, arithmetic and no
 * names. */
const struct remat_kernel_row *remat_kernel_row(uint32_t kind);
/* Operands of a command or node are those of its row that it has, in order. An optional operand may
 * be left out though a later one is there; the mask `absent` then has a bit by its number in the
 * row. Bits are below the last operand's, none among the first 32 operands' is of one that is not
 * optional.
 *
 * The number in the row of the operand at `position` among those that are there. */
uint32_t remat_operand_number(uint32_t absent, uint32_t position);
/* And the position of that number; REMAT_NONE: of `count` operands it is not one. */
uint32_t remat_operand_position(uint32_t absent, uint32_t count, uint32_t number);
/* The position of an operand by its name; REMAT_NONE: it is not there. */
uint32_t remat_kernel_operand(uint32_t kind, uint32_t absent, uint32_t count, const char *name);
/* Which letter of a row's dtypes, access and layouts is that of the operand at `position` of
 * `count`. */
uint32_t remat_kernel_row_letter(const struct remat_kernel_row *row, uint32_t absent,
                                 uint32_t position, uint32_t count);
/* Whether operand `number` is optional: its shape ends in "?". */
bool remat_kernel_row_optional(const struct remat_kernel_row *row, uint32_t number);
/* Memory that a built-in kernel needs on a GPU while it runs: lists with an item for each element
 * of an operand. No lists: none. */
struct remat_workspace {
    uint32_t operand, lists, item_bytes;
};
struct remat_workspace remat_kernel_workspace(uint32_t kind);
/* Bytes of one list, for so many elements of the operand. */
uint64_t remat_workspace_list_bytes(uint32_t kind, uint64_t elements);
/* Whether a layout, a letter of a row, has such strides. */
bool remat_layout_has(char layout, uint32_t rank, const int64_t *shape, const int64_t *strides);
/* The name number `index` of a row's operands or parameters, or the shape, to be printed with
 * "%.*s"; NULL after the last. */
const char *remat_kernel_row_name(const char *names, uint32_t index, int *length);

#endif
