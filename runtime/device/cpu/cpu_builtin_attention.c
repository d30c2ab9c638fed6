/* SPDX-License-Identifier: Apache-2.0 */
/* Attention and its gradient by cpu_attention. */
#include "cpu_builtin.h"

#include "cpu_attention.h"

static struct cpu_heads heads_of(const struct cpu_device *device,
                                 const struct remat_command *command, uint32_t operand)
{
    struct cpu_view view = cpu_view_of(device, command, operand);
    return (struct cpu_heads){view.data, view.strides[0], view.strides[1], view.strides[2]};
}

/* Dropout by the random state in operand `operand`, which is there when p > 0. */
static struct cpu_dropout dropout_of(const struct cpu_device *device,
                                     const struct remat_command *command, uint32_t operand)
{
    double p = cpu_parameter(device, command, 2);
    struct cpu_dropout dropout = {(float)p, (float)(1.0 / (1.0 - p)),
                                  .site = (uint32_t)cpu_parameter(device, command, 3)};
    if (p > 0) {
        uint32_t state[4];
        memcpy(state, cpu_view_of(device, command, operand).data, sizeof state);
        dropout.seed = state[0] | (uint64_t)state[1] << 32;
        dropout.step = state[2];
        dropout.microbatch = state[3];
    }
    return dropout;
}

/* Operands q, k, v, out, lse start at `first`, the random state is `rng`. */
static struct cpu_attention attention_of(const struct cpu_device *device,
                                         const struct remat_command *command, uint32_t first,
                                         uint32_t rng)
{
    struct cpu_view q = cpu_view_of(device, command, first);
    struct cpu_view k = cpu_view_of(device, command, first + 1);
    return (struct cpu_attention){
        .shape = {q.shape[0], q.shape[2], k.shape[2], q.shape[1], k.shape[1], q.shape[3],
                  (float)cpu_parameter(device, command, 0), cpu_parameter(device, command, 1) != 0},
        .type = q.type,
        .q = heads_of(device, command, first),
        .k = heads_of(device, command, first + 1),
        .v = heads_of(device, command, first + 2),
        .out = heads_of(device, command, first + 3),
        .lse = cpu_view_of(device, command, first + 4).data,
        .dropout = dropout_of(device, command, rng),
    };
}

/* Whether the operands are [B, T, H, D] tensors like `like`. */
static bool heads_fit(struct cpu_device *device, const struct remat_command *command,
                      uint32_t operand, const struct cpu_view *like)
{
    struct cpu_view view = cpu_view_of(device, command, operand);
    return view.rank == 4 && cpu_view_same_shape(&view, like) && cpu_view_same_float(&view, like);
}

static remat_status check_attention(struct cpu_device *device, const struct remat_command *command,
                                    uint32_t first, uint32_t rng)
{
    struct cpu_view q = cpu_view_of(device, command, first);
    struct cpu_view k = cpu_view_of(device, command, first + 1);
    struct cpu_view lse = cpu_view_of(device, command, first + 4);
    bool good =
        q.rank == 4 && k.rank == 4 && lse.rank == 3 && cpu_view_is(&lse, REMAT_F32) &&
        heads_fit(device, command, first, &q) && heads_fit(device, command, first + 1, &k) &&
        heads_fit(device, command, first + 2, &k) && heads_fit(device, command, first + 3, &q);
    good = good && cpu_view_same_float(&q, &k) && q.shape[0] == k.shape[0] &&
           q.shape[3] == k.shape[3] && q.shape[2] % k.shape[2] == 0 && lse.shape[0] == q.shape[0] &&
           lse.shape[1] == q.shape[2] && lse.shape[2] == q.shape[1];
    if (good && first == 1) /* backward */
        good = heads_fit(device, command, 0, &q) && heads_fit(device, command, 6, &q) &&
               heads_fit(device, command, 7, &k) && heads_fit(device, command, 8, &k);
    if (good && remat_dtype_is_rounded(q.type) && q.shape[3] > CPU_ATTENTION_ROUNDED_DIM)
        return cpu_expect(device, command, false,
                          "heads of a rounded dtype have at most 512 elements");
    if (good && cpu_parameter(device, command, 2) > 0) {
        bool there = command->operand_end - command->operand_begin > rng;
        struct cpu_view state = cpu_view_of(device, command, there ? rng : 0);
        good = cpu_view_is(&state, REMAT_I32) && cpu_parameter(device, command, 2) < 1;
    }
    return cpu_expect(device, command, good, "shapes or dtypes do not fit together");
}

static remat_status prepare_attention(struct cpu_device *device,
                                      const struct remat_command *command, struct cpu_tile **tile)
{
    (void)tile;
    return check_attention(device, command, 0, 5);
}

static remat_status run_attention(struct cpu_device *device, const struct remat_command *command,
                                  const struct cpu_tile *tile)
{
    (void)tile;
    struct cpu_attention attention = attention_of(device, command, 0, 5);
    cpu_attention_forward(device->pool, device->functions, &attention, device->scratch_of);
    return REMAT_OK;
}

static remat_status prepare_attention_backward(struct cpu_device *device,
                                               const struct remat_command *command,
                                               struct cpu_tile **tile)
{
    (void)tile;
    return check_attention(device, command, 1, 9);
}

static remat_status run_attention_backward(struct cpu_device *device,
                                           const struct remat_command *command,
                                           const struct cpu_tile *tile)
{
    (void)tile;
    struct cpu_attention attention = attention_of(device, command, 1, 9);
    struct cpu_attention_gradient gradient = {
        .dout = heads_of(device, command, 0),
        .dq = heads_of(device, command, 6),
        .dk = heads_of(device, command, 7),
        .dv = heads_of(device, command, 8),
    };
    cpu_attention_backward(device->pool, device->functions, &attention, &gradient,
                           device->scratch_of);
    return REMAT_OK;
}

const struct cpu_builtin_kernel cpu_builtin_attention = {prepare_attention, run_attention,
                                                         CPU_SCRATCH_BYTES};

const struct cpu_builtin_kernel cpu_builtin_attention_backward = {
    prepare_attention_backward, run_attention_backward, CPU_SCRATCH_BYTES};
