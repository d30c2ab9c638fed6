/* Values are told apart by where their views begin, as in price.c. */
#include "partition.h"

#include "price.h"

struct remat_part_entry {
    uint64_t offset; /* elements */
    uint64_t bytes;
    uint32_t value, next;
};

remat_status remat_part_operands_create(struct remat_arena *arena,
                                        const struct remat_partition *partition,
                                        struct remat_part_operands *out)
{
    remat_status st = REMAT_OK;
    uint32_t values = partition->reads.graph->value_count,
             kernels = partition->reads.kernels->count;
    *out = (struct remat_part_operands){.arena = arena, .partition = partition};
    REMAT_NEW(arena, out->first_entry, values);
    REMAT_NEW(arena, out->seen, kernels);
    memset(out->first_entry, 0xff, values * sizeof *out->first_entry);
    memset(out->seen, 0xff, kernels * sizeof *out->seen);
fail:
    return st;
}

static remat_status add_operand(struct remat_part_operands *l,
                                const struct remat_fused_kernel *kernel, uint32_t operand)
{
    remat_status st = REMAT_OK;
    const struct remat_kernel_operand *o = &kernel->operands[operand];
    uint64_t bytes = remat_price_operand_bytes(l->partition->reads.graph, kernel, operand);
    uint32_t e = l->first_entry[o->value.i];
    while (!remat_is_none(e) && l->entries.items[e].offset != o->view->offset_elements)
        e = l->entries.items[e].next;
    if (remat_is_none(e)) {
        struct remat_part_entry entry = {.offset = o->view->offset_elements,
                                         .value = o->value.i,
                                         .next = l->first_entry[o->value.i]};
        e = l->first_entry[o->value.i] = (uint32_t)l->entries.count;
        REMAT_PUSH(l->arena, &l->entries, entry);
    }
    if (bytes > l->entries.items[e].bytes)
        l->entries.items[e].bytes = bytes;
fail:
    return st;
}

remat_status remat_part_operands_take(struct remat_part_operands *l, uint32_t part)
{
    remat_status st = REMAT_OK;
    const struct remat_partition *p = l->partition;
    const struct remat_kernel_list *kernels = p->reads.kernels;
    for (size_t e = 0; e < l->entries.count; e++)
        l->first_entry[l->entries.items[e].value] = REMAT_NONE;
    l->entries.count = 0;
    l->pure = true;
    for (uint32_t n = p->first_of[part]; !remat_is_none(n); n = p->next_of[n]) {
        uint32_t k = kernels->kernel_of_node[n];
        if (l->seen[k] == part)
            continue;
        l->seen[k] = part;
        for (uint32_t i = 0; i < kernels->kernels[k].node_count; i++)
            l->pure &= p->kind[kernels->kernels[k].nodes[i].i] == REMAT_NODE_ORDINARY;
        for (uint32_t o = 0; o < kernels->kernels[k].operand_count; o++)
            REMAT_TRY(add_operand(l, &kernels->kernels[k], o));
    }
fail:
    return st;
}

/* Of what is read from several elements on, the least where it is not known by which nodes. */
uint64_t remat_part_read_bytes(const struct remat_part_operands *l, uint32_t value)
{
    uint64_t least = 0, sum = 0;
    for (uint32_t e = l->first_entry[value]; !remat_is_none(e); e = l->entries.items[e].next) {
        uint64_t bytes = l->entries.items[e].bytes;
        sum += bytes;
        least = least == 0 || bytes < least ? bytes : least;
    }
    return l->pure ? sum : least;
}
