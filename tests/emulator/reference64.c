/* SPDX-License-Identifier: Apache-2.0 */
#include "reference64.h"

#include "check.h"
#include "half.h"
#include "philox.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

static uint64_t offset_of(const struct reference64_run *r, const struct remat_operand *operand,
                          int64_t row, int64_t column)
{
    uint64_t element = operand->offset_elements;
    uint32_t last = r->command->rank - 1;
    element += (uint64_t)(column * operand->strides[last]);
    for (uint32_t k = last; k-- > 0; row /= r->command->space[k])
        element += (uint64_t)(row % r->command->space[k] * operand->strides[k]);
    return r->program->buffers[r->program->values[operand->value].buffer].offset_bytes +
           element * remat_dtype_bytes((remat_dtype)operand->dtype);
}

static double read(const char *arena, uint64_t offset, uint8_t dtype)
{
    uint32_t bits = 0;
    float value;
    uint16_t half;
    memcpy(&half, arena + offset, sizeof half);
    if (dtype == REMAT_F16)
        return (double)half_widen(half);
    memcpy(dtype == REMAT_BF16 ? (char *)&bits + 2 : (char *)&bits, arena + offset,
           remat_dtype_bytes((remat_dtype)dtype));
    memcpy(&value, &bits, sizeof value);
    return dtype == REMAT_I32 ? (double)(int32_t)bits : (double)value;
}

static double draw(const struct reference64_run *r, const struct remat_instruction *in,
                   const struct remat_operand *operand, int64_t element)
{
    uint32_t state[4], words[4];
    memcpy(state, r->before + offset_of(r, operand, 0, 0), sizeof state);
    uint64_t index = (uint64_t)element + state[3] * (uint64_t)r->count;
    uint32_t counter[4] = {(uint32_t)(index / 4), (uint32_t)(index / 4 >> 32),
                           (uint32_t)in->immediate, state[2]};
    philox(counter, state, words);
    return (words[index % 4] >> 8) * 0x1p-24;
}

double reference64_load(const struct reference64_run *r, const struct remat_instruction *in,
                        int64_t element)
{
    const struct remat_operand *operand =
        &r->program->operands[r->command->operand_begin + in->operand];
    int64_t row = element / r->columns, column = element % r->columns;
    if (in->opcode == REMAT_INSTRUCTION_random)
        return draw(r, in, operand, element);
    if (in->opcode == REMAT_INSTRUCTION_load_row)
        column = 0;
    return read(r->before, offset_of(r, operand, row, column), operand->dtype);
}

double reference64_stored(const struct reference64_run *r, const struct remat_instruction *store,
                          enum remat_register_class class, int64_t element, const char *after)
{
    const struct remat_operand *operand =
        &r->program->operands[r->command->operand_begin + store->operand];
    int64_t row = class == REMAT_CLASS_COLUMN ? 0 : element / r->columns;
    int64_t column = class == REMAT_CLASS_ROW ? 0 : element % r->columns;
    return read(after, offset_of(r, operand, row, column), operand->dtype);
}

double reference64_round_bf16(double x)
{
    int exponent;
    if (x == 0 || !isfinite(x))
        return x;
    frexp(x, &exponent);
    return ldexp(nearbyint(ldexp(x, 8 - exponent)), exponent - 8);
}

static double compute(uint16_t opcode, double a, double b, double c)
{
    switch (opcode) {
    case REMAT_INSTRUCTION_add:
        return a + b;
    case REMAT_INSTRUCTION_sub:
        return a - b;
    case REMAT_INSTRUCTION_mul:
        return a * b;
    case REMAT_INSTRUCTION_div:
        return a / b;
    case REMAT_INSTRUCTION_maximum:
        return fmax(a, b);
    case REMAT_INSTRUCTION_minimum:
        return fmin(a, b);
    case REMAT_INSTRUCTION_equal:
        return a == b;
    case REMAT_INSTRUCTION_less:
        return a < b;
    case REMAT_INSTRUCTION_select:
        return a != 0 ? b : c;
    case REMAT_INSTRUCTION_neg:
        return -a;
    case REMAT_INSTRUCTION_exp:
        return exp(a);
    case REMAT_INSTRUCTION_log:
        return log(a);
    case REMAT_INSTRUCTION_sqrt:
        return sqrt(a);
    case REMAT_INSTRUCTION_rsqrt:
        return 1 / sqrt(a);
    case REMAT_INSTRUCTION_tanh:
        return tanh(a);
    case REMAT_INSTRUCTION_erf:
        return erf(a);
    case REMAT_INSTRUCTION_sigmoid:
        return 1 / (1 + exp(-a));
    case REMAT_INSTRUCTION_round_bf16:
        return reference64_round_bf16(a);
    default:
        return NAN;
    }
}

static void reduce(const struct reference64_run *r, uint16_t opcode, const double *a, double *d)
{
    bool by_column = opcode == REMAT_INSTRUCTION_column_sum;
    for (int64_t e = 0; e < r->count; e++)
        d[e] = opcode == REMAT_INSTRUCTION_row_max ? -INFINITY : 0;
    for (int64_t e = 0; e < r->count; e++) {
        double *total = &d[by_column ? e % r->columns : e - e % r->columns];
        *total = opcode == REMAT_INSTRUCTION_row_max ? fmax(*total, a[e]) : *total + a[e];
    }
    for (int64_t e = 0; e < r->count; e++)
        d[e] = d[by_column ? e % r->columns : e - e % r->columns];
}

static void run_instruction(const struct reference64_run *r, uint32_t i)
{
    const struct remat_instruction *in = &r->kernel->instructions[i];
    double *d = r->registers + i * r->count;
    const double *args[3] = {d, d, d};
    for (uint32_t k = 0; k < remat_opcode_arity(in->opcode); k++)
        args[k] = r->registers + in->args[k] * r->count;
    if (remat_opcode_is_row_reduction(in->opcode) || remat_opcode_is_column_reduction(in->opcode)) {
        reduce(r, in->opcode, args[0], d);
        return;
    }
    for (int64_t e = 0; e < r->count; e++) {
        if (in->opcode < REMAT_INSTRUCTION_store || in->opcode == REMAT_INSTRUCTION_random)
            d[e] = reference64_load(r, in, e);
        else if (in->opcode == REMAT_INSTRUCTION_constant)
            d[e] = in->immediate;
        else if (in->opcode == REMAT_INSTRUCTION_column)
            d[e] = (double)(e % r->columns);
        else
            d[e] = compute(in->opcode, args[0][e], args[1][e], args[2][e]);
    }
}

static double largest_loaded(const struct reference64_run *r)
{
    double most = 0;
    for (uint32_t i = 0; i < r->kernel->instruction_count; i++)
        for (int64_t e = 0;
             r->kernel->instructions[i].opcode == REMAT_INSTRUCTION_load && e < r->count; e++)
            most = fmax(most, fabs(r->registers[i * r->count + e]));
    return most;
}

/* Of one store. A value a row is a sum that may cancel: what was loaded counts. A NaN on either
 * side alone is infinitely far. */
static double compare(const struct reference64_run *r, const struct remat_instruction *store,
                      enum remat_register_class class, const char *after)
{
    const double *expected = r->registers + store->args[0] * r->count;
    double most = class == REMAT_CLASS_ROW ? largest_loaded(r) : 0, difference = 0;
    for (int64_t e = 0; e < r->count; e++) {
        double found = reference64_stored(r, store, class, e, after);
        if (isnan(found) != isnan(expected[e]))
            return INFINITY;
        most = fmax(most, fabs(expected[e]));
        difference = fmax(difference, fabs(found - expected[e]));
    }
    return difference / (most > 0 ? most : 1);
}

/* A flag is 1 after a value that no f32 holds; else it is as it was, or as another command of the
 * same group made it. */
static double compare_flag(const struct reference64_run *r, const struct remat_instruction *flag,
                           const char *after)
{
    const double *values = r->registers + flag->args[0] * r->count;
    const struct remat_operand *operand =
        &r->program->operands[r->command->operand_begin + flag->operand];
    uint64_t at = offset_of(r, operand, 0, 0);
    double found = read(after, at, REMAT_I32);
    bool finite = true;
    for (int64_t e = 0; e < r->count; e++)
        finite &= fabs(values[e]) <= (double)FLT_MAX;
    return found == 1 || (finite && found == read(r->before, at, REMAT_I32)) ? 0 : INFINITY;
}

struct reference64_run reference64_begin(const struct remat_program *program, uint32_t c,
                                         const char *before, enum remat_register_class **classes)
{
    const struct remat_command *command = &program->commands[c];
    struct reference64_run r = {
        program, command, &program->kernels[command->kernel].body, before, 1, 1, 1, NULL, 0};
    for (uint32_t k = 0; k < command->rank; k++) {
        r.count *= command->space[k];
        r.columns = command->space[k];
    }
    r.rows = r.count / r.columns;
    *classes = calloc(r.kernel->instruction_count, sizeof **classes);
    remat_context *ctx = remat_context_create(NULL, NULL);
    MUST_OK(ctx, remat_kernel_body_check(ctx, r.kernel, "", *classes));
    remat_context_destroy(&ctx);
    return r;
}

double reference64_difference(const struct remat_program *program, uint32_t c, const char *before,
                              const char *after)
{
    const struct remat_command *command = &program->commands[c];
    enum remat_register_class *classes;
    struct reference64_run r = reference64_begin(program, c, before, &classes);
    uint32_t count = r.kernel->instruction_count;
    r.registers = malloc(sizeof(double) * (size_t)r.count * count);
    double worst = 0, coarse = 1;
    for (uint32_t i = 0; i < count; i++) {
        const struct remat_instruction *in = &r.kernel->instructions[i];
        bool store = in->opcode == REMAT_INSTRUCTION_store;
        const struct remat_operand *operand =
            &program->operands[command->operand_begin + in->operand];
        if (in->opcode == REMAT_INSTRUCTION_round_bf16 || (store && operand->dtype == REMAT_BF16))
            coarse = REFERENCE64_COARSE;
        if (store)
            worst = fmax(worst, compare(&r, in, classes[in->args[0]], after));
        else if (in->opcode == REMAT_INSTRUCTION_flag)
            worst = fmax(worst, compare_flag(&r, in, after));
        else
            run_instruction(&r, i);
    }
    free(r.registers);
    free(classes);
    return worst / coarse;
}
