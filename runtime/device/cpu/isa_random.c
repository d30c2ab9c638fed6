/* SPDX-License-Identifier: Apache-2.0 */
/* Philox4x32-10 in batches of 64 blocks, each of the four words in its own array so that the
 * rounds vectorise, and standard normals by Box and Muller. */
#include "cpu_math.h"
#include "isa.h"

#define BATCH 64

struct philox_batch {
    uint32_t word[4][BATCH];
};

/* The first `blocks` of a batch, a multiple of 16; inlined, so that it is a constant. */
static inline __attribute__((always_inline)) void make_blocks(struct philox_batch *batch,
                                                              int blocks, uint64_t first_block,
                                                              uint64_t site, uint64_t seed)
{
    uint32_t *c0 = batch->word[0], *c1 = batch->word[1], *c2 = batch->word[2], *c3 = batch->word[3];
    uint32_t key0 = (uint32_t)seed, key1 = (uint32_t)(seed >> 32);
    for (int j = 0; j < blocks; j++) {
        uint64_t block = first_block + (uint64_t)j;
        c0[j] = (uint32_t)block;
        c1[j] = (uint32_t)(block >> 32);
        c2[j] = (uint32_t)site;
        c3[j] = (uint32_t)(site >> 32);
    }
    for (int round = 0; round < 10; round++) {
        for (int j = 0; j < blocks; j++) {
            uint64_t product0 = (uint64_t)0xD2511F53u * c0[j];
            uint64_t product1 = (uint64_t)0xCD9E8D57u * c2[j];
            c0[j] = (uint32_t)(product1 >> 32) ^ c1[j] ^ key0;
            c2[j] = (uint32_t)(product0 >> 32) ^ c3[j] ^ key1;
            c1[j] = (uint32_t)product1;
            c3[j] = (uint32_t)product0;
        }
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
}

static void make_batch(struct philox_batch *batch, uint64_t first_block, uint64_t site,
                       uint64_t seed)
{
    make_blocks(batch, BATCH, first_block, site, seed);
}

static int batch_blocks(int64_t blocks)
{
    return blocks < BATCH ? (int)blocks : BATCH;
}

void CPU_NAME(cpu_philox)(uint32_t *out, uint64_t first_block, int64_t blocks, uint64_t site,
                          uint64_t seed)
{
    struct philox_batch batch;
    for (int count; blocks > 0; blocks -= count, first_block += BATCH, out += 4 * count) {
        make_batch(&batch, first_block, site, seed);
        count = batch_blocks(blocks);
        for (int j = 0; j < count; j++)
            for (int w = 0; w < 4; w++)
                out[4 * j + w] = batch.word[w][j];
    }
}

/* Half a batch serves a tile of the interpreter. */
void CPU_NAME(cpu_uniforms)(float *out, uint64_t index, int64_t count, uint64_t site, uint64_t seed)
{
    struct philox_batch batch;
    float uniforms[4 * BATCH];
    while (count > 0) {
        int64_t skip = (int64_t)(index % 4);
        int64_t taken = count < 4 * BATCH - skip ? count : 4 * BATCH - skip;
        bool half = skip + taken <= 2 * BATCH;
        if (half)
            make_blocks(&batch, BATCH / 2, index / 4, site, seed);
        else
            make_batch(&batch, index / 4, site, seed);
        for (int j = 0; j < (half ? BATCH / 2 : BATCH); j++)
            for (int w = 0; w < 4; w++)
                uniforms[4 * j + w] = (float)(int32_t)(batch.word[w][j] >> 8) * 0x1p-24f;
        memcpy(out, uniforms + skip, (size_t)taken * sizeof *out);
        out += taken;
        index += (uint64_t)taken;
        count -= taken;
    }
}

/* u = (word + 1/2) / 2^32 to fp32 precision, in (0, 1] */
static inline float box_muller_radius(uint32_t word)
{
    float u = (float)(int32_t)(word >> 1) * 4.65661287307739258e-10f + 1.16415321826934814e-10f;
    return __builtin_sqrtf(-2.0f * cpu_log(u));
}

void CPU_NAME(cpu_normals)(float *out, uint64_t first_block, int64_t blocks, uint64_t site,
                           uint64_t seed)
{
    struct philox_batch batch;
    float normal[4][BATCH];
    for (int count; blocks > 0; blocks -= count, first_block += BATCH, out += 4 * count) {
        make_batch(&batch, first_block, site, seed);
        for (int pair = 0; pair < 4; pair += 2)
            for (int j = 0; j < BATCH; j++) {
                float radius = box_muller_radius(batch.word[pair][j]), sine, cosine;
                cpu_sin_cos_turn(batch.word[pair + 1][j], &sine, &cosine);
                normal[pair][j] = radius * cosine;
                normal[pair + 1][j] = radius * sine;
            }
        count = batch_blocks(blocks);
        for (int j = 0; j < count; j++)
            for (int w = 0; w < 4; w++)
                out[4 * j + w] = normal[w][j];
    }
}
