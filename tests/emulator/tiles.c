/* SPDX-License-Identifier: Apache-2.0 */
/* Dynamic shared memory, copies into it, and products of matrices in a warp's fragments, as PTX has
 * them: ldmatrix.x4, mma.m16n8k16, cp.async. */
#include "half.h"
#include "state.h"

#include <stdlib.h>
#include <string.h>

uint32_t emulator_tile_memory(void);
void emulator_tile_read(uint32_t address, void *to, uint32_t bytes);
void emulator_copy(uint32_t to, const void *from, uint32_t bytes, uint32_t read);
void emulator_end_copies(void);
void emulator_wait_copies(uint32_t groups);
void emulator_read_matrices(uint32_t *x, uint32_t address, int transposed, int line);
void emulator_add_product(float *sum, const uint32_t *x, uint32_t y0, uint32_t y1, int half,
                          int line);

static struct fibre *running_fibre(void)
{
    return &emulator_running->fibres[emulator_running->thread];
}

/* Where dynamic shared memory begins: no better aligned than CUDA promises. */
#define TILE_BASE 16

uint32_t emulator_tile_memory(void)
{
    if (!emulator_running->launch->shared_bytes)
        emulator_fault("no dynamic shared memory was asked for");
    return TILE_BASE;
}

static void visit(uint32_t address, uint32_t bytes, bool writes)
{
    if (address % bytes)
        emulator_fault("%u bytes of shared memory at %u, which is not aligned", bytes, address);
    for (uint32_t i = 0; i < bytes / 4; i++)
        emulator_visit_shared((uint64_t)address / 4 + i, writes);
}

void emulator_tile_read(uint32_t address, void *to, uint32_t bytes)
{
    address -= TILE_BASE;
    visit(address, bytes, false);
    memcpy(to, (const char *)emulator_running->shared + address, bytes);
}

/* --- copies --- */

static void set_filling(const struct copy *copy, bool filling)
{
    for (uint32_t at = copy->to / 4; at < (copy->to + copy->bytes) / 4; at++)
        emulator_running->shared_cells[at].filling = filling;
}

void emulator_copy(uint32_t to, const void *from, uint32_t bytes, uint32_t read)
{
    struct fibre *fibre = running_fibre();
    struct copy copy = {to - TILE_BASE, bytes, read, fibre->group, from};
    if (read)
        emulator_access(from, bytes, 0);
    visit(copy.to, bytes, true);
    set_filling(&copy, true);
    if (fibre->copy_count == fibre->copy_capacity) {
        fibre->copy_capacity = 2 * fibre->copy_capacity + 64;
        fibre->copies = realloc(fibre->copies, fibre->copy_capacity * sizeof *fibre->copies);
        if (!fibre->copies)
            abort();
    }
    fibre->copies[fibre->copy_count++] = copy;
}

void emulator_end_copies(void)
{
    running_fibre()->group++;
}

void emulator_wait_copies(uint32_t groups)
{
    struct fibre *fibre = running_fibre();
    uint32_t done = 0;
    while (done < fibre->copy_count && fibre->copies[done].group + groups < fibre->group) {
        const struct copy *copy = &fibre->copies[done++];
        char *to = (char *)emulator_running->shared + copy->to;
        set_filling(copy, false);
        visit(copy->to, copy->bytes, true);
        memset(to, 0, copy->bytes);
        memcpy(to, copy->from, copy->read);
    }
    fibre->copy_count -= done;
    memmove(fibre->copies, fibre->copies + done, fibre->copy_count * sizeof *fibre->copies);
}

/* --- matrices --- */

void emulator_read_matrices(uint32_t *x, uint32_t address, int transposed, int line)
{
    struct fibre *fibre = running_fibre();
    emulator_tile_read(address, fibre->row, sizeof fibre->row);
    fibre->matrices = x;
    fibre->transposed = transposed;
    fibre->banks = 1u << address / 16 % 8;
    emulator_wait(AT_MATRICES, line);
    if (fibre->banks != 0xff)
        emulator_fault("reads a matrix whose rows lie in the same banks, line %d", line);
}

static uint32_t element(const struct fibre *warp, uint32_t matrix, uint32_t row, uint32_t column)
{
    return warp[matrix * 8 + row].row[column / 2] >> column % 2 * 16 & 0xffff;
}

void emulator_give_matrices(struct fibre *warp)
{
    for (uint32_t m = 0; m < 4; m++) {
        uint32_t banks = 0;
        for (uint32_t row = 0; row < 8; row++)
            banks |= warp[m * 8 + row].banks;
        for (uint32_t row = 0; row < 8; row++)
            warp[m * 8 + row].banks = banks;
    }
    for (uint32_t lane = 0; lane < 32; lane++)
        for (uint32_t m = 0; m < 4; m++) {
            uint32_t row = lane / 4, column = lane % 4 * 2;
            warp[lane].matrices[m] =
                warp->transposed
                    ? element(warp, m, column, row) | element(warp, m, column + 1, row) << 16
                    : element(warp, m, row, column) | element(warp, m, row, column + 1) << 16;
        }
}

void emulator_add_product(float *sum, const uint32_t *x, uint32_t y0, uint32_t y1, int half,
                          int line)
{
    struct fibre *fibre = running_fibre();
    fibre->sum = sum;
    fibre->left = x;
    fibre->right[0] = y0;
    fibre->right[1] = y1;
    fibre->half = half;
    emulator_wait(AT_PRODUCT, line);
}

static float part_of(const struct fibre *warp, uint32_t pair, uint32_t which)
{
    uint32_t bits = which ? pair & 0xffff0000u : pair << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return warp->half ? half_widen((uint16_t)(bits >> 16)) : value;
}

void emulator_give_product(struct fibre *warp)
{
    float x[16][16], y[16][8], sum[16][8];
    for (uint32_t lane = 0; lane < 32; lane++) {
        uint32_t row = lane / 4, column = lane % 4 * 2;
        for (uint32_t e = 0; e < 2; e++) {
            for (uint32_t part = 0; part < 4; part++)
                x[row + part % 2 * 8][column + part / 2 * 8 + e] =
                    part_of(warp, warp[lane].left[part], e);
            for (uint32_t part = 0; part < 2; part++) {
                y[column + part * 8 + e][row] = part_of(warp, warp[lane].right[part], e);
                sum[row + part * 8][column + e] = warp[lane].sum[part * 2 + e];
            }
        }
    }
    for (uint32_t i = 0; i < 16; i++)
        for (uint32_t k = 0; k < 16; k++)
            for (uint32_t j = 0; j < 8; j++)
                sum[i][j] += x[i][k] * y[k][j];
    for (uint32_t lane = 0; lane < 32; lane++)
        for (uint32_t part = 0; part < 4; part++)
            warp[lane].sum[part] = sum[lane / 4 + part / 2 * 8][lane % 4 * 2 + part % 2];
}
