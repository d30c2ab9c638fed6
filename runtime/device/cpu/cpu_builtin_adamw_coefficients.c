/* SPDX-License-Identifier: Apache-2.0 */
/* AdamW's coefficients of a step. */
#include "cpu_builtin.h"

#include <math.h>

static remat_status prepare_adamw(struct cpu_device *device, const struct remat_command *command,
                                  struct cpu_tile **tile)
{
    (void)tile;
    struct cpu_view lr = cpu_view_of(device, command, 0), step = cpu_view_of(device, command, 1),
                    out = cpu_view_of(device, command, 2);
    bool good = cpu_view_is(&lr, REMAT_F32) && cpu_view_is(&step, REMAT_I32) &&
                cpu_view_is(&out, REMAT_F32) && cpu_view_count(&lr) == 1 &&
                cpu_view_count(&step) == 1 && cpu_view_count(&out) == 4;
    return cpu_expect(device, command, good,
                      "operands are not lr f32 [1], step i32 [1], out f32 [4]");
}

/* base^exponent in a fixed order of double multiplications, so that no libm decides the bits. */
static double power(double base, int32_t exponent)
{
    double result = 1.0;
    for (; exponent; exponent >>= 1, base *= base)
        if (exponent & 1)
            result *= base;
    return result;
}

static remat_status run_adamw(struct cpu_device *device, const struct remat_command *command,
                              const struct cpu_tile *tile)
{
    (void)tile;
    double lr = (double)*(const float *)cpu_view_of(device, command, 0).data;
    int32_t step = *(const int32_t *)cpu_view_of(device, command, 1).data;
    float *out = cpu_view_of(device, command, 2).data;
    if (step < 1)
        return remat_error(device->base.ctx, REMAT_ERROR_INVALID,
                           "command \"%s\": step is %d, it counts from 1", command->name, step);
    out[0] = (float)(1.0 - lr * cpu_parameter(device, command, 2));
    out[1] = (float)(lr / (1.0 - power(cpu_parameter(device, command, 0), step)));
    out[2] = (float)sqrt(1.0 - power(cpu_parameter(device, command, 1), step));
    out[3] = 1;
    return REMAT_OK;
}

const struct cpu_builtin_kernel cpu_builtin_adamw_coefficients = {prepare_adamw, run_adamw, 0};
