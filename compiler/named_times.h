/* What matmul and attention take under a decision: their kernels are named, have one node each and
 * cost the same whenever they run, so no kernel list has to be made to know it. */
#ifndef REMAT_NAMED_TIMES_H
#define REMAT_NAMED_TIMES_H

#include "decision.h"
#include "facts.h"
#include "fuse.h"
#include "price.h"
#include "sensitivity.h"

/* Those that decisions may run again. Inputs and outputs are roots. */
struct remat_named_node {
    uint32_t input_begin, input_end;
    uint32_t output_begin, output_end;
};

struct remat_named_times {
    uint32_t value_count;
    uint32_t node_count;
    struct remat_named_node *nodes; /* of the forward pass and the loss, the last one first */
    uint32_t *roots;                /* of inputs and outputs */
    uint32_t late_count;
    uint32_t *late; /* roots that later nodes read */
    uint32_t kernel_count;
    struct remat_named_kernel { /* named ones of `nodes` */
        uint32_t node;          /* index in `nodes` */
        uint32_t cost_class;    /* enum remat_cost_class */
        uint64_t ns;
    } * kernels;
    struct remat_class_times plain; /* with nothing recomputed, the rest too */
};

/* `kernels` and `prices` are those of `graph`, on which decisions are made, nothing recomputed;
 * `facts` are its own. The result lies in the arena. */
remat_status remat_named_times_create(struct remat_arena *arena, const struct remat_graph *graph,
                                      const struct remat_facts *facts,
                                      const struct remat_kernel_list *kernels,
                                      const struct remat_price *prices,
                                      struct remat_named_times *out);

/* (*out)[v], by root: a bit for each round in which it is computed again, or REMAT_ROUND_SAVED
 * where it is saved and something that is computed again reads it. */
enum { REMAT_ROUND_SAVED = 1 << 7 };
remat_status remat_named_times_rounds(const struct remat_named_times *named,
                                      struct remat_arena *arena,
                                      const struct remat_decision *decision, uint8_t **out);

/* Exact for matmul and attention; the rest is 0. */
struct remat_class_times remat_named_times_of(const struct remat_named_times *named,
                                              const uint8_t *rounds);

/* Of all named kernels, what their second runs take. */
uint64_t remat_named_times_twice(const struct remat_named_times *named, const uint8_t *rounds);

#endif
