/* SPDX-License-Identifier: Apache-2.0 */
#include "verify.h"

#include <stdarg.h>
#include <stdio.h>

remat_status remat_verify_error(struct remat_verifier *v, const char *table, uint32_t index,
                                const char *name, const char *format, ...)
{
    char what[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    if (!name)
        return remat_error(v->ctx, REMAT_ERROR_INVALID, "%s[%u]: %s", table, index, what);
    return remat_error(v->ctx, REMAT_ERROR_INVALID, "%s[%u] \"%.200s\": %s", table, index, name,
                       what);
}

bool remat_dims_elements(const int64_t *dims, uint32_t rank, uint64_t *out)
{
    *out = 1;
    for (uint32_t d = 0; d < rank; d++)
        if (dims[d] <= 0 || !remat_mul_u64(*out, (uint64_t)dims[d], out) ||
            *out > REMAT_ELEMENTS_MAX)
            return false;
    return true;
}
