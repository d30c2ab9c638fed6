/* SPDX-License-Identifier: Apache-2.0 */
/* A plan that is mutated field by field and taken back again. */
#ifndef FUZZ_MUTANT_H
#define FUZZ_MUTANT_H

#include "mutate.h"
#include "program.h"

#include <stddef.h>

#define CHANGES_MAX    64
#define ITEM_BYTES_MAX sizeof(struct remat_command)

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

/* Of a program, which is borrowed; its tables lie in `arena`. Ends the process without memory. */
void mutant_make(struct remat_arena *arena, struct mutant *m, struct remat_program *program,
                 uint64_t work_max);
/* A number below `limit`, 0 without one; by m->random, which the caller seeds. */
uint64_t mutant_below(struct mutant *m, uint64_t limit);
/* Some fields and what a plan claims of itself, which is mostly made right again. `streams`: half
 * of the changes are of what orders transfers. */
void mutant_change(struct mutant *m, bool streams);
void mutant_take_back(struct mutant *m);

/* --- parts of it --- */

void mutant_set(struct mutant *m, void *at, const void *bytes, size_t count);
/* When a transfer starts, what it waits for, when it is complete, its group, what it sends: that of
 * its group, too, or of it alone; its buffers mostly live for as long. */
void mutant_change_stream(struct mutant *m);
/* The same where every change leaves a plan that is well formed but for races: those that wait for
 * a transfer wait less long. */
void mutant_plant_race(struct mutant *m);
/* What the plan claims of itself. */
void mutant_repair(struct mutant *m);

#endif
