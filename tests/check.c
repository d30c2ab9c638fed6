/* SPDX-License-Identifier: Apache-2.0 */
#include "check.h"

#include <stdarg.h>

static int failures;

static void print(const char *file, int line, const char *expression, const char *format,
                  va_list values)
{
    failures++;
    fflush(stdout);
    fprintf(stderr, "%s:%d: %s:", file, line, expression);
    vfprintf(stderr, format, values);
}

bool check_failed(const char *file, int line, const char *expression, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    print(file, line, expression, format, values);
    va_end(values);
    fputc('\n', stderr);
    return false;
}

bool check_status(const char *file, int line, const char *call, const remat_context *ctx,
                  remat_status status, remat_status expected, const char *part, const char *format,
                  ...)
{
    const char *message = status == REMAT_OK ? "" : remat_context_message(ctx);
    if (status == expected && strstr(message, part))
        return true;
    va_list values;
    va_start(values, format);
    print(file, line, call, format, values);
    va_end(values);
    fprintf(stderr, " status %d \"%s\", expected %d", (int)status, message, (int)expected);
    if (expected != REMAT_OK)
        fprintf(stderr, " \"%s\"", part);
    fputc('\n', stderr);
    return false;
}

int checks_failed(void)
{
    return failures;
}

int check_exit(void)
{
    if (failures > 0)
        fprintf(stderr, "%d checks failed\n", failures);
    return failures > 0;
}
