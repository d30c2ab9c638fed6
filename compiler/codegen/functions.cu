/* SPDX-License-Identifier: Apache-2.0 */
/* What kernels are written in, on top of the primitives. The elementary functions, the random numbers
 * and the order of row sums are those of runtime/kernel/kernel.h and docs/numerics.md, bit for bit. */
#ifndef REMAT_FUNCTIONS
#define REMAT_FUNCTIONS
#define INFINITE float_of_bits(0x7f800000u)
#define NOT_A_NUMBER float_of_bits(0xffffffffu)

DEV u32 not_finite(float x) { return (bits_of_float(x) & 0x7f800000u) == 0x7f800000u; }

/* --- elementary functions: sums and products rounded one by one --- */
DEV float round_bf16(float x) { return float_of_bits(narrow_pair(x, 0.0f) << 16); }

DEV float exponential(float x)
{
    float c = x > 88.8f ? 88.8f : x;
    c = c < -104.0f ? -104.0f : c;
    float n = c * 1.44269504088896341f + 12582912.0f;
    const i32 k = (i32)(bits_of_float(n) - 0x4B400000u);
    n -= 12582912.0f;
    float r = c - n * 0.693359375f;
    r = r - n * -2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    const float y = p * (r * r) + r + 1.0f;
    const i32 half = k >> 1;
    return y * float_of_bits((u32)(half + 127) << 23) * float_of_bits((u32)(k - half + 127) << 23);
}

DEV float logarithm(float x)
{
    const i32 subnormal = x < 1.17549435e-38f;
    const float scaled = subnormal ? x * 8388608.0f : x;
    const u32 bits = bits_of_float(scaled);
    const u32 exponent = (bits - 0x3f2aaaabu) & 0xff800000u;
    const float m = float_of_bits(bits - exponent);
    const float e = (float)(i32)exponent * 1.19209290e-7f - (subnormal ? 23.0f : 0.0f);
    const float f = m - 1.0f, s = f * f;
    float r = -0.130310059f, t = 0.140869141f;
    r = r * s - 0.121483512f;
    t = t * s + 0.139814854f;
    r = r * s - 0.166846126f;
    t = t * s + 0.200120345f;
    r = r * s - 0.249996200f;
    r = t * f + r;
    r = r * f + 0.333331972f;
    r = r * f - 0.5f;
    r = r * s + f;
    r = e * 0.693147182f + r;
    r = x == 0.0f ? -INFINITE : r;
    r = x >= 0.0f ? r : float_of_bits(0x7fc00000u);
    return x == INFINITE ? x : r;
}

DEV float sigmoid(float x) { return 1.0f / (1.0f + exponential(-x)); }

DEV float with_sign(float magnitude, float sign)
{
    return float_of_bits((bits_of_float(magnitude) & 0x7fffffffu) |
                         (bits_of_float(sign) & 0x80000000u));
}

DEV float hyperbolic_tangent(float x)
{
    const float a = with_sign(x, 0.0f), z = x * x;
    float p = -5.70498872745e-3f;
    p = p * z + 2.06390887954e-2f;
    p = p * z - 5.37397155531e-2f;
    p = p * z + 1.33314422036e-1f;
    p = p * z - 3.33332819422e-1f;
    p = p * z * x + x;
    float t = 1.0f - 2.0f / (exponential(a + a) + 1.0f);
    t = a > 9.1f ? 1.0f : t;
    const float y = with_sign(a < 0.625f ? p : t, x);
    return x != x ? x : y;
}

DEV float error_function(float x)
{
    const float t = with_sign(x, 0.0f), s = x * x;
    float r = -1.72853470e-5f, u = -3.88396438e-3f;
    r = r * t + 3.83197126e-4f;
    u = u * t + 2.42546219e-2f;
    r = r * s + u;
    r = r * t - 1.06777877e-1f;
    r = r * t - 6.34846687e-1f;
    r = r * t - 1.28717512e-1f;
    r = r * t - t;
    r = with_sign(1.0f - exponential(r), x);
    float q = -5.96761703e-4f;
    q = q * s + 4.99119423e-3f;
    q = q * s - 2.67681349e-2f;
    q = q * s + 1.12819925e-1f;
    q = q * s - 3.76125336e-1f;
    q = q * s + 1.28379166e-1f;
    q = q * x + x;
    return t > 0.921875f ? r : q;
}

/* --- random numbers --- */
struct random_state { u32 seed_low, seed_high, step, site; u64 first; };

/* `first`: the index of the space's element 0 in the tensor of the whole batch. */
DEV struct random_state read_random_state(const u8 *p, u64 elements, u32 site)
{
    struct random_state s;
    s.seed_low = read4(p);
    s.seed_high = read4(p + 4);
    s.step = read4(p + 8);
    s.first = read4(p + 12) * elements;
    s.site = site;
    return s;
}

/* Philox4x32-10 */
DEV struct u32x4 random_words(const struct random_state *s, u64 quarter)
{
    u32 c0 = (u32)quarter, c1 = (u32)(quarter >> 32), c2 = s->site, c3 = s->step;
    u32 k0 = s->seed_low, k1 = s->seed_high;
    UNROLL for (u32 round = 0; round < 10; round++) {
        const u32 h0 = multiply_high(0xD2511F53u, c0), h1 = multiply_high(0xCD9E8D57u, c2);
        const u32 l0 = 0xD2511F53u * c0, l1 = 0xCD9E8D57u * c2;
        c0 = h1 ^ c1 ^ k0;
        c2 = h0 ^ c3 ^ k1;
        c1 = l1;
        c3 = l0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    struct u32x4 words;
    words.x = c0;
    words.y = c1;
    words.z = c2;
    words.w = c3;
    return words;
}

DEV float uniform_of_word(u32 word) { return (float)(word >> 8) * float_of_bits(0x33800000u); }

DEV float random_element(const struct random_state *s, u64 element)
{
    const u64 index = s->first + element;
    const struct u32x4 words = random_words(s, index >> 2);
    const u32 even = index & 2 ? words.z : words.x, odd = index & 2 ? words.w : words.y;
    return uniform_of_word(index & 1 ? odd : even);
}

/* Of `width` elements from `element` on; where they begin at a multiple of their number, one call makes
 * four of them, or two. `aligned`: they always do. */
DEV void random_vector(float *x, const struct random_state *s, u64 element, u32 width, u32 aligned)
{
    const u64 index = s->first + element;
    if (width >= 4 && (aligned || (index & 3) == 0)) {
        UNROLL for (u32 e = 0; e < width; e += 4) {
            const struct u32x4 words = random_words(s, (index + e) >> 2);
            x[e] = uniform_of_word(words.x);
            x[e + 1] = uniform_of_word(words.y);
            x[e + 2] = uniform_of_word(words.z);
            x[e + 3] = uniform_of_word(words.w);
        }
    } else if (width == 2 && (aligned || (index & 1) == 0)) {
        const struct u32x4 words = random_words(s, index >> 2);
        x[0] = uniform_of_word(index & 2 ? words.z : words.x);
        x[1] = uniform_of_word(index & 2 ? words.w : words.y);
    } else {
        UNROLL for (u32 e = 0; e < width; e++) x[e] = random_element(s, element + e);
    }
}

/* --- memory: one element, and vectors of 2, 4 or 8 of which the first `count` exist --- */
DEV float widen_low(u32 pair) { return float_of_bits(pair << 16); }
DEV float widen_high(u32 pair) { return float_of_bits(pair & 0xffff0000u); }
DEV float widen_high_half(u32 pair) { return widen_half(pair >> 16); }
DEV u32 join_words(float low, float high)
{
    return bits_of_float(low) >> 16 | (bits_of_float(high) & 0xffff0000u);
}

DEV float load_f32(const u8 *p) { return float_of_bits(read4(p)); }
DEV float load_bf16(const u8 *p) { return widen_low(read2(p)); }
DEV float load_f16(const u8 *p) { return widen_half(read2(p)); }
DEV float load_word16(const u8 *p) { return widen_low(read2(p)); }
DEV void store_word16(u8 *p, float x) { write2(p, bits_of_float(x) >> 16); }
DEV float load_i32(const u8 *p) { return (float)(i32)read4(p); }
DEV void store_f32(u8 *p, float x) { write4(p, bits_of_float(x)); }
DEV void store_bf16(u8 *p, float x) { write2(p, narrow_pair(x, 0.0f)); }
DEV void store_f16(u8 *p, float x) { write2(p, narrow_half_pair(x, 0.0f)); }

/* `width` words of four bytes as they are */
DEV void read_words(u32 *x, const u8 *p, u32 width)
{
    if (width == 1)
        x[0] = read4(p);
    if (width == 2) {
        const struct u32x2 v = read8(p);
        x[0] = v.x;
        x[1] = v.y;
    }
    if (width >= 4) {
        UNROLL for (u32 e = 0; e < width; e += 4) {
            const struct u32x4 v = read16(p + 4 * e);
            x[e] = v.x;
            x[e + 1] = v.y;
            x[e + 2] = v.z;
            x[e + 3] = v.w;
        }
    }
}

DEV void write_words(u8 *p, const u32 *x, u32 width)
{
    if (width == 1)
        write4(p, x[0]);
    if (width == 2)
        write8(p, x[0], x[1]);
    if (width >= 4) {
        UNROLL for (u32 e = 0; e < width; e += 4)
            write16(p + 4 * e, x[e], x[e + 1], x[e + 2], x[e + 3]);
    }
}

DEV void load_vector_f32(float *x, const u8 *p, u32 width, u32 count)
{
    if (count >= width) {
        u32 words[8];
        read_words(words, p, width);
        UNROLL for (u32 e = 0; e < width; e++) x[e] = float_of_bits(words[e]);
    } else {
        UNROLL for (u32 e = 0; e < width; e++) x[e] = e < count ? load_f32(p + 4 * e) : 0.0f;
    }
}

DEV void load_vector_i32(float *x, const u8 *p, u32 width, u32 count)
{
    if (count >= width) {
        u32 words[8];
        read_words(words, p, width);
        UNROLL for (u32 e = 0; e < width; e++) x[e] = (float)(i32)words[e];
    } else {
        UNROLL for (u32 e = 0; e < width; e++) x[e] = e < count ? load_i32(p + 4 * e) : 0.0f;
    }
}

DEV void store_vector_f32(u8 *p, const float *x, u32 width, u32 count)
{
    if (count >= width) {
        u32 words[8];
        UNROLL for (u32 e = 0; e < width; e++) words[e] = bits_of_float(x[e]);
        write_words(p, words, width);
    } else {
        UNROLL for (u32 e = 0; e < width; e++)
            if (e < count)
                store_f32(p + 4 * e, x[e]);
    }
}

/* Vectors of elements of two bytes: what is in the low and the high half of a word, and a word of two. */
#define VECTORS_OF_PAIRS(dtype, low, high, pair)                                                   \
    DEV void load_vector_##dtype(float *x, const u8 *p, u32 width, u32 count)                      \
    {                                                                                              \
        if (count >= width) {                                                                      \
            u32 pairs[4];                                                                          \
            read_words(pairs, p, width / 2);                                                       \
            UNROLL for (u32 e = 0; e < width; e += 2) {                                            \
                x[e] = low(pairs[e / 2]);                                                          \
                x[e + 1] = high(pairs[e / 2]);                                                     \
            }                                                                                      \
        } else {                                                                                   \
            UNROLL for (u32 e = 0; e < width; e++)                                                 \
                x[e] = e < count ? load_##dtype(p + 2 * e) : 0.0f;                                 \
        }                                                                                          \
    }                                                                                              \
    DEV void store_vector_##dtype(u8 *p, const float *x, u32 width, u32 count)                     \
    {                                                                                              \
        if (count >= width) {                                                                      \
            u32 pairs[4];                                                                          \
            UNROLL for (u32 e = 0; e < width; e += 2) pairs[e / 2] = pair(x[e], x[e + 1]);         \
            write_words(p, pairs, width / 2);                                                      \
        } else {                                                                                   \
            UNROLL for (u32 e = 0; e < width; e++)                                                 \
                if (e < count)                                                                     \
                    store_##dtype(p + 2 * e, x[e]);                                                \
        }                                                                                          \
    }
VECTORS_OF_PAIRS(bf16, widen_low, widen_high, narrow_pair)
VECTORS_OF_PAIRS(f16, widen_half, widen_high_half, narrow_half_pair)
VECTORS_OF_PAIRS(word16, widen_low, widen_high, join_words)

/* Of a dtype that a built-in kernel is told as a constant; a width of 1 needs no alignment. */
enum { DTYPE_f32, DTYPE_bf16, DTYPE_f16, DTYPE_word16 };
DEV u32 dtype_bytes(u32 dtype) { return dtype == DTYPE_f32 ? 4 : 2; }

#define LOAD_OF(name)                                                                              \
    if (dtype == DTYPE_##name && width == 1)                                                       \
        x[0] = load_##name(p);                                                                     \
    if (dtype == DTYPE_##name && width > 1)                                                        \
        load_vector_##name(x, p, width, width);
DEV void load_elements(float *x, u32 dtype, const u8 *p, u32 width)
{
    LOAD_OF(f32) LOAD_OF(bf16) LOAD_OF(f16) LOAD_OF(word16)
}

#define STORE_OF(name)                                                                             \
    if (dtype == DTYPE_##name && width == 1)                                                       \
        store_##name(p, x[0]);                                                                     \
    if (dtype == DTYPE_##name && width > 1)                                                        \
        store_vector_##name(p, x, width, count);
/* The first `count` of them, of which there is one at least. */
DEV void store_elements(u32 dtype, u8 *p, const float *x, u32 width, u32 count)
{
    STORE_OF(f32) STORE_OF(bf16) STORE_OF(f16) STORE_OF(word16)
}

/* --- row reductions: 64 lanes, of which a thread of a team has two or more --- */
DEV float combine_sum(float a, float b) { return a + b; }
DEV float combine_max(float a, float b) { return a > b ? a : b; }

/* Lanes l and l + w combined for w = 32, 16, ..., 1. The thread at `place` in its team has the lanes
 * place * width ...; with width 1 place and place + 32. Lane 0 decides; every thread gets it. */
#define TEAM_TOTAL(name, combine)                                                                  \
    DEV float name(const float *lanes, u32 width, u32 place)                                       \
    {                                                                                              \
        float x[8];                                                                                \
        UNROLL for (u32 e = 0; e < width; e++) x[e] = lanes[e];                                    \
        if (width == 1)                                                                            \
            x[0] = combine(lanes[0], lanes[1]);                                                    \
        UNROLL for (u32 mask = width == 1 ? 16 : 32 / width; mask > 0; mask /= 2)                  \
            UNROLL for (u32 e = 0; e < width; e++) {                                               \
                const float other = shuffle_xor(x[e], mask);                                       \
                x[e] = place & mask ? combine(other, x[e]) : combine(x[e], other);                 \
            }                                                                                      \
        UNROLL for (u32 rest = width / 2; rest > 0; rest /= 2)                                     \
            UNROLL for (u32 e = 0; e < rest; e++) x[e] = combine(x[e], x[e + rest]);               \
        return x[0];                                                                               \
    }
TEAM_TOTAL(team_sum, combine_sum)
TEAM_TOTAL(team_max, combine_max)

/* The same from 64 lanes in shared memory, by a whole block, which has written them. */
#define BLOCK_TOTAL(name, combine)                                                                 \
    DEV float name(float *shared, u32 lanes, u32 thread)                                           \
    {                                                                                              \
        barrier();                                                                                 \
        if (thread < 32) {                                                                         \
            float pair[2];                                                                         \
            pair[0] = shared_read(shared, lanes + thread);                                         \
            pair[1] = shared_read(shared, lanes + thread + 32);                                    \
            const float total = team_##name(pair, 1, thread);                                      \
            if (thread == 0)                                                                       \
                shared_write(shared, lanes, total);                                                \
        }                                                                                          \
        barrier();                                                                                 \
        return shared_read(shared, lanes);                                                         \
    }
#define team_block_sum team_sum
#define team_block_max team_max
BLOCK_TOTAL(block_sum, combine_sum)
BLOCK_TOTAL(block_max, combine_max)
#endif
