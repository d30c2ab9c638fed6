/* SPDX-License-Identifier: Apache-2.0 */
/* Lengths of axes, as the rows of ops.def and builtin_kernels.def state them: "[*qd]". A letter
 * stands for one length wherever it is in the row, a digit for itself, * for any number of leading
 * axes, the same wherever it is. */
#ifndef REMAT_LENGTHS_H
#define REMAT_LENGTHS_H

#include "kernel.h"

struct remat_lengths {   /* what letters and * stand for so far */
    int64_t of['z' + 1]; /* 0: not known yet */
    bool led;            /* `leading` is known */
    uint32_t leading_rank;
    int64_t leading[REMAT_RANK_MAX];
};

/* The axes of a text after its "[": `axes` of its own, after leading ones if it `leads`. */
struct remat_axes {
    uint32_t axes;
    bool leads;
};
struct remat_axes remat_lengths_axes(const char *text);

/* Whether an operand with so many axes may be what the text says. */
static inline bool remat_axes_have(struct remat_axes axes, uint32_t rank)
{
    return axes.leads ? rank >= axes.axes : rank == axes.axes;
}

/* The shape that the text says, and its rank. A length that is not known yet is from now on as in
 * `given`, of a rank that remat_axes_have; NULL: all is known. REMAT_NONE: more axes than there may
 * be. */
uint32_t remat_lengths_expected(struct remat_lengths *lengths, const char *text, uint32_t rank,
                                const int64_t *given, int64_t out[REMAT_RANK_MAX]);

#endif
