/* SPDX-License-Identifier: Apache-2.0 */
/* Embeddings and their gradient by cpu_embedding. */
#include "cpu_builtin.h"

#include "cpu_embedding.h"

static struct cpu_embedding embedding_of(const struct cpu_view *table, const struct cpu_view *ids)
{
    return (struct cpu_embedding){table->data, table->shape[0], table->shape[1],
                                  table->type, ids->data,       cpu_view_count(ids)};
}

static remat_status bad_id(struct cpu_device *device, const struct remat_command *command,
                           const struct cpu_embedding *embedding, int64_t position)
{
    if (position == CPU_IDS_VALID)
        return REMAT_OK;
    return remat_error(device->base.ctx, REMAT_ERROR_INVALID,
                       "command \"%s\": id %d at position %lld is outside the table of %lld rows",
                       command->name, embedding->ids[position], (long long)position,
                       (long long)embedding->rows);
}

static remat_status run_embedding(struct cpu_device *device, const struct remat_command *command,
                                  const struct cpu_tile *tile)
{
    (void)tile;
    struct cpu_view table = cpu_view_of(device, command, 0), ids = cpu_view_of(device, command, 1);
    struct cpu_embedding embedding = embedding_of(&table, &ids);
    int64_t position =
        cpu_embedding_gather(device->pool, &embedding, cpu_view_of(device, command, 2).data);
    return bad_id(device, command, &embedding, position);
}

static remat_status run_embedding_backward(struct cpu_device *device,
                                           const struct remat_command *command,
                                           const struct cpu_tile *tile)
{
    (void)tile;
    struct cpu_view dout = cpu_view_of(device, command, 0), ids = cpu_view_of(device, command, 1),
                    table = cpu_view_of(device, command, 2);
    struct cpu_embedding embedding = embedding_of(&table, &ids);
    int64_t position =
        cpu_embedding_scatter_add(device->pool, device->functions, &embedding, dout.data, dout.type,
                                  cpu_parameter(device, command, 0) != 0, device->scratch_of);
    return bad_id(device, command, &embedding, position);
}

const struct cpu_builtin_kernel cpu_builtin_embedding = {NULL, run_embedding, 0};

const struct cpu_builtin_kernel cpu_builtin_embedding_backward = {NULL, run_embedding_backward,
                                                                  CPU_SCRATCH_BYTES};
