/* SPDX-License-Identifier: Apache-2.0 */
#include "mesh.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#define AXES "dp, tp"
static const struct axis_row {
    const char *name;
    bool divides_layers; /* else the batch */
} axes[] = {{"dp", false}, {"tp", true}};

/* The axis named at the beginning of `text`, NULL: there is none. */
static const struct axis_row *find_axis(const char *text, size_t length)
{
    for (size_t k = 0; k < sizeof axes / sizeof *axes; k++)
        if (strlen(axes[k].name) == length && memcmp(axes[k].name, text, length) == 0)
            return &axes[k];
    return NULL;
}

static remat_status malformed(remat_context *ctx, const char *text)
{
    return remat_error(ctx, REMAT_ERROR_USAGE,
                       "mesh \"%.100s\" is malformed (accepted: a list of AXIS=SIZE)", text);
}

/* One "AXIS=SIZE" of the list; *text then begins the next one. */
static remat_status parse_axis(remat_context *ctx, const char *mesh, const char **text,
                               struct remat_mesh_size *out)
{
    size_t length = strcspn(*text, "=,");
    const char *digits = *text + length + 1;
    char *end;
    if ((*text)[length] != '=' || *digits < '0' || *digits > '9')
        return malformed(ctx, mesh);
    const struct axis_row *axis = find_axis(*text, length);
    if (!axis)
        return remat_error(ctx, REMAT_ERROR_USAGE,
                           "mesh \"%.100s\": axis \"%.*s\" is unknown (accepted: " AXES ")", mesh,
                           (int)(length < 100 ? length : 100), *text);
    unsigned long long size = strtoull(digits, &end, 10);
    if (*end && *end != ',')
        return malformed(ctx, mesh);
    if (size < 1 || size > REMAT_RANKS_MAX)
        return remat_error(ctx, REMAT_ERROR_USAGE, "mesh \"%.100s\": %s is %.*s, accepted: 1 to %d",
                           mesh, axis->name, (int)(end - digits < 40 ? end - digits : 40), digits,
                           REMAT_RANKS_MAX);
    *out = (struct remat_mesh_size){axis->name, (uint32_t)size};
    *text = *end ? end + 1 : end;
    return *end && !**text ? malformed(ctx, mesh) : REMAT_OK;
}

remat_status remat_mesh_parse(remat_context *ctx, const char *mesh, struct remat_mesh *out)
{
    bool seen[sizeof axes / sizeof *axes] = {false};
    const char *text = mesh;
    *out = (struct remat_mesh){0};
    do {
        struct remat_mesh_size axis;
        remat_status st = parse_axis(ctx, mesh, &text, &axis);
        if (st)
            return st;
        bool *before = &seen[find_axis(axis.name, strlen(axis.name)) - axes];
        if (*before)
            return remat_error(ctx, REMAT_ERROR_USAGE, "mesh \"%.100s\": axis %s is given twice",
                               mesh, axis.name);
        *before = true;
        if (axis.size > 1)
            out->axes[out->axis_count++] = axis;
    } while (*text);
    return REMAT_OK;
}

uint32_t remat_mesh_axis(const struct remat_mesh *mesh, const char *axis)
{
    uint32_t k = 0;
    while (k < mesh->axis_count && strcmp(mesh->axes[k].name, axis) != 0)
        k++;
    return k;
}

uint32_t remat_mesh_size(const struct remat_mesh *mesh, const char *axis)
{
    uint32_t k = remat_mesh_axis(mesh, axis);
    return k < mesh->axis_count ? mesh->axes[k].size : 1;
}

bool remat_mesh_divides_layers(const struct remat_mesh *mesh, uint32_t axis)
{
    const char *name = mesh->axes[axis].name;
    return find_axis(name, strlen(name))->divides_layers;
}

uint32_t remat_mesh_ranks(const struct remat_mesh *mesh)
{
    uint32_t ranks = 1;
    for (uint32_t k = 0; k < mesh->axis_count; k++)
        ranks *= mesh->axes[k].size;
    return ranks;
}

void remat_mesh_print(const struct remat_mesh *mesh, char out[REMAT_MESH_TEXT_BYTES])
{
    assert(mesh->axis_count <= REMAT_MESH_AXES_MAX);
    size_t length = 0;
    *out = 0;
    for (uint32_t k = 0; k < mesh->axis_count; k++)
        length += (size_t)snprintf(out + length, REMAT_MESH_TEXT_BYTES - length, "%s%s=%" PRIu32,
                                   k ? "," : "", mesh->axes[k].name, mesh->axes[k].size);
}
