/* SPDX-License-Identifier: Apache-2.0 */
/* Pins: what --save GLOB and --recompute GLOB say of each value. */
#ifndef REMAT_POLICY_PINS_H
#define REMAT_POLICY_PINS_H

#include "facts.h"
#include "policy.h"

/* What a glob matched. */
struct remat_pin_match {
    const char *setting; /* "--save" */
    const char *glob;
    uint32_t matched; /* scopes or values of whatever kind */
    uint32_t applied; /* values that it decides */
    uint32_t example; /* a matched value that it cannot decide, REMAT_NONE: none */
};

struct remat_pins {
    uint32_t match_count;
    struct remat_pin_match *matches; /* --save pins first, in the order given */
    uint32_t *save,
        *recompute; /* by value: index into matches, REMAT_NONE. The value owns its bytes */
};

void remat_pins_match(struct remat_arena *arena, const struct remat_graph *graph,
                      const struct remat_facts *facts, const struct remat_policy_settings *settings,
                      struct remat_pins *out);

#endif
