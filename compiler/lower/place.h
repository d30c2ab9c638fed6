/* SPDX-License-Identifier: Apache-2.0 */
/* Lifespans of buffers, their sharing, and their offsets. */
#ifndef REMAT_PLACE_H
#define REMAT_PLACE_H

#include "kernel_list.h"
#include "persistent.h"

REMAT_INDEX(remat_buffer_id); /* of struct remat_lifespans */

struct remat_placed_buffer {
    uint64_t offset_bytes, bytes;
    uint32_t begin, end;        /* program points, from the first of the call on */
    remat_tensor_id persistent; /* none: lives from begin to end */
};

/* Buffers of the kernels of a call. */
struct remat_lifespans {
    uint32_t points;      /* program points: one by kernel */
    uint32_t first_point; /* on the line of all calls; remat_place sets it */
    uint32_t buffer_count;
    remat_buffer_id *buffer_of; /* by value: the one buffer of a storage root, none for views and
                                   values that never leave their kernel */
    struct remat_placed_buffer *buffers;
    uint64_t live_peak_bytes; /* persistent ones included */
    uint32_t peak_position;
    uint64_t *live_bytes; /* by position, persistent ones included */
};

/* Buffers and lifespans of a scheduled kernel list, without offsets. `complete_before`: of
 * schedule.h, up to which both operands of a transfer live; NULL: every transfer is blocking.
 * `inputs`: the persistent tensor of each graph input. A new version lies where the old one does.
 * The result of a fused kernel takes the place of an operand that dies there, where the kernel
 * allows it. Outputs, and gradients that nobody reads, live to the end. */
struct remat_lifespans remat_lifespans(struct remat_arena *arena, const struct remat_graph *graph,
                                       const struct remat_kernel_list *kernels,
                                       const remat_kernel_id *order,
                                       const uint32_t *complete_before,
                                       const struct remat_persistent *persistent,
                                       const remat_tensor_id *inputs);

/* Puts calls one after the other on a line of program points and packs all intervals on it as one
 * instance: persistent buffers where their tensors lie, the others above them. A buffer whose end
 * is larger than `points` lives on in the next calls. Checks the result with the independent
 * checker. *out_arena_bytes does not depend on any budget. */
remat_status remat_place(remat_context *ctx, const struct remat_persistent *persistent,
                         struct remat_lifespans *const *calls, uint32_t call_count,
                         uint64_t *out_arena_bytes);

/* *out_arena_bytes of remat_place for one call, unchecked. Where nothing lives on from call to call
 * but what is persistent, that of several is the largest of theirs. */
uint64_t remat_packed_bytes(remat_context *ctx, const struct remat_persistent *persistent,
                            const struct remat_lifespans *call);

#endif
