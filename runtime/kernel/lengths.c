/* SPDX-License-Identifier: Apache-2.0 */
#include "lengths.h"

#include <assert.h>

struct remat_axes remat_lengths_axes(const char *text)
{
    bool leads = *text == '*';
    return (struct remat_axes){(uint32_t)strcspn(text, "]") - leads, leads};
}

static void learn_leading(struct remat_lengths *l, uint32_t rank, const int64_t *given)
{
    l->led = true;
    l->leading_rank = rank;
    for (uint32_t d = 0; d < rank; d++)
        l->leading[d] = given[d];
}

uint32_t remat_lengths_expected(struct remat_lengths *l, const char *text, uint32_t rank,
                                const int64_t *given, int64_t out[REMAT_RANK_MAX])
{
    struct remat_axes axes = remat_lengths_axes(text);
    assert(!given || remat_axes_have(axes, rank));
    uint32_t at = given ? rank - axes.axes : 0, count = 0;
    if (axes.leads && !l->led)
        learn_leading(l, at, given);
    if ((axes.leads ? l->leading_rank : 0) + axes.axes > REMAT_RANK_MAX)
        return REMAT_NONE;
    for (uint32_t d = 0; axes.leads && d < l->leading_rank; d++)
        out[count++] = l->leading[d];
    for (text += axes.leads; *text != ']'; text++, at++) {
        int64_t *length = &l->of[(int)*text];
        if (*length == 0)
            *length = *text <= '9' ? *text - '0' : given[at];
        out[count++] = *length;
    }
    return count;
}
