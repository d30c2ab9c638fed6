/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels: the nodes that one runs, its operands and its body; a list of them. */
#ifndef REMAT_KERNEL_LIST_H
#define REMAT_KERNEL_LIST_H

#include "ops.h"
#include "view.h"

#include <assert.h>

/* Limit of a fused kernel's nodes, including those that it inlines; keeps its instructions below
 * their limit. */
#define REMAT_FUSED_NODES_MAX        48
#define REMAT_FUSED_INSTRUCTIONS_MAX 512

REMAT_INDEX(remat_kernel_id); /* of a list */
#define REMAT_NO_KERNEL ((remat_kernel_id){REMAT_NONE})

/* An operand in memory. */
struct remat_kernel_operand {
    remat_value value;    /* the storage root that is read, or the value that is written */
    remat_value previous; /* UPDATE: the storage root of the version that is replaced */
    uint8_t access;       /* enum remat_access */
    uint64_t bytes;       /* of the value */
    /* Over the index space of a fused kernel, or the axes in a built-in kernel's row in
     * builtin_kernels.def. */
    const struct remat_view *view;
};

/* `written` may lie in the memory of `read`: same dtype and bytes, both dense over the same space,
 * and every element is read before it is written under the rules of kernel.h (reductions make
 * executors read again in a later stage). */
struct remat_shared_operands {
    uint16_t read, written;
};

struct remat_kernel_info {
    uint32_t kind; /* enum remat_kernel_kind */
    uint8_t phase;
    uint32_t instance;
    remat_scope_id scope;
    uint32_t node_count, operand_count, parameter_count;
    remat_node *nodes; /* in graph order */
    struct remat_kernel_operand *operands;
    uint32_t absent; /* of a built-in kernel's operands, as kernel.h has it */
    double *parameters;
    struct remat_shape space;      /* of a fused kernel */
    struct remat_kernel_body body; /* of a fused kernel */
    remat_value name;              /* the first value it computes, which names the kernel */
    uint32_t shared_count;
    struct remat_shared_operands *shared; /* all pairs, by `written`; none of a part of a kernel */
};

struct remat_kernel_list {
    uint32_t count;
    struct remat_kernel_info *kernels; /* in order of their last node: after what they read */
};

static inline const struct remat_kernel_info *remat_kernel_at(const struct remat_kernel_list *list,
                                                              remat_kernel_id kernel)
{
    assert(kernel.i < list->count);
    return &list->kernels[kernel.i];
}

/* True in the forward pass and the loss. */
static inline bool remat_kernel_in_forward_pass(const struct remat_kernel_list *list,
                                                remat_kernel_id kernel)
{
    return remat_in_forward_pass(list->kernels[kernel.i].phase);
}

/* The root that an operand reads; none if it only writes. */
static inline remat_value remat_operand_read(const struct remat_kernel_operand *operand)
{
    return operand->access == REMAT_ACCESS_WRITE    ? REMAT_NO_VALUE
           : operand->access == REMAT_ACCESS_UPDATE ? operand->previous
                                                    : operand->value;
}

/* True if the kernel itself reads the value from memory. */
static inline bool remat_kernel_reads(const struct remat_kernel_info *kernel, remat_value root)
{
    for (uint32_t o = 0; o < kernel->operand_count; o++)
        if (kernel->operands[o].value.i == root.i &&
            !(kernel->operands[o].access & REMAT_ACCESS_WRITE))
            return true;
    return false;
}

/* True if the kernel may write this operand in place of one that it reads. */
static inline bool remat_kernel_may_share(const struct remat_kernel_info *kernel, uint32_t operand)
{
    for (uint32_t s = 0; s < kernel->shared_count; s++)
        if (kernel->shared[s].written == operand)
            return true;
    return false;
}

/* True if one of the kernel's nodes has this phase. */
static inline bool remat_kernel_has_phase(const struct remat_graph *graph,
                                          const struct remat_kernel_info *kernel, uint8_t phase)
{
    for (uint32_t n = 0; n < kernel->node_count; n++)
        if (graph->nodes[kernel->nodes[n].i].phase == phase)
            return true;
    return false;
}

/* fuse.c: the kernels of an expanded graph, a function of the graph alone.
 *
 * Greedy in graph order: a pointwise or reduction node joins the kernel that computes one of its
 * inputs when both run over the same index space in the same phase, and nothing outside that kernel
 * has read from it yet (so no cycle can arise); kernels that could each take the node are merged.
 * A column reduction is fused only with producers that nobody else reads, and with siblings of the
 * same composite op that read the same value. Each kernel makes the constants and column indices
 * that it uses. A kernel with too many nodes is divided into several, which together have the same
 * nodes. O(nodes). */
struct remat_kernel_list remat_fuse(struct remat_arena *arena, const struct remat_graph *graph);

#endif
