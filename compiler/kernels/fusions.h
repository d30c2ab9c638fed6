/* SPDX-License-Identifier: Apache-2.0 */
/* Fusions of nodes that run in one kernel. */
#ifndef REMAT_FUSIONS_H
#define REMAT_FUSIONS_H

#include "analysis.h"
#include "kernel_list.h"

/* The index space of a node. */
const struct remat_shape *remat_fuse_space(const struct remat_graph *graph,
                                           const struct remat_node_info *node);
/* True if a node, no built-in kernel, can join a fused kernel over `space`: it runs for each
 * element, or once per row. `rows`, `columns`: the kernel has such reductions. */
bool remat_fuse_fits(const struct remat_graph *graph, const struct remat_node_info *node,
                     const struct remat_shape *space, bool rows, bool columns);

/* Facts in addition to those of enum remat_op_fact, which are the low bits. */
enum remat_fuse_fact {
    REMAT_FUSE_COLUMN = 1 << 16, /* a column */
    REMAT_FUSE_CAST = 1 << 17,   /* a cast */
};

struct remat_fuse_node { /* facts of a node, in few bytes */
    uint32_t facts;
    remat_value output;              /* the first one */
    const struct remat_shape *space; /* the index space that it needs */
    const remat_value *inputs;
    uint32_t input_count, output_count;
    uint8_t phase; /* forward for loss; a kernel has nodes of one phase */
};

enum remat_fusion_kind {
    REMAT_FUSION_POINTWISE,
    REMAT_FUSION_ROW,
    REMAT_FUSION_COLUMN,
    REMAT_FUSION_BUILTIN
};

REMAT_INDEX(remat_fusion_id); /* of a fuser */
#define REMAT_NO_FUSION ((remat_fusion_id){REMAT_NONE})

struct remat_fusion {
    uint8_t kind; /* enum remat_fusion_kind */
    uint8_t phase;
    bool consumed;                   /* a node outside has read from it: closed */
    const struct remat_shape *space; /* the index space */
    uint32_t node_count;             /* 0: merged into another */
    remat_node first, last;
};

struct remat_fuse_value {
    uint32_t reads;         /* number of nodes' inputs that load it, through no view */
    remat_fusion_id fusion; /* that computes it; none: no fusion does */
};

struct remat_fuser {
    struct remat_arena *arena;
    const struct remat_graph *graph;
    struct remat_fuse_node *facts; /* by node */
    struct remat_fuse_value *values;
    struct remat_fusions REMAT_LIST(struct remat_fusion) fusions;
    uint8_t *stored; /* by value: another kernel reads it, or it is lasting */
    remat_kernel_id
        *kernel_of;          /* by node: the kernel that its fusion becomes; none: in no fusion */
    remat_node *next;        /* by node: the next one in its fusion */
    remat_fusion_id *within; /* by node: the fusion that bounds it; NULL: any fusion, of any size */
    struct remat_sources sources;
    struct remat_readers readers; /* by source */
};

/* Fills all but arena and graph. Fusions are in the order of their last nodes, as kernels are; the
 * nodes of each are in graph order. */
void remat_fuse_collect(struct remat_fuser *f);

#endif
