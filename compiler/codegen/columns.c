/* SPDX-License-Identifier: Apache-2.0 */
/* Column sums in two kernels a pass: sums of blocks of rows (remat_column_block_rows), each one
 * chain in order of rows, then the blocks' sums added in order.
 *
 * The workspace has the blocks' sums, [reduction][block][column], then the values by column that
 * later passes read, [place][column], all f32. */
#include "body.h"

#define TILE_COLUMNS 64

static uint64_t tiles(const struct cuda_source *s)
{
    return cuda_divide_up(s->columns, TILE_COLUMNS);
}

static uint64_t row_blocks(const struct cuda_source *s)
{
    return cuda_divide_up(s->rows, s->block_rows);
}

uint64_t cuda_columns_workspace_bytes(const struct cuda_source *s)
{
    uint64_t values = s->most_reductions * row_blocks(s);
    for (uint32_t i = 0; i < s->count; i++)
        values += s->nodes[i].place != CUDA_NONE;
    return remat_aligned_bytes(values * s->columns * sizeof(float));
}

static void write_workspace(struct cuda_source *s)
{
    cuda_text(s, "const u32 rows = (u32)arguments.word[0], columns = %llu;",
              (unsigned long long)s->columns);
    cuda_text(s, "const u32 blocks = (rows + %u) / %u;", s->block_rows - 1, s->block_rows);
    cuda_text(s, "u8 *const sums = (u8 *)arguments.word[%u];",
              2 + s->operand_count + s->site_count);
    cuda_text(s, "u8 *const totals = sums + (u64)blocks * columns * %u;", s->most_reductions * 4);
}

/* --- sums of blocks of rows --- */

static uint32_t rows_at_once(const struct cuda_source *s)
{
    return cuda_tile_floats(s) / TILE_COLUMNS;
}

uint32_t cuda_columns_shared_bytes(const struct cuda_source *s)
{
    return s->most_reductions * 2 * cuda_tile_floats(s) * (uint32_t)sizeof(float);
}

static void write_chains(struct cuda_source *s, uint32_t pass)
{
    cuda_text(s, "barrier();");
    cuda_text(s, "if (thread < %d && own < columns) {", TILE_COLUMNS);
    cuda_text(s, "const u32 rest = last - first - step * %u, filled = rest < %u ? rest : %u;",
              rows_at_once(s), rows_at_once(s), rows_at_once(s));
    for (uint32_t i = 0; i < s->count; i++) {
        if (!cuda_reduces_in(&s->nodes[i], pass))
            continue;
        cuda_text(s, "UNROLL_BY_4 for (u32 j = 0; j < filled; j++)");
        cuda_text(s, "chain%u = chain%u + shared_read(shared, %u + buffer + j * %d + thread);", i,
                  i, cuda_tiles_of(s, &s->nodes[i]), TILE_COLUMNS);
    }
    cuda_text(s, "}");
}

static void write_sums(struct cuda_source *s, uint32_t pass)
{
    cuda_text(s, "if (thread < %d && own < columns) {", TILE_COLUMNS);
    for (uint32_t i = 0; i < s->count; i++)
        if (cuda_reduces_in(&s->nodes[i], pass))
            cuda_text(s,
                      "store_f32(sums + (((u64)blocks * %u + first / %u) * columns + own) * 4, "
                      "chain%u);",
                      s->nodes[i].order, s->block_rows, i);
    cuda_text(s, "}");
}

void cuda_write_partial_sums(struct cuda_source *s, uint32_t pass)
{
    bool reduces = cuda_pass_reduces(s, pass);
    uint32_t across = TILE_COLUMNS / s->width;
    s->totals = false;
    if (reduces)
        cuda_text(s, "SHARED_MEMORY(shared, %u);", s->most_reductions * 2 * cuda_tile_floats(s));
    write_workspace(s);
    cuda_text(s, "const u32 thread = thread_index(), first = block_index() / %lluu * %u;",
              (unsigned long long)tiles(s), s->block_rows);
    cuda_text(s, "const u32 last = first + %u < rows ? first + %u : rows;", s->block_rows,
              s->block_rows);
    cuda_text(s, "const u32 column = block_index() %% %lluu * %d + thread %% %u * %u;",
              (unsigned long long)tiles(s), TILE_COLUMNS, across, s->width);
    if (s->tail)
        cuda_text(s, "const u32 end = columns, count = column < end ? end - column : 0;");
    if (reduces)
        cuda_text(s, "const u32 own = block_index() %% %lluu * %d + thread;",
                  (unsigned long long)tiles(s), TILE_COLUMNS);
    cuda_write_head(s);
    if (s->over_shared_load)
        cuda_text(s, "barrier();");
    for (uint32_t i = 0; i < s->count; i++)
        if (cuda_reduces_in(&s->nodes[i], pass))
            cuda_text(s, "float chain%u = 0.0f;", i);
    cuda_text(s, "for (u32 step = 0; first + step * %u < last; step++) {", rows_at_once(s));
    cuda_text(s, "const u32 row = first + step * %u + thread / %u;", rows_at_once(s), across);
    if (reduces)
        cuda_text(s, "const u32 buffer = step %% 2 * %u;", cuda_tile_floats(s));
    cuda_text(s, "if (row < last && column < columns) {");
    cuda_write_offsets(s);
    (void)cuda_begin_pass(s, pass);
    cuda_write_loads(s);
    cuda_write_values(s, CUDA_BY_ROW, pass, NULL);
    cuda_write_elements(s, cuda_reduce_to_tile);
    if (pass + 1 == s->pass_count && s->stores_rows) {
        cuda_text(s, "if (column == 0) {");
        cuda_write_stores_by(s, REMAT_CLASS_ROW, 0);
        cuda_text(s, "}");
    }
    cuda_text(s, "}");
    if (reduces)
        write_chains(s, pass);
    cuda_text(s, "}");
    if (reduces)
        write_sums(s, pass);
    s->blocks = tiles(s) * row_blocks(s);
}

/* --- totals --- */

void cuda_write_column_totals(struct cuda_source *s, uint32_t pass)
{
    s->totals = true;
    cuda_text(s, "const u32 column = block_index() * %d + thread_index();", CUDA_THREADS);
    write_workspace(s);
    cuda_text(s, "if (column >= columns) return;");
    cuda_write_head(s);
    for (uint32_t i = 0; i < s->count; i++) {
        if (!cuda_reduces_in(&s->nodes[i], pass))
            continue;
        cuda_text(s, "const u8 *const p_r%u = sums + ((u64)blocks * %u * columns + column) * 4;", i,
                  s->nodes[i].order);
        cuda_text(s, "float r%u = load_f32(p_r%u);", i, i);
        cuda_text(s, "UNROLL_BY_4 for (u32 block = 1; block < blocks; block++)");
        cuda_text(s, "r%u = r%u + load_f32(p_r%u + (u64)block * columns * 4);", i, i, i);
    }
    for (uint32_t i = 0; i < s->count; i++) /* of earlier passes */
        if (s->nodes[i].place != CUDA_NONE && cuda_made_after(&s->nodes[i]) <= pass)
            cuda_text(s, "const float r%u = load_f32(totals + (%uull * columns + column) * 4);", i,
                      s->nodes[i].place);
    cuda_write_values(s, CUDA_BY_COLUMN, pass + 1, NULL);
    cuda_write_stores_by(s, REMAT_CLASS_COLUMN, pass + 1);
    for (uint32_t i = 0; i < s->count; i++)
        if (s->nodes[i].place != CUDA_NONE && cuda_made_after(&s->nodes[i]) == pass + 1)
            cuda_text(s, "store_f32(totals + (%uull * columns + column) * 4, r%u);",
                      s->nodes[i].place, i);
    s->blocks = cuda_divide_up(s->columns, CUDA_THREADS);
}
