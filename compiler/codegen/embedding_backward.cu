/* SPDX-License-Identifier: Apache-2.0 */
/* Rows added to those of a table, by ids; ids outside the table add to none.
 *
 * The tokens are sorted by their ids, from the lowest digit on, a launch for each; equal ones stay in
 * order. The tokens of an id then follow each other: a run, whose rows one block adds. */
#ifndef REMAT_EMBEDDING_BACKWARD
#define REMAT_EMBEDDING_BACKWARD
#define SORT_WARPS 32
#define SORT_LOADS 4   /* of a thread before it uses the first */
#define RUN_ROWS   128 /* that a block reads before it adds the first */
#define WARP_ROWS  (RUN_ROWS / (EMBEDDING_THREADS / 32))
#define ROWS_AHEAD 16 /* that a thread has before it adds the first */
#define NO_ID      0xffffffffu

/* What tokens are sorted by: a digit of their ids. A list has for each token its id, or `ids` if that is
 * outside the table, and its number; the first list is that of the ids. */
struct digit {
    u32 tokens, ids, shift, mask, first;
};

/* Of the entries from `first` on a lane has every 32nd, and its digit, which is NO_ID at the end. */
DEV void read_entries(const struct digit *d, const u8 *list, u32 first, u32 end, struct u32x2 *entries,
                      u32 *values)
{
    UNROLL for (u32 k = 0; k < SORT_LOADS; k++) {
        const u32 i = first + k * 32 + thread_index() % 32, at = i < end ? i : end - 1;
        if (d->first) {
            entries[k].x = read4(list + (u64)at * 4);
            entries[k].x = entries[k].x < d->ids ? entries[k].x : d->ids;
            entries[k].y = at;
        } else {
            entries[k] = read8(list + (u64)at * 8);
        }
        values[k] = i < end ? entries[k].x >> d->shift & d->mask : NO_ID;
    }
}

DEV u32 warp_sum(u32 x)
{
    UNROLL for (u32 mask = 16; mask > 0; mask /= 2)
        x += bits_of_float(shuffle_xor(float_of_bits(x), mask));
    return x;
}

/* A block for each value of the digit: its entries go after those of lower values, in order. Each warp has a
 * part of the list, of which it counts both, and then places its own, 32 at a time. */
DEV void sort(const struct digit *d, u8 *to, const u8 *from, float *counts)
{
    const u32 lane = thread_index() % 32, warp = thread_index() / 32, value = block_index();
    const u32 step = 32 * SORT_LOADS, steps = (d->tokens + SORT_WARPS * step - 1) / (SORT_WARPS * step);
    const u32 begin = warp * steps * step, part_end = begin + steps * step;
    const u32 end = part_end < d->tokens ? part_end : d->tokens;
    struct u32x2 entries[SORT_LOADS];
    u32 values[SORT_LOADS], lower = 0, equal = 0, place = 0;
    for (u32 first = begin; first < end; first += step) {
        read_entries(d, from, first, end, entries, values);
        UNROLL for (u32 k = 0; k < SORT_LOADS; k++) {
            lower += values[k] < value;
            equal += values[k] == value;
        }
    }
    lower = warp_sum(lower);
    equal = warp_sum(equal);
    if (lane == 0) {
        shared_write(counts, warp, float_of_bits(lower));
        shared_write(counts, SORT_WARPS + warp, float_of_bits(equal));
    }
    barrier();
    UNROLL_BY_4 for (u32 w = 0; w < SORT_WARPS; w++) {
        place += bits_of_float(shared_read(counts, w));
        place += w < warp ? bits_of_float(shared_read(counts, SORT_WARPS + w)) : 0;
    }
    for (u32 first = begin; first < end; first += step) {
        read_entries(d, from, first, end, entries, values);
        UNROLL for (u32 k = 0; k < SORT_LOADS; k++) {
            const u32 same = vote(values[k] == value), before = same & ((1u << lane) - 1);
            if (values[k] == value)
                write8(to + (u64)(place + count_bits(before)) * 8, entries[k].x, entries[k].y);
            place += count_bits(same);
        }
    }
}

DEV void store_sum(const struct embedding *a, u8 *table, u32 id, u32 column, float sum)
{
    if (id != NO_ID)
        store_elements(a->table, table + element_of(a, id, column) * dtype_bytes(a->table), &sum, 1, 1);
}

/* The id of the entry before `i`. */
DEV u32 id_before(const u8 *list, u32 i) { return i > 0 ? read4(list + (u64)(i - 1) * 8) : NO_ID; }

/* What a block adds: runs that begin in its part [begin, end) of the list, also beyond it. */
struct runs {
    u32 begin, end;
    u32 before, last; /* ids of the entry before the part and of its last one */
};

/* A warp brings the rows of 16 entries from `first` on to shared memory, a thread some columns of each, from
 * `column` on; what begins a run is added to what the table has, or to 0. The ids follow the rows, NO_ID for
 * those that the block does not add. Of those it reads the list's first bytes: a load in a branch would be
 * waited for before the next. */
DEV void bring_rows(const struct embedding *a, const struct runs *r, const u8 *table, const u8 *list,
                    const u8 *rows, u32 first, u32 column, float *shared)
{
    const u32 lane = thread_index() % 32, row = thread_index() / 32 * WARP_ROWS;
    const u32 i = first + row + lane % WARP_ROWS, across = 32 * a->width;
    struct u32x2 entry;
    entry.x = NO_ID;
    entry.y = 0;
    if (i < a->tokens)
        entry = read8(list + (u64)i * 8);
    const u32 begins = vote(i < a->tokens && entry.x != id_before(list, i));
    const u32 own = entry.x != r->before && (i < r->end || entry.x == r->last);
    const u32 id = own && entry.x < a->table_rows ? entry.x : NO_ID;
    float x[WARP_ROWS][4], sums[WARP_ROWS][4];
    UNROLL for (u32 k = 0; k < WARP_ROWS; k++) {
        const u32 token = bits_of_float(shuffle_from(float_of_bits(entry.y), k));
        const u32 to = bits_of_float(shuffle_from(float_of_bits(id), k));
        const u32 needed = to != NO_ID && column < a->columns;
        const u8 *const from = rows + element_of(a, token, column) * dtype_bytes(a->rows);
        const u8 *const before = table + element_of(a, to, column) * dtype_bytes(a->table);
        UNROLL for (u32 e = 0; e < a->width; e++) sums[k][e] = 0.0f;
        load_elements(x[k], a->rows, needed ? from : list, a->width);
        if (a->accumulate)
            load_elements(sums[k], a->table, needed && begins >> k & 1 ? before : list, a->width);
    }
    barrier();
    if (lane < WARP_ROWS)
        shared_write(shared, RUN_ROWS * across + row + lane, float_of_bits(id));
    UNROLL for (u32 k = 0; k < WARP_ROWS; k++)
        UNROLL for (u32 e = 0; e < a->width; e++)
            shared_write(shared, (row + k) * across + lane * a->width + e,
                         begins >> k & 1 ? sums[k][e] + x[k][e] : x[k][e]);
    barrier();
}

/* A block for each part of the list and as many columns as a warp reads at once. One thread a column adds
 * the rows in order; a sum is stored when the next id comes. */
DEV void add_runs(const struct embedding *a, u8 *table, const u8 *list, const u8 *rows, float *shared)
{
    const u32 thread = thread_index(), across = 32 * a->width, tiles = (a->columns + across - 1) / across;
    const u32 tile = block_index() % tiles * across, column = tile + thread;
    const u32 adds = thread < across && column < a->columns;
    float sum = 0.0f;
    u32 id = NO_ID;
    struct runs r;
    r.begin = block_index() / tiles * RUN_ROWS;
    r.end = a->tokens - r.begin < RUN_ROWS ? a->tokens : r.begin + RUN_ROWS;
    r.before = id_before(list, r.begin);
    r.last = id_before(list, r.end);
    u32 more = r.before != r.last;
    for (u32 first = r.begin; more;) {
        bring_rows(a, &r, table, list, rows, first, tile + thread % 32 * a->width, shared);
        for (u32 k = 0; adds && k < RUN_ROWS; k += ROWS_AHEAD) {
            u32 next[ROWS_AHEAD];
            float x[ROWS_AHEAD];
            UNROLL for (u32 j = 0; j < ROWS_AHEAD; j++) {
                next[j] = bits_of_float(shared_read(shared, RUN_ROWS * across + k + j));
                x[j] = shared_read(shared, (k + j) * across + thread);
            }
            UNROLL for (u32 j = 0; j < ROWS_AHEAD; j++) {
                if (next[j] != id)
                    store_sum(a, table, id, column, sum);
                sum = next[j] == id ? sum + x[j] : x[j];
                id = next[j];
            }
        }
        first += RUN_ROWS;
        more = first < a->tokens && id_before(list, first + 1) == r.last;
    }
    if (adds)
        store_sum(a, table, id, column, sum);
}
#endif

BODY(sort)
{
    SHARED_MEMORY(counts, 2 * SORT_WARPS);
    struct digit d;
    d.tokens = (u32)arguments.word[0];
    d.shift = (u32)arguments.word[1];
    d.mask = @mask@u;
    d.first = @first@;
    d.ids = @ids@u;
    sort(&d, (u8 *)arguments.word[2], (const u8 *)arguments.word[3], counts);
}

BODY(scatter_add)
{
    SHARED_MEMORY(shared, RUN_ROWS * (32 * @width@ + 1));
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
    add_runs(&a, table, ids, rows, shared);
}
