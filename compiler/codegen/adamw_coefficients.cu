/* SPDX-License-Identifier: Apache-2.0 */
/* AdamW's coefficients of a step; one that is not counted from 1 gives NaN. */
#ifndef REMAT_ADAMW_COEFFICIENTS
#define REMAT_ADAMW_COEFFICIENTS
/* base^exponent, exponent >= 0 */
DEV double power(double base, i32 exponent)
{
    double result = 1.0;
    for (; exponent; exponent >>= 1, base *= base)
        if (exponent & 1)
            result *= base;
    return result;
}

DEV void adamw_coefficients(const u8 *lr, const u8 *step, u8 *out, double beta1, double beta2,
                            double weight_decay)
{
    const double rate = (double)load_f32(lr);
    const i32 count = (i32)read4(step);
    const i32 exponent = count < 1 ? 1 : count;
    const float decay = (float)(1.0 - rate * weight_decay);
    const float factor = (float)(rate / (1.0 - power(beta1, exponent)));
    const float root = (float)square_root_double(1.0 - power(beta2, exponent));
    store_f32(out, count < 1 ? NOT_A_NUMBER : decay);
    store_f32(out + 4, count < 1 ? NOT_A_NUMBER : factor);
    store_f32(out + 8, count < 1 ? NOT_A_NUMBER : root);
    store_f32(out + 12, count < 1 ? NOT_A_NUMBER : 1.0f);
}
#endif

BODY(adamw_coefficients)
{
    adamw_coefficients(lr, step, out, beta1, beta2, weight_decay);
}
