/* SPDX-License-Identifier: Apache-2.0 */
/* Blocking of the sgemm. A block of A (m x 384, streamed from L2 or L3 in panels) meets a block of
 * B (384 x n, resident in L2), both packed. Threads claim rectangles of C, each with its whole k
 * loop, so nothing is shared; how C is cut follows from a small model of packing and balance. */
#include "cpu_sgemm.h"

#include <assert.h>

#define A_BLOCK_FLOATS (784 * CPU_SGEMM_K_BLOCK)
#define B_BLOCK_FLOATS (576 * CPU_SGEMM_K_BLOCK)
#define PACK_COST      32             /* of one element, in multiply-adds */
#define SERIAL_WORK    (64 * 64 * 64) /* multiply-adds below which threads do not pay */

#define TILE_M 784 /* of a rounded C; as large as the scratch allows, to pack seldom */
#define TILE_N 576

_Static_assert((A_BLOCK_FLOATS + B_BLOCK_FLOATS) * sizeof(float) == CPU_SGEMM_SCRATCH_BYTES,
               "the packed blocks fill the scratch");

_Static_assert(CPU_SGEMM_SCRATCH_BYTES + TILE_M * TILE_N * sizeof(float) <= CPU_SCRATCH_BYTES,
               "a tile fits the scratch");

/* The size of even blocks of `length`, none above `limit`, in multiples of `unit`. */
static int64_t even_block(int64_t length, int64_t limit, int64_t unit)
{
    int64_t blocks = remat_divide_up(length, limit / unit * unit);
    return remat_divide_up(remat_divide_up(length, blocks), unit) * unit;
}

static void zero(const struct cpu_matmul *mm)
{
    for (int64_t i = 0; i < mm->m; i++)
        memset(cpu_element_at(mm->c, mm->c_type, i * mm->ldc), 0,
               (size_t)(mm->n * remat_dtype_bytes(mm->c_type)));
}

static const void *at_a(const struct cpu_matmul *mm, int64_t i, int64_t p)
{
    return cpu_element_at(mm->a, mm->a_type, i * mm->a_row + p * mm->a_column);
}

static const void *at_b(const struct cpu_matmul *mm, int64_t p, int64_t j)
{
    return cpu_element_at(mm->b, mm->b_type, p * mm->b_row + j * mm->b_column);
}

/* C is f32. */
static void multiply_blocks(const struct cpu_functions *functions, const struct cpu_matmul *matmul,
                            float *scratch)
{
    const struct cpu_matmul mm = *matmul;
    float *packed_a = scratch, *packed_b = scratch + A_BLOCK_FLOATS, *c = mm.c;
    int64_t k_block = remat_min64(mm.k, CPU_SGEMM_K_BLOCK);
    int64_t m_block = even_block(mm.m, A_BLOCK_FLOATS / k_block, functions->tile_rows);
    int64_t n_block = even_block(mm.n, B_BLOCK_FLOATS / k_block, functions->tile_columns);
    bool one_b_block = k_block == mm.k && n_block >= mm.n;
    for (int64_t i = 0; i < mm.m; i += m_block) {
        int64_t rows = remat_min64(mm.m - i, m_block);
        for (int64_t p = 0; p < mm.k; p += k_block) {
            int64_t depth = remat_min64(mm.k - p, k_block);
            functions->pack_a[mm.a_type](at_a(&mm, i, p), mm.a_row, mm.a_column, rows, depth,
                                         packed_a);
            for (int64_t j = 0; j < mm.n; j += n_block) {
                int64_t columns = remat_min64(mm.n - j, n_block);
                if (i == 0 || !one_b_block)
                    functions->pack_b[mm.b_type](at_b(&mm, p, j), mm.b_row, mm.b_column, depth,
                                                 columns, packed_b);
                functions->multiply(rows, columns, depth, packed_a, packed_b, c + i * mm.ldc + j,
                                    mm.ldc, p == 0 && !mm.accumulate);
            }
        }
    }
}

/* One tile of a rounded C, which lies in f32 after the packed blocks until it is done. */
static void multiply_tile(const struct cpu_functions *functions, const struct cpu_matmul *matmul,
                          float *scratch)
{
    struct cpu_matmul mm = *matmul;
    float *tile = scratch + CPU_SGEMM_SCRATCH_BYTES / sizeof(float);
    mm.c = tile;
    mm.ldc = mm.n;
    for (int64_t i = 0; i < mm.m && mm.accumulate; i++)
        functions->widen[mm.c_type](tile + i * mm.n,
                                    cpu_element_at(matmul->c, mm.c_type, i * matmul->ldc), mm.n);
    multiply_blocks(functions, &mm, scratch);
    for (int64_t i = 0; i < mm.m; i++)
        functions->narrow[mm.c_type](cpu_element_at(matmul->c, mm.c_type, i * matmul->ldc),
                                     tile + i * mm.n, mm.n);
}

static void multiply_narrow(const struct cpu_functions *functions, const struct cpu_matmul *matmul,
                            float *scratch)
{
    int64_t m_tile = even_block(matmul->m, TILE_M, functions->tile_rows);
    int64_t n_tile = even_block(matmul->n, TILE_N, functions->tile_columns);
    for (int64_t j = 0; j < matmul->n; j += n_tile)
        for (int64_t i = 0; i < matmul->m; i += m_tile) {
            struct cpu_matmul mm = *matmul;
            mm.m = remat_min64(mm.m - i, m_tile);
            mm.n = remat_min64(mm.n - j, n_tile);
            mm.a = at_a(matmul, i, 0);
            mm.b = at_b(matmul, 0, j);
            mm.c = cpu_element_at(matmul->c, matmul->c_type, i * matmul->ldc + j);
            multiply_tile(functions, &mm, scratch);
        }
}

void cpu_sgemm_serial(const struct cpu_functions *functions, const struct cpu_matmul *matmul,
                      float *scratch)
{
    assert(matmul->m >= 0 && matmul->n >= 0 && matmul->k >= 0);
    if (matmul->k == 0 && !matmul->accumulate)
        zero(matmul);
    if (matmul->m == 0 || matmul->n == 0 || matmul->k == 0)
        return;
    if (remat_dtype_is_rounded(matmul->c_type))
        multiply_narrow(functions, matmul, scratch);
    else
        multiply_blocks(functions, matmul, scratch);
}

/* A grid over C: items of rows x columns each. */
struct grid {
    int64_t down, across, rows, columns;
};

static struct grid grid_of(const struct cpu_functions *f, const struct cpu_matmul *mm, int64_t down,
                           int64_t across)
{
    int64_t rows = remat_divide_up(remat_divide_up(mm->m, down), f->tile_rows) * f->tile_rows;
    int64_t columns =
        remat_divide_up(remat_divide_up(mm->n, across), f->tile_columns) * f->tile_columns;
    return (struct grid){remat_divide_up(mm->m, rows), remat_divide_up(mm->n, columns), rows,
                         columns};
}

/* Predicted time of a grid per unit of k: rounds of items, and a part of one that a thread waits at
 * the end. An item packs its rows once and its columns once per block of A. */
static double grid_cost(const struct grid *grid, int threads)
{
    double rows = (double)grid->rows, columns = (double)grid->columns;
    double a_blocks = (double)remat_divide_up(grid->rows, A_BLOCK_FLOATS / CPU_SGEMM_K_BLOCK);
    double item = rows * columns + PACK_COST * (rows + columns * a_blocks);
    return ((double)remat_divide_up(grid->down * grid->across, threads) + 0.25) * item;
}

static struct grid choose_grid(const struct cpu_functions *functions, const struct cpu_matmul *mm,
                               int threads)
{
    struct grid best = grid_of(functions, mm, 1, 1);
    double best_cost = grid_cost(&best, threads);
    for (int64_t down = 1; down <= 4 * threads; down++)
        for (int64_t across = 1; down * across <= 4 * threads; across++) {
            struct grid grid = grid_of(functions, mm, down, across);
            double cost = grid_cost(&grid, threads);
            if (cost < best_cost) {
                best = grid;
                best_cost = cost;
            }
        }
    return best;
}

struct sgemm_run {
    const struct cpu_functions *functions;
    const struct cpu_matmul *matmul;
    float *const *scratch;
    struct grid grid;
};

static void run_item(void *arg, int64_t item, int worker)
{
    const struct sgemm_run *run = arg;
    struct cpu_matmul mm = *run->matmul;
    int64_t i = item % run->grid.down * run->grid.rows;
    int64_t j = item / run->grid.down * run->grid.columns;
    mm.m = remat_min64(mm.m - i, run->grid.rows);
    mm.n = remat_min64(mm.n - j, run->grid.columns);
    mm.a = at_a(&mm, i, 0);
    mm.b = at_b(&mm, 0, j);
    mm.c = cpu_element_at(mm.c, mm.c_type, i * mm.ldc + j);
    cpu_sgemm_serial(run->functions, &mm, run->scratch[worker]);
}

void cpu_sgemm(struct cpu_pool *pool, const struct cpu_functions *functions,
               const struct cpu_matmul *matmul, float *const *scratch)
{
    int threads = cpu_pool_threads(pool);
    double work = (double)matmul->m * (double)matmul->n * (double)matmul->k;
    if (threads == 1 || work < SERIAL_WORK) {
        cpu_sgemm_serial(functions, matmul, scratch[0]);
        return;
    }
    struct sgemm_run run = {functions, matmul, scratch, choose_grid(functions, matmul, threads)};
    cpu_pool_run(pool, run.grid.down * run.grid.across, run_item, &run);
}
