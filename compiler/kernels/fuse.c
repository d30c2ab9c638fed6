/* SPDX-License-Identifier: Apache-2.0 */
/* Turns fusions of nodes (fusions.h) into kernels: once it is known which values other kernels
 * read, writes each fusion's body. */
#include "fusions.h"
#include "kernel_body.h"

struct remat_kernel_list remat_fuse(struct remat_arena *arena, const struct remat_graph *graph)
{
    struct remat_arena *scratch = remat_scratch_open(arena->ctx);
    struct remat_arena *body = remat_scratch_open(arena->ctx);
    struct remat_fuser f = {.arena = scratch, .graph = graph};
    struct remat_kernel_list out = {0};
    remat_fuse_collect(&f);
    struct remat_kernel_writer *w = remat_kernel_writer_create(arena, body);
    REMAT_NEW_UNINITIALIZED(arena, out.kernels, f.fusions.count);
    for (size_t g = 0; g < f.fusions.count; g++) {
        remat_node *own;
        bool *stored;
        uint32_t own_count = 0;
        REMAT_NEW(arena, own, f.fusions.items[g].node_count);
        REMAT_NEW(scratch, stored, f.fusions.items[g].node_count);
        for (remat_node n = f.fusions.items[g].first; !remat_is_none(n.i); n = f.next[n.i]) {
            stored[own_count] = f.stored[graph->nodes[n.i].outputs[0].i];
            own[own_count++] = n;
        }
        out.kernels[out.count++] =
            remat_kernel_write(w, graph, &f.kernel_of->i, own, own_count, stored);
    }
    remat_scratch_close(body);
    remat_scratch_close(scratch);
    return out;
}
