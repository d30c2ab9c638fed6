/* SPDX-License-Identifier: Apache-2.0 */
/* What numbers an attribute or a setting of the optimizer may be: rows of attribute_ranges.def. */
#ifndef REMAT_RANGE_H
#define REMAT_RANGE_H

#include "graph.h"

enum remat_range_ends { REMAT_ENDS_CLOSED, REMAT_ENDS_ABOVE, REMAT_ENDS_BELOW };

struct remat_range {
    const char *key;
    uint8_t kind;  /* enum remat_attribute_kind */
    double absent; /* what it is where it is left out */
    double least, most;
    enum remat_range_ends ends; /* which of the two is not included */
};

struct remat_range remat_range_of(const char *key); /* any integer where the key has no row */
bool remat_range_has(const struct remat_range *range, double number); /* never NaN */

struct remat_range_text {
    char text[96]; /* "0 up to, not including, 1" */
};
struct remat_range_text remat_range_text(const struct remat_range *range);

struct remat_optimizer_fault {
    struct remat_range range; /* of the setting */
    double number;            /* that is outside */
};
/* False: all settings that its kind has are in range. */
bool remat_optimizer_find_fault(const struct remat_optimizer *optimizer,
                                struct remat_optimizer_fault *out);

#endif
