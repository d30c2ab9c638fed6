/* SPDX-License-Identifier: Apache-2.0 */
#include "range.h"

#include <math.h>

static const struct remat_range ranges[] = {
#define RANGE(key, kind, absent, least, most, ends)                                                \
    {key, REMAT_ATTRIBUTE_##kind, absent, least, most, REMAT_ENDS_##ends},
#include "attribute_ranges.def"
#undef RANGE
};

struct remat_range remat_range_of(const char *key)
{
    for (size_t k = 0; k < sizeof ranges / sizeof *ranges; k++)
        if (strcmp(ranges[k].key, key) == 0)
            return ranges[k];
    return (struct remat_range){key,      REMAT_ATTRIBUTE_INT, 0, -INFINITY,
                                INFINITY, REMAT_ENDS_CLOSED};
}

bool remat_range_has(const struct remat_range *range, double number)
{
    bool above = range->ends == REMAT_ENDS_ABOVE ? number > range->least : number >= range->least;
    bool below = range->ends == REMAT_ENDS_BELOW ? number < range->most : number <= range->most;
    return above && below;
}

struct remat_range_text remat_range_text(const struct remat_range *range)
{
    struct remat_range_text out;
    const char *between = range->ends == REMAT_ENDS_ABOVE   ? ", up to "
                          : range->ends == REMAT_ENDS_BELOW ? " up to, not including, "
                                                            : " to ";
    const char *before = range->ends == REMAT_ENDS_ABOVE ? "more than " : "";
    if (isinf(range->most))
        snprintf(out.text, sizeof out.text, "%s%.15g%s", before, range->least,
                 *before ? "" : " or more");
    else if (range->kind == REMAT_ATTRIBUTE_INT && range->most == 1)
        snprintf(out.text, sizeof out.text, "0 or 1");
    else
        snprintf(out.text, sizeof out.text, "%s%.15g%s%.15g", before, range->least, between,
                 range->most);
    return out;
}

bool remat_optimizer_find_fault(const struct remat_optimizer *optimizer,
                                struct remat_optimizer_fault *out)
{
    uint32_t first = optimizer->kind == REMAT_OPTIMIZER_ADAMW ? 0
                     : optimizer->kind == REMAT_OPTIMIZER_SGD ? 3
                                                              : REMAT_OPTIMIZER_SETTINGS;
    for (uint32_t k = first; k < REMAT_OPTIMIZER_SETTINGS; k++) {
        double number = optimizer->settings[k];
        bool is_off = k == 4 && number == 0; /* no clip_norm */
        *out = (struct remat_optimizer_fault){remat_range_of(remat_optimizer_setting(k)), number};
        if (!is_off && !remat_range_has(&out->range, number))
            return true;
    }
    return false;
}
