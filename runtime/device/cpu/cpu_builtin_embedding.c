/* SPDX-License-Identifier: Apache-2.0 */
/* Embeddings and their gradient by cpu_embedding. */
#include "cpu_builtin.h"

#include "cpu_embedding.h"

static remat_status check_embedding(struct cpu_device *device, const struct remat_command *command,
                                    uint32_t table_operand, uint32_t ids_operand,
                                    uint32_t rows_operand)
{
    struct cpu_view table = cpu_view_of(device, command, table_operand);
    struct cpu_view ids = cpu_view_of(device, command, ids_operand);
    struct cpu_view rows = cpu_view_of(device, command, rows_operand);
    bool good = table.rank == 2 && rows.rank == ids.rank + 1 && cpu_view_is_float(&table) &&
                cpu_view_is(&ids, REMAT_I32) && cpu_view_is_float(&rows) &&
                memcmp(rows.shape, ids.shape, (size_t)ids.rank * sizeof *ids.shape) == 0 &&
                rows.shape[ids.rank] == table.shape[1];
    return cpu_expect(device, command, good, "shapes or dtypes do not fit together");
}

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

static remat_status prepare_embedding(struct cpu_device *device,
                                      const struct remat_command *command, struct cpu_tile **tile)
{
    (void)tile;
    remat_status st = check_embedding(device, command, 0, 1, 2);
    if (st)
        return st;
    struct cpu_view table = cpu_view_of(device, command, 0), out = cpu_view_of(device, command, 2);
    return cpu_expect(device, command, table.type == out.type,
                      "the dtypes of table and out differ");
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

static remat_status prepare_embedding_backward(struct cpu_device *device,
                                               const struct remat_command *command,
                                               struct cpu_tile **tile)
{
    (void)tile;
    return check_embedding(device, command, 2, 1, 0);
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

const struct cpu_builtin_kernel cpu_builtin_embedding = {prepare_embedding, run_embedding, 0};

const struct cpu_builtin_kernel cpu_builtin_embedding_backward = {
    prepare_embedding_backward, run_embedding_backward, CPU_SCRATCH_BYTES};
