/* SPDX-License-Identifier: Apache-2.0 */
/* A plan that is mutated field by field and taken back again. */
#ifndef FUZZ_MUTANT_H
#define FUZZ_MUTANT_H

#include "mutate.h"
#include "program.h"

#include <stddef.h>

#define CHANGES_MAX    64
#define ITEM_BYTES_MAX sizeof(struct remat_operand)

struct change {
    void *at;
    size_t bytes;
    unsigned char before[ITEM_BYTES_MAX];
};

struct mutant {
    struct random random;
    struct remat_program *program;
    struct remat_program head; /* as it was */
    uint64_t *live_bytes;      /* [command], as they were */
    uint64_t *born_bytes;      /* [command + 1], scratch of repair */
    struct change changes[CHANGES_MAX];
    uint32_t change_count;
    uint64_t work_max;
};

/* A number below `limit`, 0 without one; by m->random, which the caller seeds. */
uint64_t mutant_below(struct mutant *m, uint64_t limit);
/* Some fields and what a plan claims of itself, which is mostly made right again. */
void mutant_change(struct mutant *m);
void mutant_take_back(struct mutant *m);

#endif
