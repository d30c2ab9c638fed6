/* SPDX-License-Identifier: Apache-2.0 */
#include "shuffle.h"

#include <assert.h>

enum { ROUNDS = 12 };

static uint64_t encipher(uint64_t key, uint32_t half_bits, uint64_t x)
{
    uint64_t mask = (UINT64_C(1) << half_bits) - 1, a = x >> half_bits, b = x & mask;
    for (uint64_t r = 0; r < ROUNDS; r++) {
        uint64_t next = (a ^ mix(mix(key + r) + b)) & mask;
        a = b;
        b = next;
    }
    return a << half_bits | b;
}

uint64_t shuffle(uint64_t seed, uint64_t epoch, uint64_t count, uint64_t position)
{
    assert(position < count);
    uint64_t key = mix(mix(seed) + epoch), x = position;
    uint32_t half_bits = 1;
    while (half_bits < 32 && count > UINT64_C(1) << 2 * half_bits)
        half_bits++;
    do
        x = encipher(key, half_bits, x);
    while (x >= count);
    return x;
}
