/* Fused attention on tiles in shared memory, forward and backward, as runtime/kernel/named_kernels.def
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

/* --- forward --- */

/* Of one row, that a lane has two columns of in each fragment. */
struct row_state { float maximum, sum; };

/* Scores of the strip's row become exponentials; the factor by which what came before shrinks. */
DEV float softmax_row(const struct attention *a, float (*scores)[4], u32 e0, struct row_state *state)
{
    const float scale = a->scale * LOG2E, before = state->maximum;
    float top = before, sum = 0.0f;
    UNROLL for (u32 j = 0; j < a->visited / 8; j++)
        top = maximum(top, maximum(scores[j][e0], scores[j][e0 + 1]));
    top = maximum(top, shuffle_xor(top, 1));
    top = maximum(top, shuffle_xor(top, 2));
    const float reference = top == -INFINITE ? 0.0f : top * scale;
    /* 1 where the tile has no key that the row sees: whether it is visited changes no bit. */
    const float shrink = before == top ? 1.0f : exponential2((before - top) * scale);
    UNROLL for (u32 j = 0; j < a->visited / 8; j++)
        UNROLL for (u32 e = e0; e < e0 + 2; e++) {
            scores[j][e] = exponential2(multiply_add(scores[j][e], scale, -reference));
            sum += scores[j][e];
        }
    state->maximum = top;
    state->sum = state->sum * shrink + sum;
    return shrink;
}

/* No exponential of a key from `end` on that the query does not see. */
DEV void hide_keys(const struct attention *a, float (*scores)[4], u32 e0, u32 first, u32 end)
{
    UNROLL for (u32 j = 0; j < a->visited / 8; j++)
        UNROLL for (u32 e = 0; e < 2; e++)
            if (first + j * 8 + e >= end)
                scores[j][e0 + e] = -INFINITE;
}

DEV void attention_forward(const struct attention *a, const struct heads *q, const struct heads *k,
                           const struct heads *v, const struct heads *out, u8 *lse,
                           const struct random_state *random, u32 shared)
{
    const u32 owned = a->warps * a->strips * 16, tiles = (a->queries + owned - 1) / owned;
    const struct place p = place_of(thread_index(), a->strips);
    /* The last queries, which see the most keys, come first. */
    const u32 index = block_index(), first = (tiles - 1 - index % tiles) * owned;
    const u32 batch = index / tiles / a->heads, head = index / tiles % a->heads;
    const u32 kv_head = head / (a->heads / a->kv_heads);
    const u8 *const keys = head_at(k, batch, kv_head), *const values = head_at(v, batch, kv_head);
    const u64 element = ((u64)(batch * a->heads + head) * a->queries + first) * a->keys;
    const u32 seen_by_all = keys_seen(a, first);
    const u32 seen = keys_seen(a, least(first + owned, a->queries) - 1);
    const u32 q_tile = shared, k_tile = q_tile + owned * a->pitch;
    const u32 v_tile = k_tile + a->visited * a->pitch;
    float sums[FRAGMENTS][4], scores[FRAGMENTS][4];
    struct row_state rows[4];
    clear(sums, a->strips * (a->depth / 8));
    UNROLL for (u32 r = 0; r < 4; r++) {
        rows[r].maximum = -INFINITE;
        rows[r].sum = 0.0f;
    }
    copy_tile(a, q_tile, head_at(q, batch, head), q->time, first, owned, a->queries, p.thread);
    copy_tile(a, k_tile, keys, k->time, 0, a->visited, a->keys, p.thread);
    end_copies();
    for (u32 begin = 0; begin < seen; begin += a->visited) {
        wait_copies(0);
        barrier();
        copy_tile(a, v_tile, values, v->time, begin, a->visited, a->keys, p.thread);
        end_copies();
        clear(scores, a->strips * (a->visited / 8));
        add_products(scores, a, q_tile, k_tile, &p);
        wait_copies(0);
        barrier();
        if (begin + a->visited < seen)
            copy_tile(a, k_tile, keys, k->time, begin + a->visited, a->visited, a->keys, p.thread);
        end_copies();
        UNROLL for (u32 r = 0; r < a->strips * 2; r++) {
            float (*const strip)[4] = &scores[r / 2 * (a->visited / 8)];
            const u32 row = p.row + r * 8, e0 = r % 2 * 2;
            if (begin + a->visited > seen_by_all)
                hide_keys(a, strip, e0, begin + p.column, keys_seen(a, first + row));
            const float shrink = softmax_row(a, strip, e0, &rows[r]);
            UNROLL for (u32 j = 0; j < a->depth / 8; j++) {
                sums[r / 2 * (a->depth / 8) + j][e0] *= shrink;
                sums[r / 2 * (a->depth / 8) + j][e0 + 1] *= shrink;
            }
        }
        UNROLL for (u32 j = 0; a->drops && j < a->strips * (a->visited / 8); j++) {
            const u32 row = p.row - p.lane / 4 + j / (a->visited / 8) * 16;
            const u64 at = element + row * (u64)a->keys + begin + j % (a->visited / 8) * 8;
            const u32 kept = kept_by_query(a, random, at, p.lane);
            UNROLL for (u32 e = 0; e < 4; e++) scores[j][e] = kept >> e & 1 ? scores[j][e] : 0.0f;
        }
        add_weighted(sums, a, scores, v_tile, &p);
    }
    wait_copies(0);
    UNROLL for (u32 r = 0; r < a->strips * 2; r++) {
        const u32 query = first + p.row + r * 8;
        float sum = rows[r].sum;
        sum = sum + shuffle_xor(sum, 1);
        sum = sum + shuffle_xor(sum, 2);
        if (query < a->queries) {
            store_row(a, head_at(out, batch, head) + query * out->time,
                      &sums[r / 2 * (a->depth / 8)], r % 2 * 2,
                      sum > 0.0f ? a->factor / sum : 0.0f, p.column);
            if (p.column == 0)
                store_f32(lse + ((u64)(batch * a->heads + head) * a->queries + query) * 4,
                          rows[r].maximum * a->scale + logarithm(sum));
        }
    }
}

/* --- backward --- */

/* delta = sum of dout * out over the head's elements, a warp a row. */
DEV void attention_delta(const struct attention *a, const struct heads *dout,
                         const struct heads *out, u8 *delta, u64 rows)
{
    const u32 lane = thread_index() % 32;
    const u64 row = (u64)block_index() * a->warps + thread_index() / 32;
    if (row >= rows)
        return;
    const u32 query = (u32)(row % a->queries), head = (u32)(row / a->queries % a->heads);
    const u32 batch = (u32)(row / a->queries / a->heads);
    const u8 *const x = head_at(dout, batch, head) + query * dout->time;
    const u8 *const y = head_at(out, batch, head) + query * out->time;
    float sum = 0.0f;
    if (a->element_bytes == 4)
        for (u32 c = lane; c < a->head_size; c += 32)
            sum = multiply_add(load_f32(x + c * 4), load_f32(y + c * 4), sum);
    else
        for (u32 c = lane * 2; c < a->head_size; c += 64) {
            const u32 left = read4(x + c * 2), right = read4(y + c * 2);
            sum = multiply_add(low_of(a, left), low_of(a, right), sum);
            sum = multiply_add(high_of(a, left), high_of(a, right), sum);
        }
    UNROLL for (u32 mask = 16; mask > 0; mask /= 2) sum = sum + shuffle_xor(sum, mask);
    if (lane == 0)
        store_f32(delta + row * 4, sum);
}

/* The probability of a score, and its gradient from that of the probability as dropout left it. */
DEV float probability(const struct attention *a, float score, float lse)
{
    return exponential2(multiply_add(score, a->scale * LOG2E, -(lse * LOG2E)));
}

DEV float score_gradient(const struct attention *a, float weight, float gradient, u32 kept,
                         float delta)
{
    return weight * ((kept ? gradient * a->factor : 0.0f) - delta);
}

DEV void attention_backward_queries(const struct attention *a, const struct heads *dout,
                                    const struct heads *q, const struct heads *k,
                                    const struct heads *v, const u8 *lse, const u8 *delta,
                                    const struct heads *dq, const struct random_state *random,
                                    u32 shared)
{
    const u32 owned = a->warps * 16, tiles = (a->queries + owned - 1) / owned;
    const struct place p = place_of(thread_index(), 1);
    const u32 index = block_index(), first = (tiles - 1 - index % tiles) * owned;
    const u32 batch = index / tiles / a->heads, head = index / tiles % a->heads;
    const u32 kv_head = head / (a->heads / a->kv_heads);
    const u8 *const keys = head_at(k, batch, kv_head), *const values = head_at(v, batch, kv_head);
    const u64 head_row = (u64)(batch * a->heads + head) * a->queries;
    const u32 seen_by_all = keys_seen(a, first);
    const u32 seen = keys_seen(a, least(first + owned, a->queries) - 1);
    const u32 stage_bytes = a->visited * a->pitch;
    const u32 q_tile = shared, dout_tile = q_tile + owned * a->pitch;
    const u32 k_tiles = dout_tile + owned * a->pitch, v_tiles = k_tiles + 2 * stage_bytes;
    float sums[FRAGMENTS][4], scores[FRAGMENTS][4], gradients[FRAGMENTS][4], row_lse[2], row_delta[2];
    clear(sums, a->depth / 8);
    UNROLL for (u32 r = 0; r < 2; r++) {
        const u32 query = first + p.row + r * 8, exists = query < a->queries;
        row_lse[r] = exists ? load_f32(lse + (head_row + query) * 4) : 0.0f;
        row_delta[r] = exists ? load_f32(delta + (head_row + query) * 4) : 0.0f;
    }
    copy_tile(a, q_tile, head_at(q, batch, head), q->time, first, owned, a->queries, p.thread);
    copy_tile(a, dout_tile, head_at(dout, batch, head), dout->time, first, owned, a->queries,
              p.thread);
    copy_tile(a, k_tiles, keys, k->time, 0, a->visited, a->keys, p.thread);
    copy_tile(a, v_tiles, values, v->time, 0, a->visited, a->keys, p.thread);
    end_copies();
    u32 stage = 0;
    for (u32 begin = 0; begin < seen; begin += a->visited) {
        const u32 next = begin + a->visited, k_tile = k_tiles + stage, v_tile = v_tiles + stage;
        wait_copies(0);
        barrier();
        stage = stage_bytes - stage;
        if (next < seen) {
            copy_tile(a, k_tiles + stage, keys, k->time, next, a->visited, a->keys, p.thread);
            copy_tile(a, v_tiles + stage, values, v->time, next, a->visited, a->keys, p.thread);
        }
        end_copies();
        clear(scores, a->visited / 8);
        clear(gradients, a->visited / 8);
        add_products(scores, a, q_tile, k_tile, &p);
        add_products(gradients, a, dout_tile, v_tile, &p);
        UNROLL for (u32 j = 0; j < a->visited / 8; j++) {
            const u64 element = (head_row + first + p.row - p.lane / 4) * a->keys + begin + j * 8;
            const u32 kept = a->drops ? kept_by_query(a, random, element, p.lane) : 15;
            UNROLL for (u32 e = 0; e < 4; e++) {
                float weight = probability(a, scores[j][e], row_lse[e / 2]);
                if (next > seen_by_all && begin + j * 8 + p.column + e % 2 >=
                                              keys_seen(a, first + p.row + e / 2 * 8))
                    weight = 0.0f;
                scores[j][e] =
                    score_gradient(a, weight, gradients[j][e], kept >> e & 1, row_delta[e / 2]);
            }
        }
        add_weighted(sums, a, scores, k_tile, &p);
    }
    wait_copies(0);
    UNROLL for (u32 r = 0; r < 2; r++) {
        const u32 query = first + p.row + r * 8;
        if (query < a->queries)
            store_row(a, head_at(dq, batch, head) + query * dq->time, sums, r * 2, a->scale,
                      p.column);
    }
}

/* What the keys of a group of heads visit, step by step: the tiles of one head after the other, from
 * the first that sees any of them. */
struct visit {
    const struct heads *q, *dout;
    const u8 *lse, *delta;
    u32 batch, head, begin, tiles; /* the group's first head; tiles of each, and the first row */
};

DEV u32 visit_head(const struct visit *x, u32 step) { return x->head + step / x->tiles; }

DEV u32 visit_query(const struct attention *a, const struct visit *x, u32 step)
{
    return x->begin + step % x->tiles * a->visited;
}

/* In shared memory: tiles of q and dout, then of the rows lse and delta. */
DEV void copy_visit(const struct attention *a, const struct visit *x, u32 step, u32 stage, u32 thread)
{
    const u32 head = visit_head(x, step), first = visit_query(a, x, step), rows = a->visited;
    const u64 row = ((u64)(x->batch * a->heads + head) * a->queries + first) * 4;
    const u32 floats = stage + 2 * rows * a->pitch;
    copy_tile(a, stage, head_at(x->q, x->batch, head), x->q->time, first, rows, a->queries, thread);
    copy_tile(a, stage + rows * a->pitch, head_at(x->dout, x->batch, head), x->dout->time, first,
              rows, a->queries, thread);
    for (u32 i = thread; i < rows; i += a->warps * 32) {
        const u32 bytes = first + i < a->queries ? 4 : 0;
        copy4(floats + i * 4, x->lse + row + i * 4, bytes);
        copy4(floats + (rows + i) * 4, x->delta + row + i * 4, bytes);
    }
}

DEV void attention_backward_keys(const struct attention *a, const struct heads *dout,
                                 const struct heads *q, const struct heads *k,
                                 const struct heads *v, const u8 *lse, const u8 *delta,
                                 const struct heads *dk, const struct heads *dv,
                                 const struct random_state *random, u32 shared)
{
    const u32 owned = a->warps * 16, tiles = (a->keys + owned - 1) / owned;
    const struct place p = place_of(thread_index(), 1);
    const u32 index = block_index(), first = index % tiles * owned, group = a->heads / a->kv_heads;
    const u32 batch = index / tiles / a->kv_heads, kv_head = index / tiles % a->kv_heads;
    const u32 k_tile = shared, v_tile = k_tile + owned * a->pitch;
    const u32 stages = v_tile + owned * a->pitch, stage_bytes = a->visited * (2 * a->pitch + 8);
    const u32 hidden = a->causal && first + a->queries > a->keys ? first + a->queries - a->keys : 0;
    struct visit x;
    x.q = q;
    x.dout = dout;
    x.lse = lse;
    x.delta = delta;
    x.batch = batch;
    x.head = kv_head * group;
    x.begin = hidden / a->visited * a->visited;
    x.tiles = hidden < a->queries ? (a->queries - x.begin + a->visited - 1) / a->visited : 0;
    float dk_sums[FRAGMENTS][4], dv_sums[FRAGMENTS][4];
    float scores[FRAGMENTS][4], gradients[FRAGMENTS][4];
    clear(dk_sums, a->depth / 8);
    clear(dv_sums, a->depth / 8);
    copy_tile(a, k_tile, head_at(k, batch, kv_head), k->time, first, owned, a->keys, p.thread);
    copy_tile(a, v_tile, head_at(v, batch, kv_head), v->time, first, owned, a->keys, p.thread);
    if (x.tiles > 0)
        copy_visit(a, &x, 0, stages, p.thread);
    end_copies();
    for (u32 step = 0; step < x.tiles * group; step++) {
        const u32 q_tile = stages + step % 2 * stage_bytes, dout_tile = q_tile + a->visited * a->pitch;
        const u32 floats = dout_tile + a->visited * a->pitch + p.column * 4;
        const u32 query = visit_query(a, &x, step);
        const u64 row = (u64)(batch * a->heads + visit_head(&x, step)) * a->queries + query;
        const u32 all_seen = first + owned <= keys_seen(a, query);
        wait_copies(0);
        barrier();
        if (step + 1 < x.tiles * group)
            copy_visit(a, &x, step + 1, stages + (step + 1) % 2 * stage_bytes, p.thread);
        end_copies();
        clear(scores, a->visited / 8);
        clear(gradients, a->visited / 8);
        add_products(scores, a, k_tile, q_tile, &p);
        add_products(gradients, a, v_tile, dout_tile, &p);
        UNROLL for (u32 j = 0; j < a->visited / 8; j++) {
            const u64 element = (row + j * 8) * a->keys + first + p.row - p.lane / 4;
            const u32 kept = a->drops ? kept_by_key(a, random, element, p.lane) : 15;
            const struct u32x2 sums = shared_read8(floats + j * 32);
            const struct u32x2 deltas = shared_read8(floats + (a->visited + j * 8) * 4);
            UNROLL for (u32 e = 0; e < 4; e++) {
                const u32 key = first + p.row + e / 2 * 8;
                float weight =
                    probability(a, scores[j][e], float_of_bits(e % 2 ? sums.y : sums.x));
                if (!all_seen && key >= keys_seen(a, query + j * 8 + p.column + e % 2))
                    weight = 0.0f;
                scores[j][e] = kept >> e & 1 ? weight : 0.0f;
                gradients[j][e] =
                    score_gradient(a, weight, gradients[j][e], kept >> e & 1,
                                   float_of_bits(e % 2 ? deltas.y : deltas.x));
            }
        }
        add_weighted(dv_sums, a, scores, dout_tile, &p);
        add_weighted(dk_sums, a, gradients, q_tile, &p);
    }
    wait_copies(0);
    UNROLL for (u32 r = 0; r < 2; r++) {
        const u32 key = first + p.row + r * 8;
        if (key < a->keys) {
            store_row(a, head_at(dk, batch, kv_head) + key * dk->time, dk_sums, r * 2, a->scale,
                      p.column);
            store_row(a, head_at(dv, batch, kv_head) + key * dv->time, dv_sums, r * 2, a->factor,
                      p.column);
        }
    }
}
#endif
