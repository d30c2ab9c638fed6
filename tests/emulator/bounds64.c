/* SPDX-License-Identifier: Apache-2.0 */
/* Running error analysis: with each value x of float64 goes e, so that what f32 computes is within
 * e of x. An operation passes the bounds of its arguments on by its derivative and adds its own
 * rounding: u = 2^-24 of the result, for elementary functions what cpu_math.h states, for a sum
 * u of all its terms for each addition in the longest chain. Where the bounds leave open which way
 * a comparison goes, or whether a result is finite, e is infinite: nothing is said there. NaN with
 * e = 0 is certain. */
#include "bounds64.h"

#include "reference64.h"

#include <fenv.h>
#include <math.h>
#include <stdlib.h>

#define U     0x1p-24
#define ULP   0x1p-23  /* at most, relative */
#define FLUSH 0x1p-125 /* what flushing subnormals changes */
#define LEAST 0x1p-100 /* divisors below that are left open */
#define MOST  0x1p127

struct bounded {
    double x, e;
};

static const struct bounded unknown = {0, INFINITY}, not_a_number = {NAN, 0};

/* Of a result with `error` before its own, which is `relative` of it. */
static struct bounded rounded(double x, double error, double relative)
{
    double e = error + relative * (fabs(x) + error) + FLUSH;
    if (!(e < INFINITY) || !(fabs(x) + e < MOST))
        return unknown;
    return (struct bounded){x, e * (1 + 0x1p-40) + fabs(x) * 0x1p-50};
}

static struct bounded quotient(struct bounded a, struct bounded b)
{
    double least = fabs(b.x) - b.e;
    if (!(least > LEAST))
        return unknown;
    return rounded(a.x / b.x, (a.e + fabs(a.x / b.x) * b.e) / least, U);
}

static struct bounded root(struct bounded a, bool inverse)
{
    double low = a.x - a.e;
    if (a.x + a.e < -LEAST)
        return not_a_number;
    if (!(low > LEAST))
        return unknown;
    if (inverse) /* two roundings */
        return rounded(1 / sqrt(a.x), 1 / sqrt(low) - 1 / sqrt(a.x), 2.5 * U);
    return rounded(sqrt(a.x), a.e / (sqrt(a.x) + sqrt(low)), U);
}

static struct bounded logarithm(struct bounded a)
{
    if (a.x + a.e < -LEAST)
        return not_a_number;
    if (!(a.x - a.e > LEAST))
        return unknown;
    return rounded(log(a.x), -log1p(-a.e / a.x), 1.07 * ULP);
}

/* a < b: 1, 0, or -1 where it is open. NaN is not less. */
static int less(struct bounded a, struct bounded b)
{
    if (a.e == 0 && b.e == 0)
        return a.x < b.x;
    if (a.x + a.e < b.x - b.e)
        return 1;
    return isnan(a.x) || isnan(b.x) || a.x - a.e >= b.x + b.e ? 0 : -1;
}

static int equal(struct bounded a, struct bounded b)
{
    if (a.e == 0 && b.e == 0)
        return a.x == b.x;
    return isnan(a.x) || isnan(b.x) || fabs(a.x - b.x) > a.e + b.e ? 0 : -1;
}

static struct bounded truth(int is)
{
    return is < 0 ? unknown : (struct bounded){is, 0};
}

/* a where `first` is smaller, as maximum and minimum do: b where one is NaN. */
static struct bounded extreme(struct bounded a, struct bounded b, bool maximum)
{
    int is_a = maximum ? less(b, a) : less(a, b);
    if (is_a >= 0)
        return is_a ? a : b;
    return (struct bounded){maximum ? fmax(a.x, b.x) : fmin(a.x, b.x), fmax(a.e, b.e)};
}

static struct bounded to_bf16(struct bounded a)
{
    if (a.e == 0 && fabs(a.x) < MOST)
        return (struct bounded){reference64_round_bf16(a.x), 0};
    return rounded(a.x, a.e, 0x1p-8);
}

static struct bounded chosen(struct bounded a, struct bounded b, struct bounded c)
{
    int is_zero = equal(a, (struct bounded){0, 0});
    return is_zero < 0 ? unknown : is_zero ? c : b;
}

static struct bounded function_of(uint16_t opcode, struct bounded a)
{
    switch (opcode) {
    case REMAT_INSTRUCTION_exp:
        return rounded(exp(a.x), exp(a.x) * expm1(a.e), 0.97 * ULP);
    case REMAT_INSTRUCTION_log:
        return logarithm(a);
    case REMAT_INSTRUCTION_sqrt:
    case REMAT_INSTRUCTION_rsqrt:
        return root(a, opcode == REMAT_INSTRUCTION_rsqrt);
    case REMAT_INSTRUCTION_tanh:
        return rounded(tanh(a.x), a.e, 1.31 * ULP);
    case REMAT_INSTRUCTION_erf: /* the slope is 2 / sqrt(pi); the smallest lose their last bits */
        return rounded(erf(a.x), 1.13 * a.e, fabs(a.x) + a.e > 0x1p-110 ? 1.1 * ULP : 0.11);
    case REMAT_INSTRUCTION_sigmoid:
        if (!(fabs(a.x) + a.e < 87))
            return unknown;
        return rounded(1 / (1 + exp(-a.x)), a.e / 4, 2.4 * ULP);
    default:
        return unknown;
    }
}

static struct bounded compute(uint16_t opcode, struct bounded a, struct bounded b, struct bounded c)
{
    switch (opcode) { /* what defines a result where an argument is NaN */
    case REMAT_INSTRUCTION_maximum:
    case REMAT_INSTRUCTION_minimum:
        return extreme(a, b, opcode == REMAT_INSTRUCTION_maximum);
    case REMAT_INSTRUCTION_equal:
        return truth(equal(a, b));
    case REMAT_INSTRUCTION_less:
        return truth(less(a, b));
    case REMAT_INSTRUCTION_select:
        return chosen(a, b, c);
    case REMAT_INSTRUCTION_neg:
        return (struct bounded){-a.x, a.e};
    default:
        break;
    }
    bool two = remat_opcode_arity(opcode) == 2;
    if (isnan(a.x) || (two && isnan(b.x)))
        return not_a_number;
    if (a.e == INFINITY || (two && b.e == INFINITY))
        return unknown;
    switch (opcode) {
    case REMAT_INSTRUCTION_add:
        return rounded(a.x + b.x, a.e + b.e, U);
    case REMAT_INSTRUCTION_sub:
        return rounded(a.x - b.x, a.e + b.e, U);
    case REMAT_INSTRUCTION_mul: /* of a subnormal, flushed, too */
        return rounded(
            a.x * b.x,
            fabs(a.x) * b.e + fabs(b.x) * a.e + a.e * b.e + FLUSH * (fabs(a.x) + fabs(b.x)), U);
    case REMAT_INSTRUCTION_div:
        return quotient(a, b);
    case REMAT_INSTRUCTION_round_bf16:
        return to_bf16(a);
    default:
        return function_of(opcode, a);
    }
}

/* Of `count` values `step` apart, of which the longest chain adds `additions`. */
static struct bounded sum(const struct bounded *a, int64_t count, int64_t step, int64_t additions)
{
    double total = 0, size = 0, error = 0;
    for (int64_t i = 0; i < count; i++) {
        total += a[i * step].x;
        size += fabs(a[i * step].x) + a[i * step].e;
        error += a[i * step].e;
    }
    if (isnan(total))
        return not_a_number;
    double relative = (double)additions * U;
    return rounded(total, error + size * relative / (1 - relative) + FLUSH * (double)count, U);
}

static struct bounded largest(const struct bounded *a, int64_t count)
{
    struct bounded out = a[0];
    for (int64_t i = 0; i < count; i++) {
        if (isnan(a[i].x) || a[i].e == INFINITY)
            return unknown;
        out = (struct bounded){fmax(out.x, a[i].x), fmax(out.e, a[i].e)};
    }
    return out;
}

static void reduce(const struct reference64_run *r, uint16_t opcode, const struct bounded *a,
                   struct bounded *d)
{
    bool rows = remat_opcode_is_row_reduction(opcode);
    int64_t block =
        remat_column_block_rows((uint64_t)r->rows, (uint64_t)r->columns, r->column_sums);
    for (int64_t line = 0; line < (rows ? r->rows : r->columns); line++) {
        const struct bounded *from = rows ? a + line * r->columns : a + line;
        struct bounded result =
            opcode == REMAT_INSTRUCTION_row_max ? largest(from, r->columns)
            : rows ? sum(from, r->columns, 1, r->columns / REMAT_REDUCTION_LANES + 7)
                   : sum(from, r->rows, r->columns, block + r->rows / block);
        for (int64_t i = 0; i < (rows ? r->columns : r->rows); i++)
            d[rows ? line * r->columns + i : i * r->columns + line] = result;
    }
}

static struct bounded loaded(double x)
{
    if (isinf(x))
        return unknown;
    return (struct bounded){x, x != 0 && fabs(x) < FLUSH ? FLUSH : 0};
}

static void run_instruction(const struct reference64_run *r, struct bounded *registers, uint32_t i)
{
    const struct remat_instruction *in = &r->kernel->instructions[i];
    struct bounded *d = registers + i * r->count;
    const struct bounded *args[3] = {d, d, d};
    for (uint32_t k = 0; k < remat_opcode_arity(in->opcode); k++)
        args[k] = registers + in->args[k] * r->count;
    if (remat_opcode_is_row_reduction(in->opcode) || remat_opcode_is_column_reduction(in->opcode)) {
        reduce(r, in->opcode, args[0], d);
        return;
    }
    for (int64_t e = 0; e < r->count; e++)
        if (in->opcode < REMAT_INSTRUCTION_store || in->opcode == REMAT_INSTRUCTION_random)
            d[e] = loaded(reference64_load(r, in, e));
        else if (in->opcode == REMAT_INSTRUCTION_constant)
            d[e] = loaded((double)in->immediate);
        else if (in->opcode == REMAT_INSTRUCTION_column)
            d[e] = loaded((double)(e % r->columns));
        else
            d[e] = compute(in->opcode, args[0][e], args[1][e], args[2][e]);
}

static struct bounded narrowed(struct bounded value, uint8_t dtype)
{
    if (isnan(value.x) || value.e == INFINITY || dtype == REMAT_F32)
        return value;
    if (dtype == REMAT_BF16)
        return to_bf16(value);
    if (!(fabs(value.x) + value.e < 65504))
        return unknown;
    struct bounded out = rounded(value.x, value.e, 0x1p-11);
    return (struct bounded){out.x, out.e + 0x1p-25}; /* half of the least subnormal */
}

static void count_stored(const struct reference64_run *r, const struct remat_instruction *store,
                         enum remat_register_class class, const struct bounded *values,
                         const char *after, struct bounds64 *out)
{
    uint8_t dtype = r->program->operands[r->command->operand_begin + store->operand].dtype;
    for (int64_t e = 0; e < r->count; e++) {
        struct bounded value = narrowed(values[e], dtype);
        double found = reference64_stored(r, store, class, e, after);
        out->elements++;
        if (value.e == INFINITY)
            continue;
        out->judged += isnan(value.x) || value.e == 0 || value.e <= 0.01 * fabs(value.x);
        out->outside += isnan(value.x) ? !isnan(found) : !(fabs(found - value.x) <= value.e);
    }
}

void bounds64_count(const struct remat_program *program, uint32_t c, const char *before,
                    const char *after, struct bounds64 *out)
{
    enum remat_register_class *classes;
    struct reference64_run r = reference64_begin(program, c, before, &classes);
    r.column_sums = out->column_sums ? out->column_sums : REMAT_COLUMN_SUMS;
    uint32_t count = r.kernel->instruction_count;
    struct bounded *registers = malloc(sizeof *registers * (size_t)r.count * count);
    fenv_t caller; /* may flush subnormals, which are to be read as they are */
    fegetenv(&caller);
    fesetenv(FE_DFL_ENV);
    for (uint32_t i = 0; i < count; i++) {
        const struct remat_instruction *in = &r.kernel->instructions[i];
        if (in->opcode == REMAT_INSTRUCTION_store)
            count_stored(&r, in, classes[in->args[0]], registers + in->args[0] * r.count, after,
                         out);
        else if (remat_opcode_has_result(in->opcode))
            run_instruction(&r, registers, i);
    }
    fesetenv(&caller);
    free(registers);
    free(classes);
}
