/* SPDX-License-Identifier: Apache-2.0 */
#include "check.h"

#include <math.h>
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

/* Of the row "FIGURE NAME"; NAN: none. */
static double committed(const char *name)
{
    char line[256];
    double figure = NAN;
    FILE *file = fopen(THRESHOLDS, "r");
    while (file && fgets(line, sizeof line, file)) {
        char *end;
        double number = strtod(line, &end);
        line[strcspn(line, "\n")] = 0;
        if (end > line && strcmp(end + strspn(end, " "), name) == 0)
            figure = number;
    }
    if (file)
        fclose(file);
    return figure;
}

bool check_figure(double figure, const char *format, ...)
{
    char name[128];
    va_list values;
    va_start(values, format);
    vsnprintf(name, sizeof name, format, values);
    va_end(values);
    double least = committed(name), cut = (double)(long long)(figure * 1e5 + 1e-3) / 1e5;
    printf("figure %.10g %s\n", cut, name);
    if (cut > least)
        printf("  has risen from %.10g: tests/renew.sh writes it into tests/thresholds.txt\n",
               least);
    return CHECK(cut >= least, "%.10g %s: %.10g in tests/thresholds.txt", cut, name, least);
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
