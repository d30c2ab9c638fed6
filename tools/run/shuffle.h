/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers that look random: bits of a number, and the order of an epoch without a list of it, as
 * any place is computed from the seed. */
#ifndef REMAT_TOOLS_RUN_SHUFFLE_H
#define REMAT_TOOLS_RUN_SHUFFLE_H

#include <stdint.h>

/* Which of `count` items comes at `position` (below count): a permutation for each seed and epoch.
 *
 * It is a Feistel network on as few bits 2h as hold all positions, applied until the result is one
 * of them. With key = mix(mix(seed) + epoch), round r = 0 ... 11 takes the upper and lower halves
 * (a, b) of h bits to (b, a ^ mix(mix(key + r) + b) mod 2^h). tests/e2e/tokens.py has it too. */
uint64_t shuffle(uint64_t seed, uint64_t epoch, uint64_t count, uint64_t position);

/* Mixes bits: a step of splitmix64 from that state. */
static inline uint64_t mix(uint64_t state)
{
    uint64_t z = state + UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

#endif
