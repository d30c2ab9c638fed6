/* SPDX-License-Identifier: Apache-2.0 */
/* Random bits: Philox4x32-10 (Salmon et al., "Parallel random numbers", SC'11). Draws of tests, and
 * the oracle of the kernels' own. */
#ifndef PHILOX_H
#define PHILOX_H

#include <stdint.h>

void philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

#endif
