/* SPDX-License-Identifier: Apache-2.0 */
/* The bodies of kernels without column sums: pointwise, tensors, team, block (geometry.c). */
#include "body.h"

/* --- pointwise --- */

/* Threads side by side along the columns; the others take further rows. */
static uint32_t threads_across(const struct cuda_source *s)
{
    uint32_t across = s->shape == CUDA_TENSORS ? CUDA_THREADS : 1;
    while (across < CUDA_THREADS && across * s->width < s->columns)
        across *= 2;
    return across;
}

static bool slots_along_columns(const struct cuda_source *s)
{
    return threads_across(s) == CUDA_THREADS;
}

static uint32_t tile_columns(const struct cuda_source *s)
{
    return threads_across(s) * s->width * (slots_along_columns(s) ? s->slots : 1);
}

static uint32_t tile_rows(const struct cuda_source *s)
{
    return CUDA_THREADS / threads_across(s) * (slots_along_columns(s) ? 1 : s->slots);
}

static void write_place(struct cuda_source *s)
{
    uint32_t across = threads_across(s);
    bool along = slots_along_columns(s), tensors = s->shape == CUDA_TENSORS;
    char slot[32] = "", *right = along ? slot : "", *down = along ? "" : slot;
    if (s->slots > 1)
        snprintf(slot, sizeof slot, " + u * %u", along ? across * s->width : CUDA_THREADS / across);
    if (tensors) {
        cuda_text(s, "const u32 column = tile * %u + thread * %u%s;", tile_columns(s), s->width,
                  right);
        cuda_text(s, "if (column < columns) {");
    } else {
        cuda_text(s, "const u32 column = tile %% tiles * %u + thread %% %u * %u%s;",
                  tile_columns(s), across, s->width, right);
        cuda_text(s, "const u32 row = tile / tiles * %u + thread / %u%s;", tile_rows(s), across,
                  down);
        cuda_text(s, "if (row < rows && column < columns) {");
    }
    if (s->tail)
        cuda_text(s, "const u32 end = columns, count = end - column;");
    if (!tensors)
        cuda_write_offsets(s);
}

/* The block's tensor is the last that does not begin after it. */
static void write_tensor(struct cuda_source *s)
{
    uint32_t head = cuda_head_words(s), words = cuda_tensor_words(s);
    cuda_text(s, "const u32 thread = thread_index(), block = block_index();");
    cuda_text(s, "u32 low = 0, high = (u32)arguments.word[0];");
    cuda_text(s, "while (high - low > 1) {");
    cuda_text(s, "const u32 middle = (low + high) / 2;");
    cuda_text(s, "const int begun = (u32)arguments.word[%u + middle * %u] <= block;", head, words);
    cuda_text(s, "low = begun ? middle : low;");
    cuda_text(s, "high = begun ? high : middle;");
    cuda_text(s, "}");
    cuda_text(s, "const u32 tensor = %u + low * %u;", head, words);
    cuda_text(s, "const u32 tile = block - (u32)arguments.word[tensor];");
    cuda_text(s, "const u32 columns = (u32)arguments.word[tensor + 1];");
}

void cuda_write_pointwise(struct cuda_source *s)
{
    if (s->shape == CUDA_TENSORS) {
        write_tensor(s);
    } else {
        cuda_text(s, "const u32 rows = (u32)arguments.word[0], columns = (u32)arguments.word[1];");
        cuda_text(s, "const u32 thread = thread_index(), tile = block_index();");
        cuda_text(s, "const u32 tiles = (columns + %u) / %u;", tile_columns(s) - 1,
                  tile_columns(s));
    }
    cuda_write_head(s);
    if (s->over_shared_load)
        cuda_text(s, "barrier();");
    (void)cuda_begin_pass(s, 0);
    if (s->slots > 1) {
        for (uint32_t i = 0; i < s->count; i++)
            if (s->nodes[i].runs && (cuda_is_load(&s->nodes[i]) || cuda_is_random(&s->nodes[i])))
                cuda_text(s, "float x%u[%u][%u];", i, s->slots, s->elements);
        cuda_text(s, "UNROLL for (u32 u = 0; u < %u; u++) {", s->slots);
        write_place(s);
        cuda_write_loads(s);
        cuda_text(s, "}");
        cuda_text(s, "}");
        cuda_text(s, "UNROLL for (u32 u = 0; u < %u; u++) {", s->slots);
    }
    write_place(s);
    if (s->slots == 1)
        cuda_write_loads(s);
    cuda_write_values(s, CUDA_BY_ROW, 0, NULL);
    cuda_write_elements(s, NULL);
    cuda_text(s, "}");
    if (s->slots > 1)
        cuda_text(s, "}");
    s->blocks = cuda_divide_up(s->columns, tile_columns(s)) * cuda_divide_up(s->rows, tile_rows(s));
}

/* --- rows --- */

static const char *identity(const struct cuda_node *node)
{
    return node->opcode == REMAT_INSTRUCTION_row_max ? "-INFINITE" : "0.0f";
}

static const char *combination(const struct cuda_node *node)
{
    return node->opcode == REMAT_INSTRUCTION_row_max ? "max" : "sum";
}

static void declare_kept(struct cuda_source *s)
{
    for (uint32_t i = 0; i < s->count; i++)
        if (s->nodes[i].kept)
            cuda_text(s, "float k%u[%u][%u];", i, s->steps, s->elements);
}

static void write_steps(struct cuda_source *s)
{
    cuda_text(s, "%s for (u32 step = 0; step < %u; step++) {",
              s->resident ? "UNROLL" : "UNROLL_BY_4", s->steps);
}

static void write_row_end(struct cuda_source *s, const char *condition)
{
    if (!s->stores_rows)
        return;
    cuda_text(s, s->shape == CUDA_BLOCK ? "barrier();" : "warp_barrier();");
    cuda_text(s, "if (%s) {", condition);
    cuda_write_stores_by(s, REMAT_CLASS_ROW, 0);
    cuda_text(s, "}");
}

static void reduce_to_lanes(struct cuda_source *s, uint32_t i)
{
    const struct cuda_node *node = &s->nodes[i];
    if (s->tail)
        cuda_text(s, "if (column + e * %u < end)", s->spacing);
    cuda_text(s, "lanes%u[e] = combine_%s(lanes%u[e], %s);", i, combination(node), i,
              cuda_name(s, node->args[0]).text);
}

static void write_team_pass(struct cuda_source *s, uint32_t pass)
{
    if (!cuda_begin_pass(s, pass))
        return;
    for (uint32_t i = 0; i < s->count; i++) {
        if (!cuda_reduces_in(&s->nodes[i], pass))
            continue;
        cuda_text(s, "float lanes%u[%u];", i, s->elements);
        cuda_text(s, "UNROLL for (u32 e = 0; e < %u; e++) lanes%u[e] = %s;", s->elements, i,
                  identity(&s->nodes[i]));
    }
    write_steps(s);
    cuda_text(s, "const u32 column = step * 64 + place * %u;", s->width);
    if (s->tail)
        cuda_text(s, "const u32 count = column < end ? end - column : 0;");
    cuda_write_loads(s);
    cuda_write_elements(s, reduce_to_lanes);
    cuda_text(s, "}");
    for (uint32_t i = 0; i < s->count; i++)
        if (cuda_reduces_in(&s->nodes[i], pass))
            cuda_text(s, "const float r%u = team_%s(lanes%u, %u, place);", i,
                      combination(&s->nodes[i]), i, s->width);
}

void cuda_write_team(struct cuda_source *s)
{
    uint32_t team = s->width == 1 ? 32 : 64 / s->width;
    cuda_text(s, "const u32 rows = (u32)arguments.word[0], columns = %llu;",
              (unsigned long long)s->columns);
    cuda_text(s, "const u32 thread = thread_index(), place = thread %% %u;", team);
    cuda_text(s, "const u32 first = block_index() * %u;", CUDA_THREADS / team);
    cuda_text(s, "const u32 row = first + thread / %u;", team);
    cuda_text(s, "if (first + thread / 32 * %u >= rows) return; /* the whole warp */", 32 / team);
    if (s->tail)
        cuda_text(s, "const u32 end = row < rows ? columns : 0;");
    cuda_write_head(s);
    cuda_write_offsets(s);
    declare_kept(s);
    for (uint32_t pass = 0; pass < s->pass_count; pass++) {
        cuda_write_values(s, CUDA_BY_ROW, pass, team < 32 ? "row < rows" : NULL);
        if (pass + 1 == s->pass_count && s->over_shared_load)
            cuda_text(s, "warp_barrier();");
        write_team_pass(s, pass);
    }
    write_row_end(s, team < 32 ? "place == 0 && row < rows" : "place == 0");
    s->blocks = cuda_divide_up(s->rows, CUDA_THREADS / team);
}

/* --- blocks --- */

/* In shared memory, the lanes of all reductions follow the tiles. */
static void write_chains(struct cuda_source *s, uint32_t pass)
{
    cuda_text(s, "barrier();");
    cuda_text(s, "if (thread < 64) {");
    cuda_text(s, "const u32 rest = columns - step * %u, filled = rest < %u ? rest : %u;",
              cuda_tile_floats(s), cuda_tile_floats(s), cuda_tile_floats(s));
    for (uint32_t i = 0; i < s->count; i++) {
        if (!cuda_reduces_in(&s->nodes[i], pass))
            continue;
        cuda_text(s, "UNROLL_BY_4 for (u32 j = thread; j < filled; j += 64)");
        cuda_text(s, "chain%u = combine_%s(chain%u, shared_read(shared, %u + buffer + j));", i,
                  combination(&s->nodes[i]), i, cuda_tiles_of(s, &s->nodes[i]));
    }
    cuda_text(s, "}");
}

static void write_totals(struct cuda_source *s, uint32_t pass)
{
    uint32_t lanes = s->most_reductions * 2 * cuda_tile_floats(s);
    cuda_text(s, "if (thread < 64) {");
    for (uint32_t i = 0; i < s->count; i++)
        if (cuda_reduces_in(&s->nodes[i], pass))
            cuda_text(s, "shared_write(shared, %u + thread, chain%u);",
                      lanes + 64 * s->nodes[i].order, i);
    cuda_text(s, "}");
    for (uint32_t i = 0; i < s->count; i++)
        if (cuda_reduces_in(&s->nodes[i], pass))
            cuda_text(s, "const float r%u = block_%s(shared, %u, thread);", i,
                      combination(&s->nodes[i]), lanes + 64 * s->nodes[i].order);
}

static void write_block_pass(struct cuda_source *s, uint32_t pass)
{
    bool reduces = cuda_pass_reduces(s, pass);
    if (!cuda_begin_pass(s, pass))
        return;
    for (uint32_t i = 0; i < s->count; i++)
        if (cuda_reduces_in(&s->nodes[i], pass))
            cuda_text(s, "float chain%u = %s;", i, identity(&s->nodes[i]));
    write_steps(s);
    cuda_text(s, "const u32 column = step * %u + thread * %u;", cuda_tile_floats(s), s->width);
    if (reduces)
        cuda_text(s, "const u32 buffer = step %% 2 * %u;", cuda_tile_floats(s));
    if (s->tail)
        cuda_text(s, "const u32 count = column < end ? end - column : 0;");
    cuda_write_loads(s);
    cuda_write_elements(s, cuda_reduce_to_tile);
    if (reduces)
        write_chains(s, pass);
    cuda_text(s, "}");
    if (reduces)
        write_totals(s, pass);
}

void cuda_write_block(struct cuda_source *s)
{
    uint32_t reductions = s->most_reductions;
    if (reductions)
        cuda_text(s, "SHARED_MEMORY(shared, %u);", reductions * (2 * cuda_tile_floats(s) + 64));
    cuda_text(s, "const u32 columns = %llu, row = block_index(), thread = thread_index();",
              (unsigned long long)s->columns);
    if (s->tail)
        cuda_text(s, "const u32 end = columns;");
    cuda_write_head(s);
    cuda_write_offsets(s);
    declare_kept(s);
    for (uint32_t pass = 0; pass < s->pass_count; pass++) {
        cuda_write_values(s, CUDA_BY_ROW, pass, NULL);
        if (pass + 1 == s->pass_count && s->over_shared_load)
            cuda_text(s, "barrier();");
        write_block_pass(s, pass);
    }
    write_row_end(s, "thread == 0");
    s->blocks = s->rows;
}
