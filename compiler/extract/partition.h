/* Private to parts.c and what it is made of: which nodes of kernel programs may be in one kernel
 * (reads.c), the parts that follow (partition.c), what kernels of a part read (operands.c), and
 * what column reductions read at least (column_cut.c). All of it lies in the arena it was made in
 * and belongs to one thread; functions fail with REMAT_ERROR_MEMORY alone. */
#ifndef REMAT_EXTRACT_PARTITION_H
#define REMAT_EXTRACT_PARTITION_H

#include "flow.h"
#include "fuse.h"
#include "fuse_facts.h"

struct remat_ids {
    uint32_t *items;
    size_t count, capacity;
};

/* --- what nodes read --- */

struct remat_reads {
    const struct remat_graph *graph;
    const struct remat_kernel_list *kernels; /* of the graph, in which nothing is recomputed */
    const uint32_t *root;                    /* by value: its storage root */
    struct remat_fuse_facts facts;
    uint32_t space_count;
    uint8_t *fits; /* by two spaces: nodes over them may be in one kernel */
};

struct remat_read {
    uint32_t root;     /* REMAT_NONE: nothing, a kernel makes it for itself */
    uint32_t producer; /* the node, in a kernel, that computes it; REMAT_NONE: none does */
    bool inside;       /* it may be read inside of a kernel */
};

/* The first three members are given; fills the others. */
remat_status remat_reads_create(struct remat_arena *arena, struct remat_reads *reads);

/* What node `node` reads as its input `input`: loads make casts and what fuse puts into every
 * kernel. */
struct remat_read remat_read_of(const struct remat_reads *reads, uint32_t node, uint32_t input);

/* The index spaces allow two nodes in one kernel. */
bool remat_may_fit(const struct remat_reads *reads, uint32_t a, uint32_t b);

/* The kernel is a program of the backward pass. REMAT_NONE is none. */
bool remat_is_late_program(const struct remat_reads *reads, uint32_t kernel);

/* --- parts --- */

/* Of nodes of kernel programs of the backward pass. A cast that rounds column sums is with them. */
enum remat_node_kind {
    REMAT_NODE_NONE,     /* in no such program */
    REMAT_NODE_PRIVATE,  /* read for column reductions alone */
    REMAT_NODE_ORDINARY, /* never in one kernel with a column reduction */
    REMAT_NODE_COLUMN,   /* a column reduction */
    REMAT_NODE_KIND_COUNT
};

struct remat_partition {
    struct remat_reads reads;
    uint8_t *kind;      /* by node: enum remat_node_kind */
    uint32_t *part;     /* by node: one node of its part, the part's number; of private nodes, and
                           those of no kind, each is alone */
    uint32_t *first_of; /* by part of ordinary nodes, or of columns: its first node; REMAT_NONE
                           of others */
    uint32_t *next_of;  /* by node: the next one of its part */
};

/* `root` is by value. Both, and the kernels, outlive the partition. */
remat_status remat_partition_create(struct remat_arena *arena, const struct remat_graph *graph,
                                    const struct remat_kernel_list *kernels, const uint32_t *root,
                                    struct remat_partition *out);

/* --- what kernels of a part read --- */

struct remat_part_operands {
    struct remat_arena *arena;
    const struct remat_partition *partition;
    struct remat_part_entries {
        struct remat_part_entry *items;
        size_t count, capacity;
    } entries;
    uint32_t *first_entry; /* by value */
    uint32_t *seen;        /* by kernel: the last part that was looked at */
    bool pure;             /* all nodes of the part's kernels are ordinary ones */
};

remat_status remat_part_operands_create(struct remat_arena *arena,
                                        const struct remat_partition *partition,
                                        struct remat_part_operands *out);

/* Takes those of all kernels that nodes of the part are in when everything is saved, in place of
 * what it held. Once for each part. */
remat_status remat_part_operands_take(struct remat_part_operands *operands, uint32_t part);

/* Bytes that the part reads of a value. */
uint64_t remat_part_read_bytes(const struct remat_part_operands *operands, uint32_t value);

/* --- what column reductions read --- */

struct remat_column_cut {
    struct remat_arena *arena;
    const struct remat_partition *partition;
    const struct remat_part_operands *operands;
    const uint32_t *item_of; /* by value: the item, REMAT_NONE: it is none */
    const bool *needed;      /* by value: read or kept outside of its part */
    uint32_t
        *only; /* by value: the part of column reductions that all nodes which are private
                  or reduce columns read it for; none where there are several, or no such nodes */
    struct remat_ids items; /* that the last part reads in any case */
    struct remat_flow flow;
    struct {
        struct remat_column_arc {
            int64_t capacity;
            uint32_t item; /* REMAT_NONE: it is none */
        } * items;
        size_t count, capacity;
    } arcs;                       /* those of flow, without the reverse ones */
    uint32_t count, part;         /* of the network: nodes; what it is of */
    int64_t times;                /* that a private value outside of kernels with columns counts */
    uint32_t *of_node, *of_value; /* nodes of the network, REMAT_NONE: none */
    struct remat_ids nodes, values;
};

/* The first five members are given; fills the others. `needed` may still change. */
remat_status remat_column_cut_create(struct remat_column_cut *cut);

/* What kernels with the column reductions of a part read, and what others write for them alone, at
 * least, and which items they read. `operands` are the part's. `hides`: the arithmetic of a part
 * may hide a write. */
remat_status remat_column_cut_find(struct remat_column_cut *cut, uint32_t part, bool hides,
                                   uint64_t *out_bytes);

#endif
