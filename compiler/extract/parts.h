/* Kernel programs of the backward pass as clones may join and divide them. In parts that no
 * decision joins, and what each part takes at least. */
#ifndef REMAT_EXTRACT_PARTS_H
#define REMAT_EXTRACT_PARTS_H

#include "extract.h"

/* Who reads an item in the backward pass. */
struct remat_part_readers {
    bool joins;          /* a program that could be one kernel with a clone of it */
    uint32_t first_node; /* then: the first such node */
    bool apart;          /* a program that could not, or programs of several parts */
    uint32_t closed;     /* by this node a kernel is closed in which a clone is that they read;
                            REMAT_NONE     where nothing is known */
};

/* Lies in the arena it was made in. */
struct remat_parts {
    uint64_t least_ns; /* of all these programs, if nothing that they read is computed in them */
    double slack_ns;   /* the most that arithmetic of a part takes longer than its traffic */
    struct remat_part_readers *readers; /* by item */
};

/* `floor`: the device, with remat_price_floor. `prices` are those of `kernels`. Of `border`, facts
 * and items are set. */
remat_status remat_parts_create(struct remat_arena *arena, const struct remat_graph *graph,
                                const struct remat_kernel_list *kernels,
                                const struct remat_price *prices,
                                const struct remat_border_graph *border,
                                const struct remat_device_description *floor,
                                struct remat_parts *out);

#endif
