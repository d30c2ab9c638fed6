/* SPDX-License-Identifier: Apache-2.0 */
/* Slots to pack: random ones, and those of training steps. */
#ifndef REMAT_TEST_INSTANCES_H
#define REMAT_TEST_INSTANCES_H

#include "check.h"

#include <pack.h>

struct slots {
    struct remat_arena *arena;
    struct remat_slot *items;
    size_t count, capacity;
    bool failed; /* out of memory: the slots are incomplete */
};

/* A number in [0, bound); splitmix64. */
uint64_t draw(uint64_t *seed, uint64_t bound);

/* Appends a slot and returns its index. */
uint32_t add_slot(struct slots *slots, uint32_t begin, uint32_t end, uint64_t bytes);

/* `count` slots with lifespans in [0, positions) and up to `units` alignment units. */
void random_slots(struct slots *slots, uint64_t *seed, uint32_t count, uint32_t positions,
                  uint64_t units);

/* One step of a pre-LN transformer of 10 values per layer: forward, then per layer backward the
 * recomputed values and the gradients. */
struct training {
    uint32_t layers;
    uint64_t unit_bytes;   /* of a batch x sequence x hidden tensor */
    uint64_t logits_bytes; /* 0: no head */
    uint32_t drop_percent; /* probability that a value of a layer is recomputed, not saved */
    bool greedy;           /* recompute each value just before its use, not the whole region */
    bool keep_gradients;   /* weight gradients live to the end, else to the next position */
    uint64_t seed;
};
void training_slots(struct slots *slots, const struct training *training);

#endif
