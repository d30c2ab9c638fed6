/* SPDX-License-Identifier: Apache-2.0 */
/* bf16: every value there and back, every tie, and what lies beside it, on every instruction set;
 * and the same in the interpreter's tables with strides. */
#include "cpu_test.h"
#include "cpu_tile.h"

enum { VALUES = 65536, OFFSETS = 7, COUNT = VALUES * OFFSETS };

static float of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static bool is_nan(uint16_t x)
{
    return (x & 0x7fff) > 0x7f80;
}

static void check_widen(const struct cpu_functions *functions)
{
    uint16_t *in = test_memory(VALUES * sizeof *in), *back = test_memory(VALUES * sizeof *back);
    float *out = test_memory(VALUES * sizeof *out);
    for (int i = 0; i < VALUES; i++)
        in[i] = (uint16_t)i;
    functions->widen[REMAT_BF16](out, in, VALUES);
    functions->narrow[REMAT_BF16](back, out, VALUES);
    int wrong = 0;
    for (int i = 0; i < VALUES; i++) {
        uint32_t bits;
        memcpy(&bits, &out[i], sizeof bits);
        wrong += bits != (uint32_t)i << 16;
        wrong += is_nan(in[i]) ? !is_nan(back[i]) : back[i] != in[i];
    }
    CHECK(wrong == 0, "%d of all values wrong on %s", wrong, functions->name);
    free(in);
    free(back);
    free(out);
}

/* The value itself, the tie above it, one ulp to both sides of each, and the last before the next.
 */
static float *make_neighbours(void)
{
    static const uint32_t offsets[OFFSETS] = {0, 1, 0x7fff, 0x8000, 0x8001, 0xfffe, 0xffff};
    float *in = test_memory(COUNT * sizeof *in);
    for (uint32_t i = 0; i < VALUES; i++)
        for (uint32_t k = 0; k < OFFSETS; k++)
            in[i * OFFSETS + k] = of_bits((i << 16) + offsets[k]);
    return in;
}

static void check_narrow(const struct cpu_functions *functions, const float *in,
                         const uint16_t *expected)
{
    const struct cpu_tile_table *table = cpu_tile_table_get(functions->isa);
    uint16_t *out = test_memory(COUNT * sizeof *out),
             *strided = test_memory(2 * COUNT * sizeof *out);
    float *rounded = test_memory(COUNT * sizeof *rounded);
    functions->narrow[REMAT_BF16](out, in, COUNT);
    CHECK(memcmp(out, expected, COUNT * sizeof *out) == 0, "narrow on %s", functions->name);
    memset(out, 0, COUNT * sizeof *out);
    table->stores[REMAT_BF16](out, 1, in, COUNT);
    CHECK(memcmp(out, expected, COUNT * sizeof *out) == 0, "store on %s", functions->name);
    table->stores[REMAT_BF16](strided, 2, in, COUNT);
    table->ops[REMAT_INSTRUCTION_round_bf16](rounded, in, in, in, COUNT);
    int wrong = 0;
    for (int i = 0; i < COUNT; i++) {
        float wide = test_widen(expected[i]);
        wrong += strided[2 * i] != expected[i] || memcmp(&rounded[i], &wide, sizeof wide) != 0;
    }
    CHECK(wrong == 0, "%d strided or rounded values wrong on %s", wrong, functions->name);
    table->loads[REMAT_BF16](rounded, strided, 2, COUNT);
    for (int i = 0; i < COUNT; i++) {
        float wide = test_widen(expected[i]);
        wrong += memcmp(&rounded[i], &wide, sizeof wide) != 0;
    }
    CHECK(wrong == 0, "%d strided loads wrong on %s", wrong, functions->name);
    free(out);
    free(strided);
    free(rounded);
}

int main(void)
{
    float *in = make_neighbours();
    uint16_t *expected = test_memory(COUNT * sizeof *expected);
    for (int i = 0; i < COUNT; i++) /* before subnormals are flushed */
        expected[i] = test_narrow(in[i]);
    struct test test = test_begin();
    FOR_EACH_ISA(functions)
    {
        check_widen(functions);
        check_narrow(functions, in, expected);
    }
    free(in);
    free(expected);
    return test_end(&test);
}
