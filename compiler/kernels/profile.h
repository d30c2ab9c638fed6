/* SPDX-License-Identifier: Apache-2.0 */
/* Profiles: measured times of kernels on one device (remat-profile/1, written by remat-run
 * --profile), and estimates of other kernels from them (docs/cost_model.md). */
#ifndef REMAT_PROFILE_H
#define REMAT_PROFILE_H

#include "device_description.h"
#include "kernel_list.h"

/* Reads an untrusted profile of this device by this `producer` ("remat 0.1.0") into `arena`.
 * `path`: a file, or the name of a built-in description that has one. REMAT_ERROR_INVALID names
 * file, row and key. */
remat_status remat_profile_read(remat_context *ctx, struct remat_arena *arena, const char *path,
                                const char *producer, const struct remat_device_description *device,
                                const struct remat_profile **out);

struct remat_profile {
    uint32_t count;
    const char *mesh;               /* "dp=4": on which transfers were measured; "": on none */
    struct remat_profile_row *rows; /* private */
    double launch_ns; /* of a command, as rates without a launch are counted from it; private */
};

/* Replaces *ns, the modelled time of a kernel with these flops and moved bytes, by the profile's,
 * and returns its source (enum remat_cost_source):
 * measured      the profile has the same kernel, dtypes and shapes;
 * interpolated  it has the kernel in other sizes: the launch, and the modelled time of the work
 * times measured / modelled of the next sizes on both sides (on the logarithms; constant beyond the
 * last size); modelled      it has no such kernel: *ns stays. Transfers are modelled unless the
 * profile is of the graph's mesh. */
uint8_t remat_profile_time(const struct remat_profile *profile,
                           const struct remat_device_description *device,
                           const struct remat_graph *graph, const struct remat_kernel_info *kernel,
                           uint64_t flops, uint64_t moved_bytes, double *ns);

/* The argument for --profile that names the profile next to the description `target`: a built-in
 * one's name, or FILE.profile.json for a file FILE.json. NULL: there is none. */
const char *remat_profile_beside(struct remat_arena *arena, const char *target,
                                 const struct remat_device_description *device);

#endif
