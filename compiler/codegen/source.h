/* SPDX-License-Identifier: Apache-2.0 */
/* Private to compiler/codegen: one command being turned into text.
 *
 * Instructions run in passes over the elements of a row (or of a block of rows, with column sums),
 * one pass for each depth of reductions. An instruction runs in the first pass that needs it. For a
 * later pass its result is kept in registers if the row is short, and recomputed from the loads of
 * that pass otherwise. */
#ifndef REMAT_CODEGEN_SOURCE_H
#define REMAT_CODEGEN_SOURCE_H

#include "cuda_settings.h"
#include "program.h"

#define CUDA_THREADS  256 /* in every block but those of sort and attention */
#define CUDA_RUN_ROWS 128 /* in a block that adds rows (embedding_backward.cu) */
#define CUDA_NONE     UINT16_MAX
#define CUDA_WORD16   REMAT_DTYPE_COUNT /* beside the dtypes: 16 bits of any, moved as they are */

/* The .cu files as text, which embed.py splits into pieces, NULL at the end: the prelude of all
 * kernels, and the second part of attention's. */
extern const char *const cuda_prelude[], *const cuda_attention[];

/* How a value varies over the space; strides count too. */
enum cuda_variation { CUDA_UNIFORM, CUDA_BY_ROW, CUDA_BY_COLUMN, CUDA_BY_ELEMENT };

struct cuda_access { /* of one load, store, random or flag */
    uint16_t operand;
    uint8_t dtype, bytes;
    uint64_t begin_bytes, end_bytes; /* in the arena */
    int64_t strides[REMAT_RANK_MAX]; /* elements, over the row axes */
    int64_t column_stride;
    bool by_row; /* the element depends on the row */
};

struct cuda_node { /* an instruction */
    uint16_t opcode, args[3];
    uint16_t access; /* CUDA_NONE without */
    uint16_t site;   /* random: which of the sites among the arguments */
    float immediate;
    enum remat_register_class class;
    enum cuda_variation variation;
    uint32_t pass;   /* the first that can run it: depth of the reductions below */
    uint32_t order;  /* of a reduction: among those of its pass */
    bool by_element; /* a store, or a value, that is computed per element */
    bool live;
    bool runs;        /* in the pass being written, per element */
    bool kept, ready; /* in registers from the first pass that runs it on; it has run */
    uint16_t place;   /* of a column's value among those in the workspace, CUDA_NONE without */
};

enum cuda_shape {
    CUDA_POINTWISE,
    CUDA_TENSORS,
    CUDA_TEAM,
    CUDA_BLOCK,
    CUDA_COLUMNS,
    CUDA_GATHER,
    CUDA_SORT,
    CUDA_SCATTER,
    CUDA_ITEMS,
    CUDA_FORWARD, /* attention */
    CUDA_DELTA,   /* its gradient: sums of products of rows, then by keys, then by queries */
    CUDA_KEYS,
    CUDA_QUERIES
};

struct cuda_source {
    remat_context *ctx;
    struct remat_arena *arena; /* scratch */
    const struct remat_command *command;
    uint32_t count, access_count, operand_count, site_count, pass_count;
    uint32_t most_reductions; /* of one pass */
    struct cuda_node *nodes;
    struct cuda_access *accesses;
    uint32_t row_axes;
    int64_t axes[REMAT_RANK_MAX];
    uint64_t rows, columns;
    enum cuda_shape shape;
    uint32_t width;        /* elements that a thread reads at once */
    uint32_t elements;     /* of a thread in a step: width, or 2 of width 1 */
    uint32_t spacing;      /* columns between them */
    uint32_t steps;        /* to a row */
    uint32_t slots;        /* pointwise: vectors of a thread, all loaded first */
    uint32_t block_rows;   /* columns: rows that are added in one chain */
    uint64_t blocks;       /* of the kernel just written */
    uint32_t threads;      /* of a block; 0: CUDA_THREADS */
    uint32_t held_blocks;  /* at least so many fit a multiprocessor's registers; 0: any number */
    uint32_t shared_bytes; /* of a block of attention */
    bool stores_rows;      /* a value a row */
    bool draws_random;
    bool over_shared_load; /* what one thread stores over, others load: they must have done so */
    bool lasting;          /* all that is stored stays: parameters, states */
    bool resident;         /* values are kept */
    bool tail;             /* a step may reach beyond the row */
    bool totals;           /* writing the kernel of column totals */
    uint32_t indent;       /* of the next line, beside */
    uint32_t hanging;      /* that of a statement after "for (...)" */
    struct remat_text *out;
};

/* Fails: CUDA text cannot express the command. */
#define CUDA_INVALID(s, format, ...)                                                               \
    remat_error((s)->ctx, REMAT_ERROR_INVALID, "command \"%s\": " format, (s)->command->name,      \
                __VA_ARGS__)

static inline uint64_t cuda_divide_up(uint64_t a, uint64_t b)
{
    return (a + b - 1) / b;
}

static inline uint32_t cuda_arity(const struct cuda_node *node)
{
    return remat_opcode_arity(node->opcode);
}
static inline bool cuda_is_load(const struct cuda_node *node)
{
    return node->opcode == REMAT_INSTRUCTION_load || node->opcode == REMAT_INSTRUCTION_load_row;
}
static inline bool cuda_is_flag(const struct cuda_node *node)
{
    return node->opcode == REMAT_INSTRUCTION_flag;
}
/* A store or a flag. */
static inline bool cuda_is_store(const struct cuda_node *node)
{
    return node->opcode == REMAT_INSTRUCTION_store || cuda_is_flag(node);
}
static inline bool cuda_is_random(const struct cuda_node *node)
{
    return node->opcode == REMAT_INSTRUCTION_random;
}
static inline bool cuda_is_reduction(const struct cuda_node *node)
{
    return remat_opcode_is_reduction(node->opcode);
}
/* Number of passes after which a value by column is available. */
static inline uint32_t cuda_made_after(const struct cuda_node *node)
{
    return node->pass + cuda_is_reduction(node);
}

/* --- source.c: from a command to nodes --- */
/* Fills a source that has context, arena and command. */
remat_status cuda_source_read(struct cuda_source *out, const struct remat_program *program);
uint32_t cuda_dtype_bytes(uint8_t dtype);
const char *cuda_dtype_name(uint8_t dtype);
uint8_t cuda_moved_as(uint8_t dtype); /* the type of as many bytes, which are moved as they are */
/* Sets `runs` of the nodes that the pass computes per element; false: there are none. */
bool cuda_begin_pass(struct cuda_source *s, uint32_t pass);
bool cuda_reduces_in(const struct cuda_node *node, uint32_t pass);
bool cuda_pass_reduces(const struct cuda_source *s, uint32_t pass);

/* True if all tensors of a launch of CUDA_TENSORS share the operand. */
bool cuda_is_shared(const struct cuda_source *s, uint32_t operand);
/* Number of argument words of a launch of CUDA_TENSORS: before the first tensor, and for each. */
uint32_t cuda_head_words(const struct cuda_source *s);
uint32_t cuda_tensor_words(const struct cuda_source *s);
/* The argument word with the operand's address; with CUDA_TENSORS relative to the tensor's first
 * word, unless the operand is shared. */
uint32_t cuda_word_of(const struct cuda_source *s, uint32_t operand);

#endif
