/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a prepared command: items of rows and columns, rows, stages, tiles, steps. */
#include "cpu_tile.h"

#include "cpu_tile_stages.h"

#if defined(__SSE2__)
#include <assert.h>
#include <immintrin.h>
#endif

#define PREFETCH_TILES 4
#define LINE_BYTES     64

struct tile_run {
    const struct cpu_tile *tile;
    char *memory, *scratch;
    uint64_t scratch_stride;
};

struct tile_worker {
    const struct cpu_tile *tile;
    char *memory;
    float **pointers;   /* by ref */
    float *stripes;     /* of the first stripe ref */
    int64_t begin, end; /* columns of the item */
    int64_t row[REMAT_RANK_MAX], row_number;
};

static void start_worker(struct tile_worker *worker, const struct tile_run *run, int number)
{
    const struct cpu_tile *tile = run->tile;
    char *scratch = run->scratch + (uint64_t)number * run->scratch_stride;
    *worker =
        (struct tile_worker){.tile = tile, .memory = run->memory, .pointers = (float **)scratch};
    worker->stripes = (float *)(scratch + tile->pointer_bytes);
    float *slots = worker->stripes + (int64_t)tile->stripe_count * CPU_TILE * STRIPE_TILES;
    uint32_t first = tile->access_count + tile->stripe_count;
    for (uint32_t s = 0; s < tile->slot_count; s++)
        worker->pointers[first + s] = slots + (int64_t)s * CPU_TILE;
}

/* --- where the pointers point --- */

static void seek(struct tile_worker *worker, int64_t row)
{
    worker->row_number = row;
    for (uint32_t k = worker->tile->row_axes; k-- > 0;) {
        worker->row[k] = row % worker->tile->axes[k];
        row /= worker->tile->axes[k];
    }
}

static void next_row(struct tile_worker *worker)
{
    worker->row_number++;
    for (uint32_t k = worker->tile->row_axes; k-- > 0;) {
        if (++worker->row[k] < worker->tile->axes[k])
            return;
        worker->row[k] = 0;
    }
}

/* To the first column of the item in the current row. */
static void rewind_pointers(struct tile_worker *worker)
{
    const struct cpu_tile *tile = worker->tile;
    for (uint32_t a = 0; a < tile->access_count; a++) {
        const struct access *access = &tile->accesses[a];
        int64_t bytes = worker->begin * access->column_bytes;
        for (uint32_t k = 0; k < tile->row_axes; k++)
            bytes += worker->row[k] * access->row_bytes[k];
        worker->pointers[a] = (float *)(worker->memory + access->offset_bytes + bytes);
    }
    for (uint32_t s = 0; s < tile->stripe_count; s++)
        worker->pointers[tile->access_count + s] =
            worker->stripes + (int64_t)s * CPU_TILE * STRIPE_TILES;
}

static void advance(struct tile_worker *worker)
{
    const struct cpu_tile *tile = worker->tile;
    for (uint32_t m = 0; m < tile->moving_count; m++) {
        uint16_t a = tile->moving[m];
        worker->pointers[a] = (float *)((char *)worker->pointers[a] + tile->accesses[a].tile_bytes);
    }
    for (uint32_t s = 0; s < tile->stripe_count; s++)
        worker->pointers[tile->access_count + s] += CPU_TILE;
}

static void prefetch(const struct tile_worker *worker)
{
    for (uint32_t a = 0; a < worker->tile->access_count; a++) {
        const struct access *access = &worker->tile->accesses[a];
        if (!access->prefetch)
            continue;
        const char *next = (const char *)worker->pointers[a] + PREFETCH_TILES * access->tile_bytes;
        for (int64_t line = 0; line < access->tile_bytes; line += LINE_BYTES)
            __builtin_prefetch(next + line, 0, 2);
    }
}

/* --- steps --- */

static void run_random(const struct tile_worker *worker, const struct cpu_tile_step *step,
                       int64_t column, int64_t count)
{
    const struct cpu_tile *tile = worker->tile;
    uint32_t state[4]; /* seed low, seed high, step, microbatch */
    memcpy(state, worker->pointers[step->access], sizeof state);
    int64_t index = worker->row_number * tile->columns + column;
    tile->table->uniforms(worker->pointers[step->d],
                          (uint64_t)index + state[3] * (uint64_t)(tile->rows * tile->columns),
                          count, step->u.site | (uint64_t)state[2] << 32,
                          state[0] | (uint64_t)state[1] << 32);
}

static void run_other_step(const struct tile_worker *worker, const struct cpu_tile_step *step,
                           int64_t column, int64_t count)
{
    float **pointers = worker->pointers;
    float *d = pointers[step->d];
    switch ((enum step_kind)step->kind) {
    case STEP_LOAD:
        step->u.load(d, pointers[step->access], worker->tile->accesses[step->access].column_stride,
                     count);
        break;
    case STEP_STORE:
        step->u.store(d, worker->tile->accesses[step->access].column_stride, pointers[step->a],
                      count);
        break;
    case STEP_COLUMN:
        for (int64_t i = 0; i < count; i++)
            d[i] = (float)(column + i);
        break;
    case STEP_RANDOM:
        run_random(worker, step, column, count);
        break;
    case STEP_CONSTANT:
        d[0] = step->u.immediate;
        break;
    case STEP_OP:
        break;
    }
}

static inline void run_step(const struct tile_worker *worker, const struct cpu_tile_step *step,
                            int64_t column, int64_t count)
{
    float **pointers = worker->pointers;
    if (step->kind == STEP_OP)
        step->u.op(pointers[step->d], pointers[step->a], pointers[step->b], pointers[step->c],
                   count);
    else
        run_other_step(worker, step, column, count);
}

static void fill(const struct tile_worker *worker, float *d, const float *value, int64_t count)
{
    worker->tile->table->ops[CPU_TILE_fill](d, value, value, value, count);
}

static void spread(const struct tile_worker *worker, uint16_t ref)
{
    float *d = worker->pointers[ref];
    fill(worker, d, d, remat_min64(CPU_TILE, worker->end - worker->begin));
}

/* Values that do not depend on the column. */
static void run_single_steps(const struct tile_worker *worker, const struct cpu_tile_steps *steps)
{
    for (size_t s = 0; s < steps->count; s++) {
        run_step(worker, &steps->items[s], 0, 1);
        if (steps->items[s].spread)
            spread(worker, steps->items[s].d);
    }
}

/* Moves the pointers past the item's columns. */
static void run_tiles(struct tile_worker *worker, const struct cpu_tile_steps *steps)
{
    for (int64_t column = worker->begin; column < worker->end; column += CPU_TILE) {
        if (worker->tile->prefetches)
            prefetch(worker);
        int64_t count = remat_min64(CPU_TILE, worker->end - column);
        for (size_t s = 0; s < steps->count; s++)
            run_step(worker, &steps->items[s], column, count);
        advance(worker);
    }
}

/* --- rows, with row reductions --- */

static void start_reductions(const struct tile_worker *worker, const struct reductions *reductions)
{
    for (size_t r = 0; r < reductions->count; r++) {
        const struct reduction *reduction = &reductions->items[r];
        fill(worker, worker->pointers[reduction->lanes], &reduction->identity,
             REMAT_REDUCTION_LANES);
    }
}

static void finish_reductions(const struct tile_worker *worker, const struct reductions *reductions)
{
    for (size_t r = 0; r < reductions->count; r++) {
        const struct reduction *reduction = &reductions->items[r];
        float *lanes = worker->pointers[reduction->lanes];
        for (int width = REMAT_REDUCTION_LANES / 2; width; width /= 2)
            reduction->combine(lanes, lanes, lanes + width, lanes, width);
        worker->pointers[reduction->total][0] = lanes[0];
        if (reduction->spread)
            spread(worker, reduction->total);
    }
}

static void run_row(struct tile_worker *worker)
{
    const struct cpu_tile *tile = worker->tile;
    for (uint32_t s = 0; s < tile->stage_count; s++) {
        const struct stage *stage = &tile->stages[s];
        rewind_pointers(worker);
        run_single_steps(worker, &stage->row);
        if (!stage->element.count)
            continue;
        start_reductions(worker, &stage->reductions);
        run_tiles(worker, &stage->element);
        finish_reductions(worker, &stage->reductions);
    }
    if (tile->row_end.count && worker->begin == 0) {
        rewind_pointers(worker);
        run_single_steps(worker, &tile->row_end);
    }
}

/* --- stripes, with column reductions --- */

static void start_block(struct tile_worker *worker, const struct reductions *reductions)
{
    const float zero = 0.0f;
    rewind_pointers(worker);
    for (size_t r = 0; r < reductions->count; r++)
        fill(worker, worker->pointers[reductions->items[r].lanes], &zero,
             worker->end - worker->begin);
}

static void finish_block(struct tile_worker *worker, const struct reductions *reductions,
                         bool first)
{
    const struct cpu_tile_table *table = worker->tile->table;
    cpu_tile_op *combine = table->ops[REMAT_INSTRUCTION_add];
    rewind_pointers(worker);
    for (size_t r = 0; r < reductions->count; r++) {
        const float *chain = worker->pointers[reductions->items[r].lanes];
        float *total = worker->pointers[reductions->items[r].total];
        if (first)
            memcpy(total, chain, (size_t)(worker->end - worker->begin) * sizeof *total);
        else
            combine(total, total, chain, chain, worker->end - worker->begin);
    }
}

static void run_stripe_row(struct tile_worker *worker, const struct stage *stage, bool last)
{
    rewind_pointers(worker);
    run_single_steps(worker, &stage->row);
    run_tiles(worker, &stage->element);
    if (last && worker->tile->row_end.count && worker->begin == 0) {
        rewind_pointers(worker);
        run_single_steps(worker, &worker->tile->row_end);
    }
}

static void run_stripe(struct tile_worker *worker)
{
    const struct cpu_tile *tile = worker->tile;
    for (uint32_t s = 0; s < tile->stage_count; s++) {
        const struct stage *stage = &tile->stages[s];
        bool last = s + 1 == tile->stage_count;
        bool rows = stage->element.count || (last && tile->row_end.count);
        seek(worker, 0);
        for (int64_t block = 0; rows && block < tile->rows; block += tile->column_block_rows) {
            int64_t end = remat_min64(tile->rows, block + tile->column_block_rows);
            start_block(worker, &stage->reductions);
            for (int64_t row = block; row < end; row++, next_row(worker))
                run_stripe_row(worker, stage, last);
            finish_block(worker, &stage->reductions, block == 0);
        }
        seek(worker, 0);
        rewind_pointers(worker);
        run_tiles(worker, &stage->column);
    }
}

/* --- items --- */

static void run_item(void *arg, int64_t item, int number)
{
    const struct tile_run *run = arg;
    const struct cpu_tile *tile = run->tile;
    struct tile_worker worker;
    start_worker(&worker, run, number);
    worker.begin = item % tile->column_items * tile->item_columns;
    worker.end = remat_min64(tile->columns, worker.begin + tile->item_columns);
    int64_t first = item / tile->column_items * tile->item_rows;
    seek(&worker, first);
    rewind_pointers(&worker);
    run_single_steps(&worker, &tile->uniform);
    if (tile->by_columns) {
        run_stripe(&worker);
    } else {
        int64_t end = remat_min64(tile->rows, first + tile->item_rows);
        for (int64_t row = first; row < end; row++, next_row(&worker))
            run_row(&worker);
    }
#if defined(__SSE2__)
    if (tile->streams)
        _mm_sfence();
#endif
}

void cpu_tile_run(const struct cpu_tile *tile, struct cpu_pool *pool, char *memory, char *scratch,
                  uint64_t scratch_stride)
{
    assert(cpu_pool_threads(pool) == 1 || scratch_stride >= tile->scratch_bytes);
    struct tile_run run = {tile, memory, scratch, scratch_stride};
    cpu_pool_run(pool, tile->row_items * tile->column_items, run_item, &run);
}
