/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of a table by ids, and back: the few lines around the functions of embedding.cu. */
#include "source.h"

static void write_constants(struct cuda_source *s, const struct cuda_embedding *embedding,
                            uint8_t table, uint8_t rows)
{
    cuda_text(s, "struct embedding a;");
    cuda_text(s, "a.table_rows = %lluu;", (unsigned long long)embedding->table_rows);
    cuda_text(s, "a.tokens = (u32)arguments.word[0];");
    cuda_text(s, "a.columns = %llu;", (unsigned long long)embedding->columns);
    cuda_text(s, "a.width = %u;", embedding->width);
    cuda_text(s, "a.table = DTYPE_%s;", cuda_dtype_name(table));
    cuda_text(s, "a.rows = DTYPE_%s;", cuda_dtype_name(rows));
    cuda_text(s, "a.accumulate = %d;", embedding->accumulate);
    cuda_text(s, "u8 *const table = (u8 *)arguments.word[2];");
    cuda_text(s, "const u8 *const ids = (const u8 *)arguments.word[3];");
    cuda_text(s, "u8 *const rows = (u8 *)arguments.word[4];");
}

void cuda_write_gather(struct cuda_source *s, const struct cuda_embedding *embedding)
{
    uint8_t dtype = cuda_dtype_bytes(embedding->table) == 2 ? CUDA_WORD16 : REMAT_F32;
    write_constants(s, embedding, dtype, dtype);
    cuda_text(s, "gather(&a, table, ids, rows);");
}

void cuda_write_sort(struct cuda_source *s, uint64_t table_rows, uint32_t digit_bits)
{
    cuda_text(s, "SHARED_MEMORY(counts, 2 * SORT_WARPS);");
    cuda_text(s, "struct digit d;");
    cuda_text(s, "d.tokens = (u32)arguments.word[0];");
    cuda_text(s, "d.shift = (u32)arguments.word[1];");
    cuda_text(s, "d.mask = %uu;", (1u << digit_bits) - 1);
    cuda_text(s, "d.first = %d;", s->columns == 0);
    cuda_text(s, "d.ids = %lluu;", (unsigned long long)table_rows);
    cuda_text(s, "sort(&d, (u8 *)arguments.word[2], (const u8 *)arguments.word[3], counts);");
}

void cuda_write_scatter_add(struct cuda_source *s, const struct cuda_embedding *embedding)
{
    cuda_text(s, "SHARED_MEMORY(shared, RUN_ROWS * (32 * %u + 1));", embedding->width);
    write_constants(s, embedding, embedding->table, embedding->rows);
    cuda_text(s, "add_runs(&a, table, ids, rows, shared);");
}
