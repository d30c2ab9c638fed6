/* SPDX-License-Identifier: Apache-2.0 */
/* Attention: queries visit the keys, exponentials against a running maximum. */
#ifndef REMAT_ATTENTION_FORWARD
#define REMAT_ATTENTION_FORWARD
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

DEV void hide_segments(const struct attention *a, float (*scores)[4], u32 e0, u32 first,
                       const struct segments *segments, u32 batch, u32 query)
{
    const i32 own = query_segment(a, segments, batch, query);
    UNROLL for (u32 j = 0; j < a->visited / 8; j++)
        UNROLL for (u32 e = 0; e < 2; e++)
            if (is_hidden(a, own, key_segment(a, segments, batch, first + j * 8 + e)))
                scores[j][e0 + e] = -INFINITE;
}

DEV void attention_forward(const struct attention *a, const struct heads *q, const struct heads *k,
                           const struct heads *v, const struct heads *out, u8 *lse,
                           const struct random_state *random, const struct segments *segments,
                           u32 shared)
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
            if (a->query_segments || a->key_segments)
                hide_segments(a, strip, e0, begin + p.column, segments, batch, first + row);
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
#endif

BODY(attention_forward)
{
    attention_forward(&a, &q, &k, &v, &out, lse, &random, &segments, shared);
}
