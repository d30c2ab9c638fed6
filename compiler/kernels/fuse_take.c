/* SPDX-License-Identifier: Apache-2.0 */
/* Groups of a graph that has kernels: what each node says, with the values that leave its group. */
#include "fuse_groups.h"

static bool has(const struct remat_fuse_node *node, uint32_t facts)
{
    return (node->facts & facts) != 0;
}

static uint32_t kernel_of(const struct remat_fuser *f, uint32_t n)
{
    return f->graph->nodes[n].kernel;
}

/* Casts and views come before what reads them. */
static void find_roots(struct remat_fuser *f)
{
    for (uint32_t v = 0; v < f->graph->value_count; v++)
        f->values[v] = (struct remat_fuse_value){
            .root = v, .read = v, .narrow = REMAT_NONE, .group = REMAT_NONE};
    for (uint32_t k = 0; k < f->sequence->count; k++) {
        const struct remat_fuse_node *node = remat_fuse_node_at(f, k);
        if (has(node, REMAT_FACT_VIEW))
            f->values[node->output].root = f->values[node->inputs[0].i].root;
        if (!has(node, REMAT_FUSE_WIDENS))
            continue;
        f->values[node->output].narrow = node->inputs[0].i;
        if (remat_is_none(kernel_of(f, f->sequence->nodes[k])))
            f->values[node->output].read = node->inputs[0].i;
    }
}

static uint64_t elements(const struct remat_fuser *f, uint32_t space)
{
    return (uint64_t)remat_shape_elements(f->facts->spaces[space]);
}

/* Of the nodes' index spaces the largest is the kernel's: others are over its rows. */
static void append(struct remat_fuser *f, struct remat_fuse_group *group, uint32_t n)
{
    const struct remat_fuse_node *node = &f->facts->nodes[n];
    if (elements(f, node->space) > elements(f, group->space))
        group->space = node->space;
    *(group->node_count++ ? &f->next[group->last] : &group->first) = n;
    group->last = n;
    f->next[n] = REMAT_NONE;
}

static void collect(struct remat_fuser *f)
{
    uint32_t kernel = REMAT_NONE;
    for (uint32_t k = 0; k < f->sequence->count; k++) {
        uint32_t n = f->sequence->nodes[k];
        const struct remat_fuse_node *node = &f->facts->nodes[n];
        if (remat_is_none(kernel_of(f, n)))
            continue;
        if (kernel_of(f, n) != kernel)
            REMAT_PUSH(f->arena, &f->groups,
                       ((struct remat_fuse_group){.kind = has(node, REMAT_FACT_NAMED)
                                                              ? REMAT_GROUP_NAMED
                                                              : REMAT_GROUP_POINTWISE,
                                                  .bucket = node->bucket,
                                                  .space = node->space}));
        kernel = kernel_of(f, n);
        append(f, &f->groups.items[f->groups.count - 1], n);
        f->group_of[n] = (uint32_t)f->groups.count - 1;
        for (uint32_t o = 0; o < node->output_count; o++)
            f->values[f->graph->nodes[n].outputs[o].i].group = f->group_of[n];
    }
}

/* What a kernel reads of another is stored. */
static void find_stored(struct remat_fuser *f)
{
    for (uint32_t k = 0; k < f->sequence->count; k++) {
        uint32_t n = f->sequence->nodes[k];
        const struct remat_fuse_node *node = &f->facts->nodes[n];
        if (remat_is_none(f->group_of[n]))
            continue;
        for (uint32_t i = 0; i < node->input_count; i++) {
            uint32_t root = f->values[remat_fuse_input(f, node, i)].root;
            if (f->values[root].group != f->group_of[n])
                f->stored[root] = 1;
        }
    }
    for (uint32_t l = 0; l < f->facts->lasting_count; l++)
        f->stored[f->values[f->facts->lasting[l]].root] = 1;
}

void remat_fuse_take(struct remat_fuser *f)
{
    REMAT_NEW(f->arena, f->values, f->graph->value_count);
    REMAT_NEW(f->arena, f->stored, f->graph->value_count);
    REMAT_NEW(f->arena, f->next, f->graph->node_count);
    memset(f->group_of, 0xff, f->graph->node_count * sizeof *f->group_of);
    find_roots(f);
    collect(f);
    find_stored(f);
}
