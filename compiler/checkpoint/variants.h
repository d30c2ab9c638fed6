/* SPDX-License-Identifier: Apache-2.0 */
/* The variants of kernels: a decision changes what a kernel stores, inlines and loads, and adds
 * reruns. What a run makes and stores, and where it reads the rest, says which variant it is; each
 * is formed and priced once, when a decision first asks for it. */
#ifndef REMAT_VARIANTS_H
#define REMAT_VARIANTS_H

#include "clones.h"
#include "price.h"

/* Which candidates a run makes, and which of its kernel's own it stores: bits by place, those of
 * the kernel's own candidates, then those that it inlines. recomputed: a hash of the candidates
 * that it reads from reruns or as they are kept, and from which; others are saved in place. */
struct remat_run_content {
    uint64_t made, stored, recomputed;
};

struct remat_variant {
    struct remat_variant *next; /* of the same run */
    struct remat_run_content content;
    struct remat_kernel_info kernel;
    struct remat_price price;
    struct remat_runs before; /* as remat_wired_run has them */
};

struct remat_variants {
    struct remat_arena *arena;
    const struct remat_clones *clones;
    const struct remat_price *prices;
    const struct remat_device_description *device;
    struct remat_kernel_writer *writer;
    remat_value *own;             /* scratch of remat_wire_run */
    struct remat_variant **first; /* by run, those that keep too: what was last formed */
};

/* `prices`: by kernel, everything saved. All pointers outlive the result, which lies in `arena`;
 * `scratch` belongs to it. Thread-compatible. */
struct remat_variants *remat_variants_create(struct remat_arena *arena, struct remat_arena *scratch,
                                             const struct remat_clones *clones,
                                             const struct remat_price *prices,
                                             const struct remat_device_description *device);

/* The variant of a run with this content under the decision; the pointer stays valid. */
const struct remat_variant *remat_variant_of(struct remat_variants *variants,
                                             const struct remat_decision *decision, remat_run run,
                                             const struct remat_run_content *content);

#endif
