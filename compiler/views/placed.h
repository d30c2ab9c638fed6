/* SPDX-License-Identifier: Apache-2.0 */
/* Which ranks have what: parameters and values of the forward pass that are parts. */
#ifndef REMAT_DUMP_PLACED_H
#define REMAT_DUMP_PLACED_H

#include "program.h"

/* Name in other systems. */
struct placement_name {
    const char *megatron, *torchtitan;
};

struct placement {
    uint32_t value;
    int32_t layer;   /* of a parameter: that of its first reader */
    uint32_t reader; /* of a parameter: the command that reads it first; REMAT_NONE */
    /* Dimensions [begin, end) of the whole are divided as one, in so many equal blocks. */
    uint32_t begin, end;
    uint64_t blocks;
    const struct placement_name *name; /* NULL: they have none */
};
struct placements REMAT_LIST(struct placement);

/* Parameters first, then what commands of a step write, in their order. */
remat_status placed_find(struct remat_arena *arena, const struct remat_program *program,
                         struct placements *out);

#endif
