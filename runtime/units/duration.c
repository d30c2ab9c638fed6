/* SPDX-License-Identifier: Apache-2.0 */
#include "size.h"

#include "base.h"

#include <stdlib.h>
#include <string.h>

/* Descending; "m" is no milli: "ms" is. */
static const struct {
    const char *name;
    double seconds;
} units[] = {{"h", 3600}, {"min", 60}, {"m", 60}, {"s", 1}, {"ms", 1e-3}};
enum { UNIT_COUNT = sizeof units / sizeof *units };

static size_t find_unit(const char *name, size_t length)
{
    size_t unit = 0;
    while (unit < UNIT_COUNT &&
           (strlen(units[unit].name) != length || strncmp(units[unit].name, name, length) != 0))
        unit++;
    return unit;
}

/* A number and its unit, again and again; units descend. */
static bool read_parts(const char *text, double *seconds)
{
    double least = 2 * units[0].seconds;
    *seconds = 0;
    do {
        char *name;
        if (*text < '0' || *text > '9')
            return false;
        double value = strtod(text, &name);
        size_t length = strspn(name, "abcdefghijklmnopqrstuvwxyz"), unit = find_unit(name, length);
        if (unit == UNIT_COUNT || units[unit].seconds >= least)
            return false;
        least = units[unit].seconds;
        *seconds += value * least;
        text = name + length;
    } while (*text);
    return true;
}

static bool read_bare(const char *text, double *seconds)
{
    char *end;
    *seconds = *text >= '0' && *text <= '9' ? strtod(text, &end) : -1;
    return *seconds >= 0 && !*end;
}

remat_status remat_duration_parse(remat_context *ctx, const char *setting, const char *text,
                                  double *seconds)
{
    if ((read_bare(text, seconds) || read_parts(text, seconds)) && *seconds >= 1e-3 &&
        *seconds <= 1e6)
        return REMAT_OK;
    return remat_error(ctx, REMAT_ERROR_USAGE,
                       "%s '%s' is not a time (accepted: 1ms to 1000000s, as 500ms, 10s, 2min, "
                       "3h50m)",
                       setting, text);
}
