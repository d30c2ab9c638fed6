/* SPDX-License-Identifier: Apache-2.0 */
/* Meshes: named axes of ranks. */
#ifndef REMAT_MESH_H
#define REMAT_MESH_H

#include "program.h" /* REMAT_MESH_AXES_MAX */

/* The ranks that run a step together: axes, the last one of nearest neighbours. */
struct remat_mesh {
    uint32_t axis_count;
    struct remat_mesh_size {
        const char *name; /* "dp", "tp" */
        uint32_t size;    /* 2 ... REMAT_RANKS_MAX */
    } axes[REMAT_MESH_AXES_MAX];
};

/* "dp=2,tp=4"; axes of size 1 are left out. REMAT_ERROR_USAGE: malformed, an axis that is unknown
 * or there twice, a size out of range. */
remat_status remat_mesh_parse(remat_context *ctx, const char *text, struct remat_mesh *out);

/* "dp=2,tp=4", "" without an axis. */
void remat_mesh_print(const struct remat_mesh *mesh, char out[REMAT_MESH_TEXT_BYTES]);

/* The number of an axis; axis_count where the mesh lacks it. */
uint32_t remat_mesh_axis(const struct remat_mesh *mesh, const char *axis);

/* Ranks along the axis of that number divide the layers, else the batch. */
bool remat_mesh_divides_layers(const struct remat_mesh *mesh, uint32_t axis);

/* The product of all sizes. */
uint32_t remat_mesh_ranks(const struct remat_mesh *mesh);

/* 1 where the mesh lacks the axis. */
uint32_t remat_mesh_size(const struct remat_mesh *mesh, const char *axis);

#endif
