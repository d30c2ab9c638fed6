/* SPDX-License-Identifier: Apache-2.0 */
/* Work on several streams at once. Whatever the schedule, what lies between two moments takes at
 * least any weighted mean of the work that the streams do in it. One moment divides a step into two
 * halves, each of which has weights of its own ("Several streams" in docs/planning.md). */
#ifndef REMAT_WORK_H
#define REMAT_WORK_H

#include <stdbool.h>
#include <stdint.h>

enum { REMAT_STREAMS_MAX = 3 }; /* computation, and the links of REMAT_MESH_AXES_MAX axes */

enum remat_half {
    REMAT_HALF_FIRST,
    REMAT_HALF_SECOND,
    REMAT_HALF_EITHER, /* it may be done in any of the two: the smaller weight counts */
    REMAT_HALVES
};

/* A kind of work: its half, and the streams that it occupies, by bit. */
enum { REMAT_WORK_KINDS = REMAT_HALVES << REMAT_STREAMS_MAX };
static inline uint8_t remat_work_kind(enum remat_half half, uint32_t streams)
{
    return (uint8_t)((uint32_t)half << REMAT_STREAMS_MAX | streams);
}
static inline enum remat_half remat_work_half(uint32_t kind)
{
    return (enum remat_half)(kind >> REMAT_STREAMS_MAX);
}
static inline uint32_t remat_work_streams(uint32_t kind)
{
    return kind & ((1u << REMAT_STREAMS_MAX) - 1);
}

/* By half and stream: not below zero, those of a half add up to at most 1. */
struct remat_weights {
    double of[2][REMAT_STREAMS_MAX];
};

static inline bool remat_weights_equal(const struct remat_weights *a, const struct remat_weights *b)
{
    bool equal = true;
    for (uint32_t s = 0; s < REMAT_STREAMS_MAX; s++)
        equal &= a->of[0][s] == b->of[0][s] && a->of[1][s] == b->of[1][s];
    return equal;
}

/* The weight of a stream in the work of a half. */
static inline double remat_stream_weight(const struct remat_weights *weights, enum remat_half half,
                                         uint32_t stream)
{
    double first = weights->of[0][stream], second = weights->of[1][stream];
    if (half == REMAT_HALF_EITHER)
        return first < second ? first : second;
    return half == REMAT_HALF_FIRST ? first : second;
}

/* The weight of a kind of work: the sum over its streams. */
static inline double remat_work_weight(const struct remat_weights *weights, uint32_t kind)
{
    double sum = 0;
    for (uint32_t s = 0; s < REMAT_STREAMS_MAX; s++)
        if (remat_work_streams(kind) >> s & 1)
            sum += remat_stream_weight(weights, remat_work_half(kind), s);
    return sum;
}

/* The sum of work by kind, weighed. */
static inline double remat_work_weigh(const struct remat_weights *weights, const int64_t *work_ps)
{
    double sum = 0;
    for (uint32_t kind = 0; kind < REMAT_WORK_KINDS; kind++)
        if (work_ps[kind])
            sum += remat_work_weight(weights, kind) * (double)work_ps[kind];
    return sum;
}

/* The time that work by kind takes at least. */
double remat_work_least_ps(const int64_t *work_ps);

#endif
