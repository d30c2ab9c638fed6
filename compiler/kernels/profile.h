/* SPDX-License-Identifier: Apache-2.0 */
/* A profile: measured times of kernels on one device (remat-profile/1, as remat-run --profile
 * writes it), and what it says of the time of another kernel. docs/cost_model.md. */
#ifndef REMAT_PROFILE_H
#define REMAT_PROFILE_H

#include "device_description.h"
#include "fuse.h"

/* Reads a profile of this device by this `producer` ("remat 0.1.0") into `arena`. `path`: a file,
 * or the name of a built-in description that has one. REMAT_ERROR_INVALID names file, row and key.
 * Its figures are untrusted, their ranges are checked.
 */
remat_status remat_profile_read(remat_context *ctx, struct remat_arena *arena, const char *path,
                                const char *producer, const struct remat_device_description *device,
                                const struct remat_profile **out);

struct remat_profile {
    uint32_t count;
    const char *mesh;               /* "dp=4": on which transfers were measured; "": on none */
    struct remat_profile_row *rows; /* private */
    double launch_ns; /* of a command, as rates without a launch are counted from it; private */
};

/* The time of a kernel with these flops and moved bytes, which is modelled as *ns, and where it
 * comes from (enum remat_cost_source):
 * measured      it is in the profile: same kernel, dtypes, shapes;
 * interpolated  the profile has the kernel in other sizes: the launch, and what the work is
 *               modelled as times measured / modelled of the next sizes on both sides (on the
 *               logarithms; beyond the last size as there);
 * modelled      it has not: *ns.
 * Transfers are modelled unless the profile is of the graph's mesh. */
uint8_t remat_profile_time(const struct remat_profile *profile,
                           const struct remat_device_description *device,
                           const struct remat_graph *graph, const struct remat_fused_kernel *kernel,
                           uint64_t flops, uint64_t moved_bytes, double *ns);

/* What --profile takes for the profile that lies beside the description `target`, a built-in one's
 * name or a file FILE.json (beside which it is FILE.profile.json). NULL: there is none. */
const char *remat_profile_beside(struct remat_arena *arena, const char *target,
                                 const struct remat_device_description *device);

#endif
