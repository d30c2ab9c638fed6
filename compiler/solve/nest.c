/* SPDX-License-Identifier: Apache-2.0 */
/* When the backward pass comes to group j of those whose inputs are saved, counted from 1, what the
 * groups behind it held is gone, and its own inner inputs are there: j + size - 1 inputs in all. So
 * the first groups may be the largest. With at most `most` inputs at once, m groups cover the sum
 * of max(1, most - j + 1); the arrangement is that of Griewank and Walther's revolve for two
 * sweeps. */
#include "nest.h"

static uint32_t size_of(uint32_t group, uint32_t most)
{
    return group + 1 < most ? most - group : 1;
}

static uint32_t covered(uint32_t groups, uint32_t most)
{
    uint32_t stages = 0;
    for (uint32_t group = 0; group < groups; group++)
        stages += size_of(group, most);
    return stages;
}

void remat_nest(uint32_t stage_count, uint32_t dropped, bool *out)
{
    uint32_t groups = stage_count - dropped, most = 1, stage = 0;
    while (covered(groups, most) < stage_count)
        most++;
    for (uint32_t group = 0; group < groups; group++) {
        uint32_t left = stage_count - stage - (groups - group - 1);
        uint32_t size = size_of(group, most) < left ? size_of(group, most) : left;
        for (uint32_t s = 0; s < size; s++)
            out[stage++] = s + 1 < size;
    }
}
