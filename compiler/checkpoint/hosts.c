/* SPDX-License-Identifier: Apache-2.0 */
/* Looks at the kernels from the first one on that reads what the rerun makes, in order: one is no
 * host if it needs the result of such a reader. Of the others it takes the one that shares most. */
#include "settle.h"

enum { DISTANCE_MAX = 64 }; /* kernels looked at: whoever fuses does not look far either */

static bool reads_of(const struct remat_settled *s, remat_kernel_id reader, remat_kernel_id writer)
{
    const struct remat_kernel_info *kernel = remat_kernel_at(s->kernels, reader);
    for (uint32_t o = 0; o < kernel->operand_count; o++) {
        remat_value read = remat_operand_read(&kernel->operands[o]);
        if (!remat_is_none(read.i) && remat_settled_writer(s, read).i == writer.i)
            return true;
    }
    return false;
}

/* Bytes of the values that both load. */
static uint64_t shared_bytes(const struct remat_settled *s, const struct remat_kernel_info *kernel,
                             const struct remat_kernel_info *host)
{
    bool fit = host->kind == REMAT_KERNEL_fused && host->phase == REMAT_PHASE_BACKWARD &&
               remat_shape_equal(&host->space, &kernel->space);
    if (!fit || !remat_price_shares(s->graph, kernel, host))
        return 0;
    uint64_t bytes = 0;
    for (uint32_t o = 0; o < kernel->operand_count; o++) {
        remat_value read = remat_operand_read(&kernel->operands[o]);
        if (!remat_is_none(read.i) && remat_kernel_reads(host, read))
            bytes += remat_price_operand_bytes(s->graph, kernel, o);
    }
    return bytes;
}

static remat_kernel_id find_host(const struct remat_settled *s, remat_kernel_id writer,
                                 remat_kernel_id first)
{
    const struct remat_kernel_info *kernel = remat_kernel_at(s->kernels, writer);
    remat_kernel_id host = REMAT_NO_KERNEL;
    bool later[DISTANCE_MAX] = {false}; /* it reads a result of the rerun, or needs one that does */
    uint64_t most = 0;
    for (remat_kernel_id k = first; k.i < s->kernels->count && k.i - first.i < DISTANCE_MAX;
         k.i++) {
        bool needs_reader = false;
        for (remat_kernel_id r = first; r.i < k.i && !needs_reader; r.i++)
            needs_reader = later[r.i - first.i] && reads_of(s, k, r);
        later[k.i - first.i] = needs_reader || reads_of(s, k, writer);
        uint64_t bytes = needs_reader ? 0 : shared_bytes(s, kernel, remat_kernel_at(s->kernels, k));
        host = bytes > most ? k : host;
        most = bytes > most ? bytes : most;
    }
    return host;
}

remat_kernel_id *remat_hosts_find(struct remat_arena *arena, const struct remat_settled *s)
{
    remat_kernel_id *host, *first; /* by kernel; first: of the backward pass that reads from it */
    REMAT_NEW_UNINITIALIZED(arena, host, s->kernels->count);
    REMAT_NEW_UNINITIALIZED(arena, first, s->kernels->count);
    memset(host, 0xff, s->kernels->count * sizeof *host);
    memset(first, 0xff, s->kernels->count * sizeof *first);
    for (remat_kernel_id k = {s->kernels->count}; k.i-- > 0;) {
        const struct remat_kernel_info *kernel = remat_kernel_at(s->kernels, k);
        for (uint32_t o = 0; o < kernel->operand_count; o++) {
            remat_value read = remat_operand_read(&kernel->operands[o]);
            remat_kernel_id writer =
                remat_is_none(read.i) ? REMAT_NO_KERNEL : remat_settled_writer(s, read);
            if (!remat_is_none(writer.i) && !remat_kernel_in_forward_pass(s->kernels, k))
                first[writer.i] = k;
        }
    }
    for (remat_kernel_id k = {0}; k.i < s->kernels->count; k.i++)
        if (!remat_is_none(first[k.i].i) && remat_kernel_in_forward_pass(s->kernels, k) &&
            remat_kernel_at(s->kernels, k)->kind == REMAT_KERNEL_fused)
            host[k.i] = find_host(s, k, first[k.i]);
    return host;
}
