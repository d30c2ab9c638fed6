/* SPDX-License-Identifier: Apache-2.0 */
/* Small graphs each of which breaks a bound that lacks one rule of docs/planning.md. */
#ifndef TESTS_UNIT_CHECKPOINT_BOUND_SAMPLES_H
#define TESTS_UNIT_CHECKPOINT_BOUND_SAMPLES_H

#include <stdbool.h>
#include <stdint.h>

struct bound_sample {
    /* Nodes up to %z, from %data and %e, all f32[2,64,64], and %ids, i32[2,64]. Where a line says
     * no more, its value is like those, its node in the forward pass, a parameter or state
     * at random. */
    const char *text;
    double flops_per_ns; /* of programs; 0: so many that memory takes the time */
    double launch_ns;
    bool profile;                   /* a noisy one */
    const char *saved, *recomputed; /* by pins, a value each; NULL: none */
};

extern const struct bound_sample bound_samples[];
extern const uint32_t bound_sample_count;

#endif
