/* SPDX-License-Identifier: Apache-2.0 */
/* Elementary functions: error against double libm over samples of the whole range, special values,
 * and equal bits over instruction sets, positions and lengths. */
#include "cpu_math.h"
#include "cpu_test.h"

#include <math.h>

#define SAMPLES 4096

struct function {
    const char *name;
    double (*exact)(double);
    float low, high; /* where the error is measured */
    double max_ulp;
};

static double exact_sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static const struct function table[] = {
    {"exp", exp, -87, 88.7f, 0.97},
    {"log", log, 0x1p-126f, 3.4e38f, 1.07},
    {"tanh", tanh, -20, 20, 1.31},
    {"erf", erf, -6, 6, 1.10},
    {"sigmoid", exact_sigmoid, -87, 87, 2.4},
};
enum { FUNCTIONS = sizeof table / sizeof *table };

static cpu_map *map_of(const struct cpu_functions *functions, int number)
{
    cpu_map *const maps[] = {functions->exp, functions->log, functions->tanh, functions->erf,
                             functions->sigmoid};
    return maps[number];
}

static double ulp_error(float value, double exact)
{
    if (!isfinite((float)exact) || fabs(exact) < 0x1p-126)
        return 0;
    return fabs(value - exact) / ldexp(1, ilogb(exact) - 23);
}

/* Every 257th float, which all exponents and mantissas meet. */
static void check_error(int number)
{
    const struct function *f = &table[number];
    cpu_map *map = map_of(cpu_functions_best(), number);
    static float in[SAMPLES], out[SAMPLES];
    double worst = 0;
    float at = 0;
    int count = 0;
    for (uint64_t bits = 0; bits <= UINT32_MAX; bits += 257) {
        float x = cpu_float_of_bits((uint32_t)bits);
        if (x >= f->low && x <= f->high)
            in[count++] = x;
        if (count < SAMPLES && bits + 257 <= UINT32_MAX)
            continue;
        map(out, in, count);
        for (int i = 0; i < count; i++) {
            bool flushed = number == 3 && fabsf(in[i]) < 0x1p-110f; /* erf: see cpu_math.h */
            double error = flushed ? 0 : ulp_error(out[i], f->exact(in[i]));
            if (error > worst) {
                worst = error;
                at = in[i];
            }
        }
        count = 0;
    }
    CHECK(worst <= f->max_ulp, "%s: %.3f ulp at %.9g, %.2f promised", f->name, worst, (double)at,
          f->max_ulp);
}

static void check_bits(struct test *test, int number)
{
    static float in[SAMPLES], expected[SAMPLES], out[SAMPLES];
    const struct cpu_functions *baseline = cpu_functions_get(CPU_ISA_BASELINE);
    for (int round = 0; round < 64; round++) {
        for (int i = 0; i < SAMPLES; i++)
            in[i] = round % 2 ? cpu_float_of_bits(test_random(test)) : 20 * test_uniform(test);
        map_of(baseline, number)(expected, in, SAMPLES);
        for (int i = 0; i < SAMPLES; i++)
            expected[i] = expected[i] != expected[i] ? NAN : expected[i];
        FOR_EACH_ISA(functions)
        {
            for (int begin = 0, length = 1; begin + length <= SAMPLES;
                 begin += length, length = length % 33 + 1) {
                memcpy(out + begin, in + begin, (size_t)length * sizeof *out);
                map_of(functions, number)(out + begin, out + begin, length);
            }
            int different = 0;
            for (int i = 0; i < SAMPLES - 33; i++)
                different += out[i] != out[i] ? expected[i] == expected[i]
                                              : memcmp(&out[i], &expected[i], sizeof *out) != 0;
            CHECK(different == 0, "%s: %d results differ between baseline and %s",
                  table[number].name, different, functions->name);
        }
    }
}

static void check_special(void)
{
    CHECK(cpu_exp(INFINITY) == INFINITY && cpu_exp(-INFINITY) == 0, "exp of infinities");
    CHECK(cpu_exp(0) == 1 && cpu_exp(-0.0f) == 1, "exp of 0");
    CHECK(cpu_log(0) == -INFINITY && cpu_log(INFINITY) == INFINITY, "log of 0, infinity");
    CHECK(cpu_log(-1) != cpu_log(-1) && cpu_log(1) == 0, "log of -1, 1");
    CHECK(cpu_tanh(INFINITY) == 1 && cpu_tanh(-INFINITY) == -1, "tanh of infinities");
    CHECK(cpu_erf(INFINITY) == 1 && cpu_erf(-INFINITY) == -1, "erf of infinities");
    CHECK(signbit(cpu_tanh(-0.0f)) && signbit(cpu_erf(-0.0f)), "sign of 0");
    CHECK(cpu_sigmoid(-INFINITY) == 0 && cpu_sigmoid(INFINITY) == 1, "sigmoid of infinities");
    float nan = NAN;
    FOR_EACH_ISA(functions)
    for (int f = 0; f < FUNCTIONS; f++) {
        float out;
        map_of(functions, f)(&out, &nan, 1);
        CHECK(out != out, "%s of NaN on %s", table[f].name, functions->name);
    }
}

static void check_sin_cos(void)
{
    double worst = 0;
    for (uint64_t turn = 0; turn <= UINT32_MAX; turn += 65537 / 16) {
        float sine, cosine;
        cpu_sin_cos_turn((uint32_t)turn, &sine, &cosine);
        double angle = 2 * 3.14159265358979323846 * (double)turn / 4294967296.0;
        worst = fmax(worst, fmax(fabs(sine - sin(angle)), fabs(cosine - cos(angle))));
    }
    CHECK(worst < 1e-7, "sin, cos: error %g", worst);
}

int main(void)
{
    struct test test = test_begin();
    for (int f = 0; f < FUNCTIONS; f++) {
        check_error(f);
        check_bits(&test, f);
    }
    check_special();
    check_sin_cos();
    return test_end(&test);
}
