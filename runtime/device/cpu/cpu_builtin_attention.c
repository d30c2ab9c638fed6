/* SPDX-License-Identifier: Apache-2.0 */
/* Attention and its gradient by cpu_attention. */
#include "cpu_builtin.h"

#include "cpu_attention.h"

static struct cpu_view named(const struct cpu_device *device, const struct remat_command *command,
                             const char *name)
{
    return cpu_view_of(device, command, cpu_operand(device, command, name));
}

static struct cpu_heads heads_of(const struct cpu_device *device,
                                 const struct remat_command *command, const char *operand)
{
    struct cpu_view view = named(device, command, operand);
    return (struct cpu_heads){view.data, view.strides[0], view.strides[1], view.strides[2]};
}

/* The random state is there when p > 0. */
static struct cpu_dropout dropout_of(const struct cpu_device *device,
                                     const struct remat_command *command)
{
    double p = cpu_parameter(device, command, 2);
    struct cpu_dropout dropout = {(float)p, (float)(1.0 / (1.0 - p)),
                                  .site = (uint32_t)cpu_parameter(device, command, 3)};
    if (p > 0) {
        uint32_t state[4];
        memcpy(state, named(device, command, "rng").data, sizeof state);
        dropout.seed = state[0] | (uint64_t)state[1] << 32;
        dropout.step = state[2];
        dropout.microbatch = state[3];
    }
    return dropout;
}

/* NULL: they are absent. */
static const int32_t *segments_of(const struct cpu_device *device,
                                  const struct remat_command *command, const char *name)
{
    uint32_t operand = cpu_operand(device, command, name);
    return operand == REMAT_NONE ? NULL : cpu_view_of(device, command, operand).data;
}

static struct cpu_attention attention_of(const struct cpu_device *device,
                                         const struct remat_command *command)
{
    struct cpu_view q = named(device, command, "q"), k = named(device, command, "k");
    return (struct cpu_attention){
        .shape = {q.shape[0], q.shape[2], k.shape[2], q.shape[1], k.shape[1], q.shape[3],
                  (float)cpu_parameter(device, command, 0), cpu_parameter(device, command, 1) != 0},
        .type = q.type,
        .q = heads_of(device, command, "q"),
        .k = heads_of(device, command, "k"),
        .v = heads_of(device, command, "v"),
        .out = heads_of(device, command, "out"),
        .lse = named(device, command, "lse").data,
        .dropout = dropout_of(device, command),
        .query_segments = segments_of(device, command, "query_segments"),
        .key_segments = segments_of(device, command, "key_segments"),
    };
}

static remat_status prepare_attention(struct cpu_device *device,
                                      const struct remat_command *command, struct cpu_tile **tile)
{
    (void)tile;
    remat_status st = REMAT_OK;
    struct cpu_view q = named(device, command, "q");
    bool segments = cpu_operand(device, command, "query_segments") != REMAT_NONE ||
                    cpu_operand(device, command, "key_segments") != REMAT_NONE;
    REMAT_TRY(cpu_expect(device, command,
                         !remat_dtype_is_rounded(q.type) || q.shape[3] <= CPU_ATTENTION_ROUNDED_DIM,
                         "heads of a rounded dtype have at most 512 elements"));
    REMAT_TRY(cpu_expect(device, command, !segments || cpu_parameter(device, command, 0) != 0,
                         "segments and a scale of 0"));
fail:
    return st;
}

static remat_status run_attention(struct cpu_device *device, const struct remat_command *command,
                                  const struct cpu_tile *tile)
{
    (void)tile;
    struct cpu_attention attention = attention_of(device, command);
    cpu_attention_forward(device->pool, device->functions, &attention, device->scratch_of);
    return REMAT_OK;
}

static remat_status run_attention_backward(struct cpu_device *device,
                                           const struct remat_command *command,
                                           const struct cpu_tile *tile)
{
    (void)tile;
    struct cpu_attention attention = attention_of(device, command);
    struct cpu_attention_gradient gradient = {
        .dout = heads_of(device, command, "dout"),
        .dq = heads_of(device, command, "dq"),
        .dk = heads_of(device, command, "dk"),
        .dv = heads_of(device, command, "dv"),
    };
    cpu_attention_backward(device->pool, device->functions, &attention, &gradient,
                           device->scratch_of);
    return REMAT_OK;
}

const struct cpu_builtin_kernel cpu_builtin_attention = {prepare_attention, run_attention,
                                                         CPU_SCRATCH_BYTES};

const struct cpu_builtin_kernel cpu_builtin_attention_backward = {
    prepare_attention, run_attention_backward, CPU_SCRATCH_BYTES};
