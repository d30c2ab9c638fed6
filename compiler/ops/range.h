/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges of attributes and of the optimizer's settings: rows of attribute_ranges.def. */
#ifndef REMAT_RANGE_H
#define REMAT_RANGE_H

#include "graph.h"

enum remat_range_ends { REMAT_ENDS_CLOSED, REMAT_ENDS_ABOVE, REMAT_ENDS_BELOW };

struct remat_range {
    const char *key;
    uint8_t kind;  /* enum remat_attribute_kind */
    double absent; /* the default */
    double least, most;
    enum remat_range_ends ends; /* the excluded end */
};

struct remat_range remat_range_of(const char *key); /* any integer if the key has no row */
bool remat_range_has(const struct remat_range *range, double number); /* never NaN */

struct remat_range_text {
    char text[96]; /* "0 up to, not including, 1" */
};
struct remat_range_text remat_range_text(const struct remat_range *range);

struct remat_optimizer_fault {
    struct remat_range range; /* of the setting */
    double number;            /* its value, outside the range */
};
/* Finds a setting out of range; false: there is none. */
bool remat_optimizer_find_fault(const struct remat_optimizer *optimizer,
                                struct remat_optimizer_fault *out);

#endif
