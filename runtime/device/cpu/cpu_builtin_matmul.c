/* SPDX-License-Identifier: Apache-2.0 */
/* Batched matrix products by cpu_sgemm. */
#include "cpu_builtin.h"

struct batch {
    struct cpu_device *device;
    const struct remat_command *command;
    struct cpu_view a, b, c;
};

static struct cpu_matmul matmul_of(const struct batch *batch, int64_t item)
{
    const struct cpu_view *a = &batch->a, *b = &batch->b, *c = &batch->c;
    int r = c->rank;
    struct cpu_matmul mm = {
        .m = c->shape[r - 2],
        .n = c->shape[r - 1],
        .k = a->shape[r - 1],
        .a_row = a->strides[r - 2],
        .a_column = a->strides[r - 1],
        .a_type = a->type,
        .b_row = b->strides[r - 2],
        .b_column = b->strides[r - 1],
        .b_type = b->type,
        .ldc = c->strides[r - 2],
        .accumulate = c->operand->access == REMAT_ACCESS_UPDATE,
        .c_type = c->type,
    };
    int64_t a_at = 0, b_at = 0, c_at = 0;
    for (int k = r - 2; k-- > 0; item /= c->shape[k]) {
        int64_t index = item % c->shape[k];
        a_at += index * a->strides[k];
        b_at += index * b->strides[k];
        c_at += index * c->strides[k];
    }
    mm.a = cpu_element_at(a->data, a->type, a_at);
    mm.b = cpu_element_at(b->data, b->type, b_at);
    mm.c = cpu_element_at(c->data, c->type, c_at);
    return mm;
}

static void run_batch_item(void *arg, int64_t item, int worker)
{
    const struct batch *batch = arg;
    struct cpu_matmul mm = matmul_of(batch, item);
    cpu_sgemm_serial(batch->device->functions, &mm, batch->device->scratch_of[worker]);
}

static remat_status run_matmul(struct cpu_device *device, const struct remat_command *command,
                               const struct cpu_tile *tile)
{
    (void)tile;
    struct batch batch = {device, command, cpu_view_of(device, command, 0),
                          cpu_view_of(device, command, 1), cpu_view_of(device, command, 2)};
    int64_t items = 1;
    for (int k = 0; k < batch.c.rank - 2; k++)
        items *= batch.c.shape[k];
    if (items >= 4 * (int64_t)device->base.params.threads) {
        cpu_pool_run(device->pool, items, run_batch_item, &batch);
        return REMAT_OK;
    }
    for (int64_t item = 0; item < items; item++) {
        struct cpu_matmul mm = matmul_of(&batch, item);
        cpu_sgemm(device->pool, device->functions, &mm, device->scratch_of);
    }
    return REMAT_OK;
}

const struct cpu_builtin_kernel cpu_builtin_matmul = {NULL, run_matmul, CPU_SCRATCH_BYTES};
