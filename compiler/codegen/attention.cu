/* SPDX-License-Identifier: Apache-2.0 */
/* Fused attention on tiles in shared memory, forward and backward, as runtime/kernel/builtin_kernels.def
 * defines it. A block owns rows of one head and visits tiles of rows of the other side in ascending
 * order: queries visit keys (out; dq), keys visit the queries of their group of heads (dk, dv). Each
 * sum is one thread's own, so there are no atomics, and how many rows a block owns changes no bit.
 *
 * A warp's products are in fragments of 16 x 8, a lane having rows lane / 4 and that + 8, columns
 * lane % 4 * 2 and the next. Where the keys own rows, scores are computed transposed: in both cases
 * probabilities go from the fragments they were summed in straight into the next product. Products of
 * bf16 and f16 run on the tensor cores, those of f32 are fused multiply-adds. */
#ifndef REMAT_ATTENTION
#define REMAT_ATTENTION
#define FRAGMENTS 16 /* of a warp's rows at most */
#define LOG2E 1.44269504088896341f

struct attention { /* constants of a kernel */
    u32 element_bytes, half; /* half: of two bytes, f16 and not bf16 */
    u32 head_size, heads, kv_heads, queries, keys, causal;
    u32 depth, pitch;      /* head_size rounded up to 16; bytes of a row in shared memory */
    u32 copy_bytes;        /* at once; all rows are aligned to it */
    u32 warps, strips;     /* of a block; times 16 rows of a warp */
    u32 visited;           /* rows of a tile of the other side */
    float scale, factor;   /* of scores; of what dropout keeps */
    u32 drops, kept_from;  /* smallest random word whose element is kept */
    u32 query_segments, key_segments; /* whether they are there */
};

struct heads { u8 *data; u64 batch, time, head; }; /* strides in bytes */

DEV struct heads heads_at(u64 address, u64 batch, u64 time, u64 head)
{
    struct heads x;
    x.data = (u8 *)address;
    x.batch = batch;
    x.time = time;
    x.head = head;
    return x;
}

DEV u8 *head_at(const struct heads *x, u32 batch, u32 head)
{
    return x->data + batch * x->batch + head * x->head;
}

/* What of a warp a thread is. */
struct place { u32 thread, lane, row, column; };

DEV struct place place_of(u32 thread, u32 strips)
{
    struct place p;
    p.thread = thread;
    p.lane = thread % 32;
    p.row = thread / 32 * 16 * strips + p.lane / 4;
    p.column = p.lane % 4 * 2;
    return p;
}

DEV u32 least(u32 a, u32 b) { return a < b ? a : b; }

/* Query i sees the keys below. */
DEV u32 keys_seen(const struct attention *a, u32 query)
{
    const u32 end = query + 1 + a->keys;
    return !a->causal ? a->keys : end <= a->queries ? 0 : least(end - a->queries, a->keys);
}

/* --- segments --- */

struct segments { const u8 *queries, *keys; }; /* i32 [batch, length], where they are there */

DEV i32 segment_at(const u8 *segments, u32 there, u32 batch, u32 length, u32 at)
{
    return there && at < length ? (i32)read4(segments + ((u64)batch * length + at) * 4) : 0;
}

DEV i32 query_segment(const struct attention *a, const struct segments *s, u32 batch, u32 query)
{
    return segment_at(s->queries, a->query_segments, batch, a->queries, query);
}

DEV i32 key_segment(const struct attention *a, const struct segments *s, u32 batch, u32 key)
{
    return segment_at(s->keys, a->key_segments, batch, a->keys, key);
}

DEV u32 is_hidden(const struct attention *a, i32 query, i32 key)
{
    return (a->query_segments || a->key_segments) && (query != key || key < 0);
}

/* --- elements of two bytes --- */

DEV u32 pair_of(const struct attention *a, float low, float high)
{
    return a->half ? narrow_half_pair(low, high) : narrow_pair(low, high);
}

DEV float low_of(const struct attention *a, u32 pair)
{
    return a->half ? widen_half(pair) : widen_low(pair);
}

DEV float high_of(const struct attention *a, u32 pair)
{
    return a->half ? widen_high_half(pair) : widen_high(pair);
}

DEV void add_matrix_product(const struct attention *a, float *sum, const u32 *x, u32 y0, u32 y1)
{
    if (a->half)
        add_product_f16(sum, x, y0, y1);
    else
        add_product_bf16(sum, x, y0, y1);
}

/* --- tiles --- */

/* Chunks of 16 bytes change places such that the same chunk of 8 rows lies in all banks. */
DEV u32 tile_place(const struct attention *a, u32 row, u32 byte)
{
    return row * a->pitch + (byte ^ row % 8 * 16);
}

/* Rows [first, first + rows) of a head, zeros from row `end` and column head_size on. */
DEV void copy_tile(const struct attention *a, u32 tile, const u8 *head, u64 time, u32 first, u32 rows,
                   u32 end, u32 thread)
{
    const u32 copies = a->depth * a->element_bytes / a->copy_bytes, threads = a->warps * 32;
    const u32 all = rows * copies;
    UNROLL_BY_4 for (u32 n = 0; n < (all + threads - 1) / threads; n++) {
        const u32 i = n * threads + thread, row = i / copies, byte = i % copies * a->copy_bytes;
        if (all % threads == 0 || i < all) {
            const u32 exists = first + row < end && byte < a->head_size * a->element_bytes;
            const u8 *from = head + (first + row) * time + byte;
            if (a->copy_bytes == 16)
                copy16(tile + tile_place(a, row, byte), from, exists ? 16 : 0);
            else
                copy4(tile + tile_place(a, row, byte), from, exists ? 4 : 0);
        }
    }
}

DEV void clear(float (*sums)[4], u32 count)
{
    UNROLL for (u32 j = 0; j < count; j++)
        UNROLL for (u32 e = 0; e < 4; e++) sums[j][e] = 0.0f;
}

DEV float add_product4(struct u32x4 x, struct u32x4 y, float sum)
{
    sum = multiply_add(float_of_bits(x.x), float_of_bits(y.x), sum);
    sum = multiply_add(float_of_bits(x.y), float_of_bits(y.y), sum);
    sum = multiply_add(float_of_bits(x.z), float_of_bits(y.z), sum);
    return multiply_add(float_of_bits(x.w), float_of_bits(y.w), sum);
}

DEV void add_products_32(float (*sums)[4], const struct attention *a, u32 x, u32 y,
                          const struct place *p)
{
    const u32 tiles = a->visited / 8;
    for (u32 k = 0; k < a->depth * 4; k += 16) {
        struct u32x4 high[2], low[2];
        UNROLL for (u32 s = 0; s < a->strips; s++) {
            high[s] = shared_read16(x + tile_place(a, p->row + s * 16, k));
            low[s] = shared_read16(x + tile_place(a, p->row + s * 16 + 8, k));
        }
        UNROLL for (u32 j = 0; j < tiles; j++) {
            const struct u32x4 even = shared_read16(y + tile_place(a, j * 8 + p->column, k));
            const struct u32x4 odd = shared_read16(y + tile_place(a, j * 8 + p->column + 1, k));
            UNROLL for (u32 s = 0; s < a->strips; s++) {
                float *sum = sums[s * tiles + j];
                sum[0] = add_product4(high[s], even, sum[0]);
                sum[1] = add_product4(high[s], odd, sum[1]);
                sum[2] = add_product4(low[s], even, sum[2]);
                sum[3] = add_product4(low[s], odd, sum[3]);
            }
        }
    }
}

DEV void add_products_16(float (*sums)[4], const struct attention *a, u32 x, u32 y,
                           const struct place *p)
{
    const u32 tiles = a->visited / 8, lane = p->lane;
    x = opaque(x + tile_place(a, p->row - lane / 4 + lane % 16, lane / 16 * 16));
    y = opaque(y + tile_place(a, lane % 8 + lane / 16 * 8, lane / 8 % 2 * 16));
    UNROLL for (u32 k = 0; k < a->depth * 2; k += 32) {
        u32 left[2][4], right[4];
        UNROLL for (u32 s = 0; s < a->strips; s++)
            read_matrices(left[s], (x ^ k) + s * 16 * a->pitch);
        UNROLL for (u32 j = 0; j < tiles; j += 2) {
            read_matrices(right, (y ^ k) + j * 8 * a->pitch);
            UNROLL for (u32 s = 0; s < a->strips; s++) {
                add_matrix_product(a, sums[s * tiles + j], left[s], right[0], right[1]);
                add_matrix_product(a, sums[s * tiles + j + 1], left[s], right[2], right[3]);
            }
        }
    }
}

/* The warp's rows of tile x times the visited rows of tile y, transposed. */
DEV void add_products(float (*sums)[4], const struct attention *a, u32 x, u32 y,
                      const struct place *p)
{
    if (a->element_bytes == 4)
        add_products_32(sums, a, x, y, p);
    else
        add_products_16(sums, a, x, y, p);
}

DEV void add_weighted_32(float (*sums)[4], const struct attention *a, float (*x)[4], u32 y,
                          const struct place *p)
{
    const u32 tiles = a->visited / 8;
    UNROLL for (u32 k = 0; k < a->visited; k++) {
        const u32 source = p->lane / 4 * 4 + k % 8 / 2;
        float high[2], low[2];
        UNROLL for (u32 s = 0; s < a->strips; s++) {
            high[s] = shuffle_from(x[s * tiles + k / 8][k % 2], source);
            low[s] = shuffle_from(x[s * tiles + k / 8][k % 2 + 2], source);
        }
        UNROLL for (u32 j = 0; j < a->depth / 8; j++) {
            const struct u32x2 pair = shared_read8(y + tile_place(a, k, (j * 8 + p->column) * 4));
            UNROLL for (u32 s = 0; s < a->strips; s++) {
                float *sum = sums[s * (a->depth / 8) + j];
                sum[0] = multiply_add(high[s], float_of_bits(pair.x), sum[0]);
                sum[1] = multiply_add(high[s], float_of_bits(pair.y), sum[1]);
                sum[2] = multiply_add(low[s], float_of_bits(pair.x), sum[2]);
                sum[3] = multiply_add(low[s], float_of_bits(pair.y), sum[3]);
            }
        }
    }
}

DEV void add_weighted_16(float (*sums)[4], const struct attention *a, float (*x)[4], u32 y,
                           const struct place *p)
{
    const u32 tiles = a->visited / 8, lane = p->lane;
    y = opaque(y + tile_place(a, lane % 16, lane / 16 * 16));
    UNROLL for (u32 k = 0; k < tiles; k += 2) {
        u32 left[2][4], right[4];
        UNROLL for (u32 s = 0; s < a->strips; s++) {
            const float *even = x[s * tiles + k], *odd = x[s * tiles + k + 1];
            left[s][0] = pair_of(a, even[0], even[1]);
            left[s][1] = pair_of(a, even[2], even[3]);
            left[s][2] = pair_of(a, odd[0], odd[1]);
            left[s][3] = pair_of(a, odd[2], odd[3]);
        }
        UNROLL for (u32 j = 0; j < a->depth / 8; j += 2) {
            read_matrices_transposed(right, (y ^ j * 16) + k * 8 * a->pitch);
            UNROLL for (u32 s = 0; s < a->strips; s++) {
                add_matrix_product(a, sums[s * (a->depth / 8) + j], left[s], right[0], right[1]);
                add_matrix_product(a, sums[s * (a->depth / 8) + j + 1], left[s], right[2], right[3]);
            }
        }
    }
}

/* The warp's rows of x, whose columns are the visited rows, times tile y. */
DEV void add_weighted(float (*sums)[4], const struct attention *a, float (*x)[4], u32 y,
                      const struct place *p)
{
    if (a->element_bytes == 4)
        add_weighted_32(sums, a, x, y, p);
    else
        add_weighted_16(sums, a, x, y, p);
}

/* Elements e0 and e0 + 1 of each of the fragments of one strip, which are a row of the result. */
DEV void store_row(const struct attention *a, u8 *row, float (*sums)[4], u32 e0, float factor,
                   u32 column)
{
    UNROLL for (u32 j = 0; j < a->depth / 8; j++) {
        const u32 at = j * 8 + column;
        const float x = sums[j][e0] * factor, y = sums[j][e0 + 1] * factor;
        if (a->element_bytes == 2 && at < a->head_size)
            write4(row + at * 2, pair_of(a, x, y));
        if (a->element_bytes == 4 && at < a->head_size)
            store_f32(row + at * 4, x);
        if (a->element_bytes == 4 && at + 1 < a->head_size)
            store_f32(row + at * 4 + 4, y);
    }
}

/* --- dropout: which elements of a fragment are kept, bit e for element e --- */

DEV u32 kept_words(const struct attention *a, const struct random_state *s, u64 element)
{
    const struct u32x4 words = random_words(s, element >> 2);
    return (words.x >= a->kept_from) | (words.y >= a->kept_from) << 1 |
           (words.z >= a->kept_from) << 2 | (words.w >= a->kept_from) << 3;
}

DEV u32 is_kept(const struct attention *a, const struct random_state *s, u64 element)
{
    return kept_words(a, s, element) >> (element & 3) & 1;
}

DEV u32 shuffle_bits(u32 bits, u32 mask)
{
    return bits_of_float(shuffle_xor(float_of_bits(bits), mask));
}

/* Rows are queries. `first`: the number of the element of the fragment's first query and key. Where a
 * call of the generator is four keys of one query, two lanes that have two of the keys of two queries
 * make one call each. */
DEV u32 kept_by_query(const struct attention *a, const struct random_state *s, u64 first, u32 lane)
{
    const u32 odd = lane & 1;
    first += s->first + lane / 4 * (u64)a->keys;
    if (a->keys % 4 == 0) {
        const u32 own = kept_words(a, s, first + odd * 8 * (u64)a->keys + lane % 4 / 2 * 4);
        const u32 other = shuffle_bits(own, 1);
        return ((odd ? other : own) >> odd * 2 & 3) | ((odd ? own : other) >> odd * 2 & 3) << 2;
    }
    u32 kept = 0;
    UNROLL for (u32 e = 0; e < 4; e++)
        kept |= is_kept(a, s, first + e / 2 * 8 * (u64)a->keys + lane % 4 * 2 + e % 2) << e;
    return kept;
}

/* Rows are keys: the lanes of four keys that have the same two queries, and eight keys further on the
 * same again, make one call each. */
DEV u32 kept_by_key(const struct attention *a, const struct random_state *s, u64 first, u32 lane)
{
    const u32 turn = lane / 4 % 4;
    first += s->first + lane % 4 * 2 * (u64)a->keys;
    u32 kept = 0;
    if (a->keys % 4 == 0) {
        const u32 own = kept_words(
            a, s, first + turn % 2 * (u64)a->keys + (lane / 16 + turn / 2 * 2) * 4);
        kept = (own >> turn & 1) << turn;
        UNROLL for (u32 other = 1; other < 4; other++)
            kept |= (shuffle_bits(own, other * 4) >> turn & 1) << (turn ^ other);
        return kept;
    }
    UNROLL for (u32 e = 0; e < 4; e++)
        kept |= is_kept(a, s, first + e % 2 * (u64)a->keys + lane / 4 + e / 2 * 8) << e;
    return kept;
}
#endif

BODY(attention_tiles)
{
    TILE_MEMORY(memory); const u32 shared = (memory + 255) / 256 * 256;
}

BODY(attention_constants)
{
    struct attention a;
    a.element_bytes = @element_bytes@u;
    a.half = @half@u;
    a.head_size = @head_size@u;
    a.heads = @heads@u;
    a.kv_heads = @kv_heads@u;
    a.queries = @queries@u;
    a.keys = @keys@u;
    a.causal = @causal@u;
    a.depth = @depth@u;
    a.pitch = @pitch@u;
    a.copy_bytes = @copy_bytes@u;
    a.warps = @warps@u;
    a.strips = @strips@u;
    a.visited = @visited@u;
    a.drops = @drops@u;
    a.kept_from = @kept_from@u;
    a.query_segments = @query_segments@u;
    a.key_segments = @key_segments@u;
    a.scale = float_of_bits(0x@scale_bits@u); /* @scale@ */
    a.factor = float_of_bits(0x@factor_bits@u); /* @factor@ */
}

BODY(attention_segments)
{
    struct segments segments;
    segments.queries = @queries@;
    segments.keys = @keys@;
}

BODY(attention_without_dropout)
{
    struct random_state random;
}

BODY(attention_with_dropout)
{
    struct random_state random;
    random = read_random_state(rng, arguments.word[0], (u32)double_of_bits(arguments.word[@site_word@]));
}
