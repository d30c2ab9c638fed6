/* SPDX-License-Identifier: Apache-2.0 */
/* How the elements are dealt out to threads: none of it changes a bit.
 *
 * - pointwise: a thread has `slots` vectors of `width` elements, all loaded before the first is
 * used
 * - tensors: the same, of any number of tensors that share a launch
 * - team: 64 / width threads (32 with width 1) have a row, each the same lanes in every step
 * - block: a block has a long row; values to be summed pass through shared memory to 64 threads
 * - columns: a block has 64 columns of block_rows rows; 64 threads add what the others hand them,
 *   in vectors so narrow that the tiles of all sums fit
 */
#include "body.h"
#include "unwind.h"

#define LOADS_AHEAD  4    /* 16-byte loads of a thread in flight, about */
#define TEAM_COLUMNS 1024 /* rows up to this long are a team's even if nothing can be kept */

static bool aligned(const struct cuda_source *s, const struct cuda_access *access, uint32_t width)
{
    uint64_t bytes = (uint64_t)width * access->bytes;
    bytes = bytes > 16 ? 16 : bytes;
    bool result = access->begin_bytes % bytes == 0;
    for (uint32_t k = 0; k < s->row_axes; k++)
        result &= (uint64_t)access->strides[k] * access->bytes % bytes == 0;
    return result;
}

/* The widest vectors of at most 16 bytes of the smallest type, where all operands allow them and
 * rows are so long, or tensors may be. */
static uint32_t widest(const struct cuda_source *s, bool tensors)
{
    uint32_t bytes = 0, width;
    for (uint32_t i = 0; i < s->count; i++) {
        const struct cuda_node *node = &s->nodes[i];
        if (node->access == CUDA_NONE || s->accesses[node->access].column_stride != 1)
            continue;
        uint32_t own = s->accesses[node->access].bytes;
        bytes = !bytes || own < bytes ? own : bytes;
    }
    if (!bytes)
        return s->draws_random ? 4 : 1;
    for (width = 16 / bytes; width > 1; width /= 2) {
        bool fits = tensors || width / 2 < s->columns;
        for (uint32_t a = 0; a < s->access_count; a++)
            if (s->accesses[a].column_stride == 1)
                fits &= aligned(s, &s->accesses[a], width);
        if (fits)
            break;
    }
    return width;
}

static void lay_out(struct cuda_source *s, uint32_t width)
{
    s->width = s->elements = width;
    s->spacing = 1;
    if (s->shape == CUDA_TEAM && width == 1) {
        s->elements = 2;
        s->spacing = 32;
    }
    uint64_t step = s->shape == CUDA_TEAM ? 64 : (uint64_t)CUDA_THREADS * width;
    s->steps = (uint32_t)((s->columns + step - 1) / step);
    bool pointwise = s->shape == CUDA_POINTWISE || s->shape == CUDA_TENSORS;
    s->tail = s->columns % (pointwise ? width : step) != 0;
    if (s->shape == CUDA_TEAM) {
        uint64_t rows = 32 / (width == 1 ? 32 : 64 / width);
        s->tail |= s->rows % rows != 0;
    }
    if (s->shape == CUDA_COLUMNS)
        s->tail = s->columns % 64 != 0;
}

/* Marks the values that a later pass needs too. How many are alive at once at most. */
static uint32_t find_kept(struct cuda_source *s)
{
    uint32_t most = 0;
    struct life {
        bool done;
        uint32_t first, last; /* passes */
    } *lives = remat_array(s->arena, s->count, sizeof *lives);
    for (uint32_t pass = 0; pass < s->pass_count; pass++) {
        for (uint32_t i = 0; i < s->count; i++)
            s->nodes[i].ready = lives[i].done;
        (void)cuda_begin_pass(s, pass);
        for (uint32_t i = 0; i < s->count; i++)
            for (uint32_t k = 0; s->nodes[i].runs && k < cuda_arity(&s->nodes[i]); k++) {
                uint16_t arg = s->nodes[i].args[k];
                s->nodes[arg].kept |= lives[arg].done && !s->nodes[arg].runs;
                lives[arg].last = pass;
            }
        for (uint32_t i = 0; i < s->count; i++)
            if (s->nodes[i].runs && s->nodes[i].variation == CUDA_BY_ELEMENT && !lives[i].done)
                lives[i] = (struct life){true, pass, lives[i].last};
    }
    for (uint32_t pass = 0; pass + 1 < s->pass_count; pass++) {
        uint32_t alive = 0;
        for (uint32_t i = 0; i < s->count; i++)
            alive += s->nodes[i].kept && lives[i].first <= pass && lives[i].last > pass;
        most = alive > most ? alive : most;
    }
    for (uint32_t i = 0; i < s->count; i++)
        s->nodes[i].ready = s->nodes[i].runs = false;
    return most;
}

static bool fits_registers(const struct cuda_source *s, uint32_t kept,
                           const struct remat_cuda_settings *settings)
{
    return (uint64_t)kept * s->steps * s->elements <= settings->registers_kept;
}

static void choose_rows(struct cuda_source *s, uint32_t width,
                        const struct remat_cuda_settings *settings)
{
    s->shape = CUDA_TEAM;
    uint32_t kept = find_kept(s), enough = s->draws_random ? 4 : 2, narrow = width;
    for (lay_out(s, narrow); narrow > 2; lay_out(s, narrow)) {
        bool busy = s->rows * (64 / narrow) >= settings->threads_wanted || narrow <= enough;
        if (busy && fits_registers(s, kept, settings))
            break;
        narrow /= 2;
    }
    s->resident = fits_registers(s, kept, settings);
    if (s->columns > TEAM_COLUMNS && (kept == 0 || !s->resident)) {
        s->shape = CUDA_BLOCK;
        lay_out(s, width);
        s->resident = fits_registers(s, kept, settings);
    }
    for (uint32_t i = 0; i < s->count; i++)
        s->nodes[i].kept &= s->resident;
}

static uint32_t choose_slots(const struct cuda_source *s)
{
    uint32_t loads = 0;
    for (uint32_t i = 0; i < s->count; i++)
        if (s->nodes[i].live && cuda_is_load(&s->nodes[i]) &&
            s->accesses[s->nodes[i].access].column_stride)
            loads += (s->width * s->accesses[s->nodes[i].access].bytes + 15) / 16;
    return loads == 0 || loads > LOADS_AHEAD / 2 ? 1 : LOADS_AHEAD / loads;
}

/* A column's value that a later pass reads has a place in the workspace. */
static void place_columns(struct cuda_source *s)
{
    uint16_t places = 0;
    for (uint32_t i = 0; i < s->count; i++)
        for (uint32_t k = 0; s->nodes[i].live && k < cuda_arity(&s->nodes[i]); k++) {
            const struct cuda_node *node = &s->nodes[i];
            struct cuda_node *arg = &s->nodes[node->args[k]];
            bool later = node->by_element || cuda_made_after(arg) < node->pass;
            if (later && arg->variation == CUDA_BY_COLUMN && arg->place == CUDA_NONE)
                arg->place = places++;
        }
}

/* Whole tensors, of which nothing waits for another. */
static bool is_of_tensors(const struct cuda_source *s)
{
    return s->lasting && s->row_axes == 0 && s->columns > 1 && s->site_count == 0 &&
           !s->over_shared_load;
}

void cuda_choose_geometry(struct cuda_source *s, const struct remat_cuda_settings *settings)
{
    bool by_rows = s->stores_rows, by_columns = false;
    s->slots = 1;
    for (uint32_t i = 0; i < s->count; i++) {
        by_rows |= remat_opcode_is_row_reduction(s->nodes[i].opcode);
        by_columns |= remat_opcode_is_column_reduction(s->nodes[i].opcode);
    }
    bool tensors = !by_rows && !by_columns && is_of_tensors(s);
    uint32_t width = widest(s, tensors);
    if (by_columns) {
        s->shape = CUDA_COLUMNS;
        s->block_rows = remat_column_block_rows(s->rows, s->columns, settings->column_sums);
        place_columns(s);
        for (lay_out(s, width); width > 1; lay_out(s, width /= 2))
            if (cuda_columns_shared_bytes(s) <= REMAT_CUDA_STATIC_MAX)
                break;
    } else if (by_rows) {
        choose_rows(s, width, settings);
    } else {
        s->shape = tensors ? CUDA_TENSORS : CUDA_POINTWISE;
        lay_out(s, width);
        s->slots = choose_slots(s);
    }
}
