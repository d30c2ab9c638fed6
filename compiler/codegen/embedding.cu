/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of a table by ids, and back. Ids outside the table give a row of NaN, and add to none. */
#ifndef REMAT_EMBEDDING
#define REMAT_EMBEDDING
#define EMBEDDING_THREADS 256
#define EMBEDDING_WARPS   8
#define EMBEDDING_SPAN    8192 /* tokens that a block looks through at once: a word a thread */

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

/* Whether an earlier token has the id, the nearest looked at first; ids are compared 32 at a time, by
 * a vote of a warp. */
DEV u32 has_earlier(const u8 *ids, u32 token, u32 id, float *found)
{
    const u32 thread = thread_index(), lane = thread % 32;
    u32 earlier = 0;
    for (u32 j = thread; j - lane < token && !earlier; j += EMBEDDING_THREADS)
        earlier = vote(j < token && read4(ids + (u64)(token - 1 - j) * 4) == id);
    if (lane == 0)
        shared_write(found, thread / 32, float_of_bits(earlier));
    barrier();
    for (u32 w = 0; w < EMBEDDING_WARPS; w++)
        earlier |= bits_of_float(shared_read(found, w));
    return earlier;
}

/* In `found` a word for 32 tokens of the span from `first` on, with a bit for each that has the id;
 * those words that are not 0 have a bit in a word for each warp, behind them. */
DEV void find_tokens(const u8 *ids, u32 tokens, u32 id, u32 first, float *found)
{
    const u32 thread = thread_index(), lane = thread % 32;
    u32 mine = 0;
    UNROLL_BY_4 for (u32 k = 0; k < 32; k++) {
        const u32 j = first + (thread - lane + k) * 32 + lane;
        const u32 has = vote(j < tokens && read4(ids + (u64)j * 4) == id);
        if (k == lane)
            mine = has;
    }
    const u32 any = vote(mine != 0);
    barrier();
    shared_write(found, thread, float_of_bits(mine));
    if (lane == 0)
        shared_write(found, EMBEDDING_THREADS + thread / 32, float_of_bits(any));
    barrier();
}

/* The rows of the tokens found are added in order. */
DEV void add_rows(const struct embedding *a, float *sum, const u8 *rows, u32 first, u32 column,
                  float *found)
{
    for (u32 w = 0; w < EMBEDDING_WARPS; w++)
        for (u32 groups = bits_of_float(shared_read(found, EMBEDDING_THREADS + w)); groups;
             groups &= groups - 1) {
            const u32 group = w * 32 + lowest_bit(groups);
            for (u32 has = bits_of_float(shared_read(found, group)); has; has &= has - 1) {
                const u32 j = first + group * 32 + lowest_bit(has);
                float x[4];
                if (column < a->columns) {
                    load_elements(x, a->rows, rows + element_of(a, j, column) * dtype_bytes(a->rows),
                                  a->width);
                    UNROLL for (u32 e = 0; e < a->width; e++) sum[e] = sum[e] + x[e];
                }
            }
        }
}

/* A block for each token. One that finds an earlier token of its id has nothing to do; the block of an
 * id's first token adds the rows of all. */
DEV void scatter_add(const struct embedding *a, u8 *table, const u8 *ids, const u8 *rows,
                     float *found)
{
    const u32 token = block_index(), id = read4(ids + (u64)token * 4);
    const u32 earlier = has_earlier(ids, token, id, found);
    if (earlier || id >= a->table_rows)
        return;
    for (u32 begin = 0; begin < a->columns; begin += EMBEDDING_THREADS * a->width) {
        const u32 column = begin + thread_index() * a->width;
        u8 *const to = table + element_of(a, id, column) * dtype_bytes(a->table);
        float sum[4];
        UNROLL for (u32 e = 0; e < a->width; e++) sum[e] = 0.0f;
        if (a->accumulate && column < a->columns)
            load_elements(sum, a->table, to, a->width);
        for (u32 first = token; first < a->tokens; first += EMBEDDING_SPAN) {
            find_tokens(ids, a->tokens, id, first, found);
            add_rows(a, sum, rows, first, column, found);
        }
        if (column < a->columns)
            store_elements(a->table, to, sum, a->width, a->width);
    }
}
#endif
