/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of a table by ids. Ids outside the table give a row of NaN. */
#ifndef REMAT_EMBEDDING
#define REMAT_EMBEDDING
#define EMBEDDING_THREADS 256

/* Constants of a kernel, but for the tokens. */
struct embedding {
    u64 table_rows;
    u32 tokens, columns, width; /* columns that a thread has */
    u32 table, rows;            /* dtypes */
    u32 accumulate;
};

DEV u64 element_of(const struct embedding *a, u32 row, u32 column)
{
    return (u64)row * a->columns + column;
}

/* A thread has `width` columns of a token's row. */
DEV void gather(const struct embedding *a, const u8 *table, const u8 *ids, u8 *rows)
{
    const u32 vectors = a->columns / a->width, bytes = dtype_bytes(a->rows);
    const u64 vector = (u64)block_index() * EMBEDDING_THREADS + thread_index();
    const u64 token = vector / vectors;
    const u32 column = (u32)(vector % vectors) * a->width;
    if (token >= a->tokens)
        return;
    const u32 id = read4(ids + token * 4);
    float x[4];
    UNROLL for (u32 e = 0; e < a->width; e++) x[e] = float_of_bits(0x7fc00000u);
    if (id < a->table_rows)
        load_elements(x, a->table, table + element_of(a, id, column) * bytes, a->width);
    store_elements(a->rows, rows + element_of(a, (u32)token, column) * bytes, x, a->width, a->width);
}
#endif

BODY(embedding)
{
    struct embedding a;
    a.table_rows = @table_rows@u;
    a.tokens = (u32)arguments.word[0];
    a.columns = @columns@;
    a.width = @width@;
    a.table = DTYPE_@table@;
    a.rows = DTYPE_@rows@;
    a.accumulate = @accumulate@;
    u8 *const table = (u8 *)arguments.word[2];
    const u8 *const ids = (const u8 *)arguments.word[3];
    u8 *const rows = (u8 *)arguments.word[4];
    gather(&a, table, ids, rows);
}
