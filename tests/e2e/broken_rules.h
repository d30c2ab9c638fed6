/* SPDX-License-Identifier: Apache-2.0 */
/* What rule_mutants.def puts into the CPU device: code that breaks a rule of docs/numerics.md. */
#ifndef TESTS_E2E_BROKEN_RULES_H
#define TESTS_E2E_BROKEN_RULES_H

#include "cpu_fill.h"
#include "cpu_sgemm.h"
#include "cpu_tile_builder.h"

/* --- loops in place of those in cpu_tile_isa.c --- */

#define LOOP(name, statement)                                                                      \
    static inline void name(float *d, const float *a, const float *b, const float *c,              \
                            int64_t count)                                                         \
    {                                                                                              \
        (void)a, (void)b, (void)c;                                                                 \
        for (int64_t i = 0; i < count; i++)                                                        \
            statement;                                                                             \
    }
LOOP(sum_in_32_lanes, d[i % 32] += a[i])

/* --- pairs of operations with one rounding, in the order of CPU_TILE_PAIR --- */

#define INNER(op) ((double)a[i] op(double) b[i])
#define PAIRS(name, op)                                                                            \
    LOOP(wide_##name##_add, d[i] = (float)(INNER(op) + (double)c[i]))                              \
    LOOP(wide_##name##_sub, d[i] = (float)(INNER(op) - (double)c[i]))                              \
    LOOP(wide_##name##_rsub, d[i] = (float)((double)c[i] - INNER(op)))                             \
    LOOP(wide_##name##_mul, d[i] = (float)(INNER(op) * (double)c[i]))                              \
    LOOP(wide_##name##_div, d[i] = (float)(INNER(op) / (double)c[i]))                              \
    LOOP(wide_##name##_rdiv, d[i] = (float)((double)c[i] / INNER(op)))
PAIRS(add, +)
PAIRS(sub, -)
PAIRS(mul, *)
PAIRS(div, /)

#define ROW(name)                                                                                  \
    wide_##name##_add, wide_##name##_sub, wide_##name##_rsub, wide_##name##_mul,                   \
        wide_##name##_div, wide_##name##_rdiv
static inline cpu_tile_op *wide_loop(const struct cpu_tile_table *table, uint16_t opcode)
{
    static cpu_tile_op *const loops[] = {ROW(add), ROW(sub), ROW(mul), ROW(div)};
    return opcode < CPU_TILE_pairs ? table->ops[opcode] : loops[opcode - CPU_TILE_pairs];
}

/* --- a product and a sum contracted --- */

enum { CONTRACTED = CPU_TILE_OP_COUNT };

LOOP(contracted, d[i] = __builtin_fmaf(a[i], b[i], c[i]))

static inline cpu_tile_op *contracted_loop(const struct cpu_tile_table *table, uint16_t opcode)
{
    return opcode == CONTRACTED ? contracted : table->ops[opcode];
}

static inline bool is_used_once(const struct cpu_tile_builder *b, uint16_t reg)
{
    int uses = 0;
    for (uint32_t i = 0; i < b->count; i++)
        for (uint32_t k = 0; k < arity_of(&b->nodes[i]); k++)
            uses += b->nodes[i].args[k] == reg;
    return uses == 1;
}

/* Before the device joins pairs. */
static inline void contract(struct cpu_tile_builder *b)
{
    for (uint32_t i = 0; i < b->count; i++) {
        struct node *node = &b->nodes[i];
        for (int k = 0; k < 2 && node->opcode == REMAT_INSTRUCTION_add; k++) {
            const struct node *product = &b->nodes[node->args[k]];
            if (product->opcode != REMAT_INSTRUCTION_mul || !is_used_once(b, node->args[k]))
                continue;
            uint16_t other = node->args[1 - k];
            *node = (struct node){.opcode = CONTRACTED,
                                  .class = node->class,
                                  .args = {product->args[0], product->args[1], other}};
        }
    }
}

/* --- K in two halves --- */

static inline void multiply_halves(struct cpu_pool *pool, const struct cpu_functions *functions,
                                   const struct cpu_matmul *matmul, float *const *scratch)
{
    struct cpu_matmul half = *matmul;
    half.k = matmul->k / 2;
    cpu_sgemm(pool, functions, &half, scratch);
    half.a = cpu_element_at(half.a, half.a_type, half.k * half.a_column);
    half.b = cpu_element_at(half.b, half.b_type, half.k * half.b_row);
    half.k = matmul->k - half.k;
    half.accumulate = true;
    cpu_sgemm(pool, functions, &half, scratch);
}

/* --- random numbers that count from zero in the share of each thread --- */

static inline uint64_t index_in_share(uint64_t index, int64_t count, int threads)
{
    return index % ((uint64_t)count / (uint64_t)threads + 1);
}

static inline void fill_shares(struct cpu_pool *pool, const struct cpu_functions *functions,
                               void *out, remat_dtype type, int64_t count,
                               const struct cpu_normal *normal)
{
    int64_t share = count / cpu_pool_threads(pool) + 1;
    for (int64_t begin = 0; begin < count; begin += share)
        cpu_fill_normal(pool, functions, cpu_element_at(out, type, begin), type,
                        count - begin < share ? count - begin : share, normal);
}

#endif
