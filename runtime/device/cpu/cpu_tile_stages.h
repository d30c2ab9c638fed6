/* SPDX-License-Identifier: Apache-2.0 */
/* Private to cpu_tile_*.c: a command as the interpreter runs it.
 *
 * Everything an instruction touches is a `ref`, an index into a table of pointers that each worker
 * keeps: scratch slots (fixed), memory accesses (moved from tile to tile, set anew at each row) and
 * stripe slots (a value per column of a stripe; moved and set like accesses). */
#ifndef CPU_TILE_STAGES_H
#define CPU_TILE_STAGES_H

#include "cpu_tile.h"

#define STRIPE_TILES  8     /* at most, of a stripe of columns */
#define ITEM_ELEMENTS 32768 /* about, of a work item */

struct access { /* memory operand of one instruction; its ref is its index */
    uint64_t offset_bytes;
    uint64_t begin_bytes, end_bytes;   /* memory that it may touch */
    int64_t row_bytes[REMAT_RANK_MAX]; /* strides over row_axes */
    int64_t column_stride;             /* elements */
    int64_t column_bytes, tile_bytes;  /* strides over columns and tiles */
    uint8_t type;                      /* remat_dtype or CPU_TILE_WORD16 */
    uint8_t bytes;                     /* of an element */
    bool prefetch;
};

enum step_kind { STEP_OP, STEP_LOAD, STEP_STORE, STEP_COLUMN, STEP_RANDOM, STEP_CONSTANT };

struct cpu_tile_step {
    uint8_t kind;
    bool spread;         /* of a row or uniform value: also fill the slot with it */
    uint16_t access;     /* STEP_LOAD, STEP_STORE, STEP_RANDOM */
    uint16_t d, a, b, c; /* refs */
    union {
        cpu_tile_op *op;
        cpu_tile_load *load;
        cpu_tile_store *store;
        float immediate;
        uint32_t site;
    } u;
};

struct cpu_tile_steps REMAT_LIST(struct cpu_tile_step);

struct reduction {
    cpu_tile_op *combine; /* of two lanes; NULL for column sums */
    float identity;
    uint16_t lanes, total; /* refs; of a column sum: the block's chain and the result */
    bool spread;
};

struct reductions REMAT_LIST(struct reduction);

struct stage {
    struct cpu_tile_steps row;     /* once a row, before its tiles */
    struct cpu_tile_steps element; /* each tile */
    struct cpu_tile_steps column;  /* each tile of a stripe, after the rows */
    struct reductions reductions;
};

struct cpu_tile {
    const struct cpu_tile_table *table;
    uint32_t row_axes;
    int64_t axes[REMAT_RANK_MAX]; /* lengths of the row axes */
    int64_t rows, columns;
    bool by_columns; /* column reductions: an item is a stripe; else a block of rows and columns */
    bool streams;    /* has stores that need a fence */
    bool prefetches;
    uint32_t column_block_rows;
    int64_t item_rows, item_columns, row_items, column_items;
    uint32_t access_count, stripe_count, slot_count; /* refs, in this order */
    struct access *accesses;
    uint16_t *moving; /* the accesses that differ from tile to tile */
    uint32_t moving_count;
    uint32_t stage_count;
    struct stage *stages;
    struct cpu_tile_steps uniform; /* once an item */
    struct cpu_tile_steps row_end; /* stores of row values, after the last stage */
    uint64_t pointer_bytes, scratch_bytes;
};

#endif
