/* SPDX-License-Identifier: Apache-2.0 */
/* From a fused kernel and its operands' strides to stages of steps: read, analyse, emit. */
#include "cpu_tile.h"

#include "cpu_tile_builder.h"

#include <assert.h>

const struct cpu_tile_table *cpu_tile_table_get(enum cpu_isa isa)
{
#if defined(__x86_64__)
    static const struct cpu_tile_table *const tables[CPU_ISA_COUNT] = {
        [CPU_ISA_BASELINE] = &cpu_tile_table_baseline,
        [CPU_ISA_AVX2] = &cpu_tile_table_avx2,
        [CPU_ISA_AVX512] = &cpu_tile_table_avx512,
    };
    return tables[isa];
#else
    (void)isa;
    return &cpu_tile_table_baseline;
#endif
}

static void divide_work(struct cpu_tile *tile, uint32_t threads)
{
    bool reduces = false;
    for (uint32_t s = 0; s < tile->stage_count; s++)
        reduces |= tile->stages[s].reductions.count > 0;
    tile->item_rows = tile->rows;
    tile->item_columns = tile->columns;
    if (tile->by_columns) {
        int64_t tiles = remat_divide_up(remat_divide_up(tile->columns, CPU_TILE), threads);
        tile->item_columns = CPU_TILE * (tiles < STRIPE_TILES ? tiles : STRIPE_TILES);
    } else if (tile->columns > ITEM_ELEMENTS && !reduces) {
        tile->item_columns = ITEM_ELEMENTS;
        tile->item_rows = 1;
    } else if (tile->columns > 0) {
        tile->item_rows = ITEM_ELEMENTS / tile->columns + 1;
    }
    tile->row_items = tile->rows ? remat_divide_up(tile->rows, tile->item_rows) : 0;
    tile->column_items = tile->columns ? remat_divide_up(tile->columns, tile->item_columns) : 0;
}

static void size_scratch(struct cpu_tile *tile)
{
    uint64_t refs = tile->access_count + tile->stripe_count + tile->slot_count;
    tile->pointer_bytes = remat_aligned_bytes(refs * sizeof(float *));
    tile->scratch_bytes = tile->pointer_bytes +
                          tile->slot_count * (uint64_t)CPU_TILE * sizeof(float) +
                          tile->stripe_count * (uint64_t)(CPU_TILE * STRIPE_TILES) * sizeof(float);
}

remat_status cpu_tile_prepare(remat_context *ctx, const struct remat_program *program,
                              const struct cpu_tile_source *source,
                              const struct cpu_tile_options *options, struct remat_arena *arena,
                              struct cpu_tile **out)
{
    assert(source->rank <= REMAT_RANK_MAX);
    remat_status st = REMAT_OK;
    struct cpu_tile_builder b = {.ctx = ctx, .arena = arena, .options = options};
    remat_arena_init(&b.scratch, ctx);
    REMAT_TRY_NEW(arena, b.tile, 1);
    b.tile->table = cpu_tile_table_get(options->isa);
    REMAT_TRY(cpu_tile_read(&b, program, source));
    REMAT_TRY(cpu_tile_analyse(&b));
    REMAT_TRY(cpu_tile_emit(&b));
    if (b.tile->access_count + b.tile->stripe_count + b.tile->slot_count >= NO_REF)
        REMAT_FAIL(ctx, REMAT_ERROR_INVALID, "command \"%s\": too many values for the cpu device",
                   source->name);
    divide_work(b.tile, options->threads ? options->threads : 1);
    size_scratch(b.tile);
    *out = b.tile;
fail:
    remat_arena_release(&b.scratch);
    return st;
}

uint64_t cpu_tile_scratch_bytes(const struct cpu_tile *tile)
{
    return tile->scratch_bytes;
}
