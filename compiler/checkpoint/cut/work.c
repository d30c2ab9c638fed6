/* SPDX-License-Identifier: Apache-2.0 */
#include "work.h"

/* By stream, of one half or, as for weights that are equal in both, of all. */
static double longest_ps(const int64_t *work_ps, enum remat_half half)
{
    double sum_ps[REMAT_STREAMS_MAX] = {0}, most_ps = 0;
    for (uint32_t kind = 0; kind < REMAT_WORK_KINDS; kind++)
        for (uint32_t s = 0; s < REMAT_STREAMS_MAX; s++)
            if ((remat_work_streams(kind) >> s & 1) &&
                (half == REMAT_HALVES || remat_work_half(kind) == half))
                sum_ps[s] += (double)work_ps[kind];
    for (uint32_t s = 0; s < REMAT_STREAMS_MAX; s++)
        most_ps = sum_ps[s] > most_ps ? sum_ps[s] : most_ps;
    return most_ps;
}

double remat_work_least_ps(const int64_t *work_ps)
{
    double halves_ps =
        longest_ps(work_ps, REMAT_HALF_FIRST) + longest_ps(work_ps, REMAT_HALF_SECOND);
    double whole_ps = longest_ps(work_ps, REMAT_HALVES);
    return halves_ps > whole_ps ? halves_ps : whole_ps;
}
