/* SPDX-License-Identifier: Apache-2.0 */
/* Bits that look random, of a number. */
#ifndef REMAT_TOOLS_RUN_MIX_H
#define REMAT_TOOLS_RUN_MIX_H

#include <stdint.h>

/* A step of splitmix64 from that state. */
static inline uint64_t mix(uint64_t state)
{
    uint64_t z = state + UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

#endif
