/* SPDX-License-Identifier: Apache-2.0 */
/* Instances of a node: 0 is the original. A clone is made in a round of recomputation, in a rerun
 * of the original's kernel or inside a kernel that reads it; both follow from its instance. */
#ifndef REMAT_CLONE_ROUND_H
#define REMAT_CLONE_ROUND_H

#include <stdbool.h>
#include <stdint.h>

/* Round 1: 1 in the rerun, 2 inlined; round 2: 3 and 4. */
static inline uint32_t remat_clone_instance(uint32_t round, bool inlined)
{
    return 2 * round - !inlined;
}

/* 0: no clone. */
static inline uint32_t remat_clone_round(uint32_t instance)
{
    return (instance + 1) / 2;
}

#endif
