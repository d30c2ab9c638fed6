/* SPDX-License-Identifier: Apache-2.0 */
/* Gradient of attention: delta of each row; then dq, queries visiting the keys; then dk and dv, keys
 * visiting the queries of their group of heads. */
#ifndef REMAT_ATTENTION_BACKWARD
#define REMAT_ATTENTION_BACKWARD
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
                                    const struct segments *segments, u32 shared)
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
    i32 row_segment[2];
    clear(sums, a->depth / 8);
    UNROLL for (u32 r = 0; r < 2; r++) {
        const u32 query = first + p.row + r * 8, exists = query < a->queries;
        row_lse[r] = exists ? load_f32(lse + (head_row + query) * 4) : 0.0f;
        row_delta[r] = exists ? load_f32(delta + (head_row + query) * 4) : 0.0f;
        row_segment[r] = query_segment(a, segments, batch, query);
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
                const u32 key = begin + j * 8 + p.column + e % 2;
                float weight = probability(a, scores[j][e], row_lse[e / 2]);
                if (next > seen_by_all && key >= keys_seen(a, first + p.row + e / 2 * 8))
                    weight = 0.0f;
                if (is_hidden(a, row_segment[e / 2], key_segment(a, segments, batch, key)))
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
                                 const struct random_state *random,
                                 const struct segments *segments, u32 shared)
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
    i32 row_segment[2];
    UNROLL for (u32 r = 0; r < 2; r++)
        row_segment[r] = key_segment(a, segments, batch, first + p.row + r * 8);
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
                const u32 visited = query + j * 8 + p.column + e % 2;
                if (!all_seen && key >= keys_seen(a, visited))
                    weight = 0.0f;
                if (is_hidden(a, query_segment(a, segments, batch, visited), row_segment[e / 2]))
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

BODY(attention_delta)
{
    attention_delta(&a, &dout, &out, delta, arguments.word[1]);
}

BODY(attention_backward_keys)
{
    attention_backward_keys(&a, &dout, &q, &k, &v, lse, delta, &dk, &dv, &random, &segments, shared);
}

BODY(attention_backward_queries)
{
    attention_backward_queries(&a, &dout, &q, &k, &v, lse, delta, &dq, &random, &segments, shared);
}
