/* Named kernels: from a command's operands to the functions that do the work. */
#include "cpu_device_state.h"

#include "cpu_attention.h"
#include "cpu_embedding.h"
#include "cpu_fill.h"
#include "cpu_rope.h"

#include <math.h>

static double parameter(const struct cpu_device *device, const struct remat_command *command,
                        uint32_t index)
{
    return device->program->parameters[command->parameter_begin + index];
}

static int64_t count_of(const struct cpu_view *view)
{
    int64_t count = 1;
    for (int k = 0; k < view->rank; k++)
        count *= view->shape[k];
    return count;
}

/* --- what prepare verifies; a verified program keeps operands inside their buffers, no more --- */

static bool same_shape(const struct cpu_view *x, const struct cpu_view *y)
{
    return x->rank == y->rank &&
           memcmp(x->shape, y->shape, (size_t)x->rank * sizeof *x->shape) == 0;
}

static bool dense(const struct cpu_view *view)
{
    int64_t stride = 1;
    for (int k = view->rank; k-- > 0; stride *= view->shape[k])
        if (view->shape[k] != 1 && view->strides[k] != stride)
            return false;
    return true;
}

static bool last_contiguous(const struct cpu_view *view)
{
    return view->shape[view->rank - 1] == 1 || view->strides[view->rank - 1] == 1;
}

static bool is_type(const struct cpu_view *view, remat_dtype dtype)
{
    return view->operand->dtype == dtype;
}

static bool is_float(const struct cpu_view *view)
{
    return is_type(view, REMAT_F32) || is_type(view, REMAT_BF16);
}

static bool same_float(const struct cpu_view *x, const struct cpu_view *y)
{
    return is_float(x) && x->type == y->type && is_float(y);
}

static remat_status expect(struct cpu_device *device, const struct remat_command *command,
                           bool condition, const char *what)
{
    if (condition)
        return REMAT_OK;
    const struct remat_kernel *kernel = &device->program->kernels[command->kernel];
    return remat_error(device->ctx, REMAT_ERROR_INVALID, "command \"%s\": %s: %s", command->name,
                       remat_kernel_kind_name(kernel->kind), what);
}

static remat_status expect_arity(struct cpu_device *device, const struct remat_command *command)
{
    uint32_t least, most, parameters;
    uint32_t operands = command->operand_end - command->operand_begin;
    remat_kernel_kind_arity(device->program->kernels[command->kernel].kind, &least, &most,
                            &parameters);
    return expect(device, command,
                  operands >= least && operands <= most &&
                      command->parameter_end - command->parameter_begin == parameters,
                  "wrong number of operands or parameters");
}

/* --- matmul --- */

static remat_status prepare_matmul(struct cpu_device *device, const struct remat_command *command,
                                   struct cpu_tile **tile)
{
    (void)tile;
    remat_status st = expect_arity(device, command);
    if (st)
        return st;
    struct cpu_view a = cpu_view_of(device, command, 0), b = cpu_view_of(device, command, 1),
                    c = cpu_view_of(device, command, 2);
    int r = c.rank;
    bool good = r >= 2 && a.rank == r && b.rank == r && same_float(&a, &b) && is_float(&c) &&
                last_contiguous(&c);
    for (int k = 0; good && k < r - 2; k++)
        good = a.shape[k] == c.shape[k] && b.shape[k] == c.shape[k];
    good = good && a.shape[r - 2] == c.shape[r - 2] && b.shape[r - 1] == c.shape[r - 1] &&
           a.shape[r - 1] == b.shape[r - 2];
    return expect(device, command, good, "shapes, strides or dtypes do not fit together");
}

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
    bool broken = cpu_fault_applies(device, command, 5);
    if (!broken && items >= 4 * (int64_t)device->params.threads) {
        cpu_pool_run(device->pool, items, run_batch_item, &batch);
        return REMAT_OK;
    }
    for (int64_t item = 0; item < items; item++) {
        struct cpu_matmul mm = matmul_of(&batch, item);
        if (broken)
            cpu_fault_matmul(device, &mm);
        else
            cpu_sgemm(device->pool, device->functions, &mm, device->scratch_of);
    }
    return REMAT_OK;
}

/* --- attention --- */

static struct cpu_heads heads_of(const struct cpu_device *device,
                                 const struct remat_command *command, uint32_t operand)
{
    struct cpu_view view = cpu_view_of(device, command, operand);
    return (struct cpu_heads){view.data, view.strides[0], view.strides[1], view.strides[2]};
}

/* Dropout by the random state in operand `operand`, which is there when p > 0. */
static struct cpu_dropout dropout_of(const struct cpu_device *device,
                                     const struct remat_command *command, uint32_t operand,
                                     uint64_t probabilities)
{
    double p = parameter(device, command, 2);
    struct cpu_dropout dropout = {(float)p, (float)(1.0 / (1.0 - p)),
                                  .site = (uint32_t)parameter(device, command, 3)};
    if (p > 0) {
        uint32_t state[4];
        memcpy(state, cpu_view_of(device, command, operand).data, sizeof state);
        dropout.seed = state[0] | (uint64_t)state[1] << 32;
        dropout.step = state[2];
        dropout.microbatch = state[3];
    }
    if (cpu_fault_applies(device, command, 6))
        dropout.share = probabilities / device->params.threads + 1;
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
                  (float)parameter(device, command, 0), parameter(device, command, 1) != 0},
        .type = q.type,
        .q = heads_of(device, command, first),
        .k = heads_of(device, command, first + 1),
        .v = heads_of(device, command, first + 2),
        .out = heads_of(device, command, first + 3),
        .lse = cpu_view_of(device, command, first + 4).data,
        .dropout = dropout_of(device, command, rng,
                              (uint64_t)(q.shape[0] * q.shape[2] * q.shape[1] * k.shape[1])),
    };
}

/* Whether the operands are [B, T, H, D] tensors like `like`. */
static bool heads_fit(struct cpu_device *device, const struct remat_command *command,
                      uint32_t operand, const struct cpu_view *like)
{
    struct cpu_view view = cpu_view_of(device, command, operand);
    return view.rank == 4 && same_shape(&view, like) && same_float(&view, like) &&
           last_contiguous(&view);
}

static remat_status check_attention(struct cpu_device *device, const struct remat_command *command,
                                    uint32_t first, uint32_t rng)
{
    struct cpu_view q = cpu_view_of(device, command, first);
    struct cpu_view k = cpu_view_of(device, command, first + 1);
    struct cpu_view lse = cpu_view_of(device, command, first + 4);
    bool good =
        q.rank == 4 && k.rank == 4 && lse.rank == 3 && is_type(&lse, REMAT_F32) && dense(&lse) &&
        heads_fit(device, command, first, &q) && heads_fit(device, command, first + 1, &k) &&
        heads_fit(device, command, first + 2, &k) && heads_fit(device, command, first + 3, &q);
    good = good && same_float(&q, &k) && q.shape[0] == k.shape[0] && q.shape[3] == k.shape[3] &&
           q.shape[2] % k.shape[2] == 0 && lse.shape[0] == q.shape[0] &&
           lse.shape[1] == q.shape[2] && lse.shape[2] == q.shape[1];
    if (good && first == 1) /* backward */
        good = heads_fit(device, command, 0, &q) && heads_fit(device, command, 6, &q) &&
               heads_fit(device, command, 7, &k) && heads_fit(device, command, 8, &k);
    if (good && q.type != CPU_F32 && q.shape[3] > CPU_ATTENTION_BF16_DIM)
        return expect(device, command, false, "heads of bf16 have at most 512 elements");
    if (good && parameter(device, command, 2) > 0) {
        bool there = command->operand_end - command->operand_begin > rng;
        struct cpu_view state = cpu_view_of(device, command, there ? rng : 0);
        good = is_type(&state, REMAT_I32) && parameter(device, command, 2) < 1;
    }
    return expect(device, command, good, "shapes, strides or dtypes do not fit together");
}

static remat_status prepare_attention(struct cpu_device *device,
                                      const struct remat_command *command, struct cpu_tile **tile)
{
    (void)tile;
    remat_status st = expect_arity(device, command);
    return st ? st : check_attention(device, command, 0, 5);
}

static remat_status run_attention(struct cpu_device *device, const struct remat_command *command,
                                  const struct cpu_tile *tile)
{
    (void)tile;
    struct cpu_attention attention = attention_of(device, command, 0, 5);
    if (cpu_fault_applies(device, command, 4))
        cpu_fault_attention(device, &attention);
    else
        cpu_attention_forward(device->pool, device->functions, &attention, device->scratch_of);
    return REMAT_OK;
}

static remat_status prepare_attention_backward(struct cpu_device *device,
                                               const struct remat_command *command,
                                               struct cpu_tile **tile)
{
    (void)tile;
    remat_status st = expect_arity(device, command);
    return st ? st : check_attention(device, command, 1, 9);
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

/* --- embedding --- */

static remat_status check_embedding(struct cpu_device *device, const struct remat_command *command,
                                    uint32_t table_operand, uint32_t ids_operand,
                                    uint32_t rows_operand)
{
    struct cpu_view table = cpu_view_of(device, command, table_operand);
    struct cpu_view ids = cpu_view_of(device, command, ids_operand);
    struct cpu_view rows = cpu_view_of(device, command, rows_operand);
    bool good = table.rank == 2 && rows.rank == ids.rank + 1 && is_float(&table) &&
                is_type(&ids, REMAT_I32) && is_float(&rows) && dense(&table) && dense(&ids) &&
                dense(&rows) &&
                memcmp(rows.shape, ids.shape, (size_t)ids.rank * sizeof *ids.shape) == 0 &&
                rows.shape[ids.rank] == table.shape[1];
    return expect(device, command, good, "shapes, strides or dtypes do not fit together");
}

static struct cpu_embedding embedding_of(const struct cpu_view *table, const struct cpu_view *ids)
{
    return (struct cpu_embedding){table->data, table->shape[0], table->shape[1],
                                  table->type, ids->data,       count_of(ids)};
}

static remat_status bad_id(struct cpu_device *device, const struct remat_command *command,
                           const struct cpu_embedding *embedding, int64_t position)
{
    if (position == CPU_IDS_VALID)
        return REMAT_OK;
    return remat_error(device->ctx, REMAT_ERROR_INVALID,
                       "command \"%s\": id %d at position %lld is outside the table of %lld rows",
                       command->name, embedding->ids[position], (long long)position,
                       (long long)embedding->rows);
}

static remat_status prepare_embedding(struct cpu_device *device,
                                      const struct remat_command *command, struct cpu_tile **tile)
{
    (void)tile;
    remat_status st = expect_arity(device, command);
    if (st || (st = check_embedding(device, command, 0, 1, 2)))
        return st;
    struct cpu_view table = cpu_view_of(device, command, 0), out = cpu_view_of(device, command, 2);
    return expect(device, command, table.type == out.type, "the dtypes of table and out differ");
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
    remat_status st = expect_arity(device, command);
    return st ? st : check_embedding(device, command, 2, 1, 0);
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
                                  parameter(device, command, 0) != 0, device->scratch_of);
    return bad_id(device, command, &embedding, position);
}

/* --- optimizer coefficients --- */

static remat_status prepare_adamw(struct cpu_device *device, const struct remat_command *command,
                                  struct cpu_tile **tile)
{
    (void)tile;
    remat_status st = expect_arity(device, command);
    if (st)
        return st;
    struct cpu_view lr = cpu_view_of(device, command, 0), step = cpu_view_of(device, command, 1),
                    out = cpu_view_of(device, command, 2);
    bool good = is_type(&lr, REMAT_F32) && is_type(&step, REMAT_I32) && is_type(&out, REMAT_F32) &&
                count_of(&lr) == 1 && count_of(&step) == 1 && count_of(&out) == 3 && dense(&out);
    return expect(device, command, good, "operands are not lr f32 [1], step i32 [1], out f32 [3]");
}

/* base^exponent in a fixed order of double multiplications, so that no libm decides the bits. */
static double power(double base, int32_t exponent)
{
    double result = 1.0;
    for (; exponent; exponent >>= 1, base *= base)
        if (exponent & 1)
            result *= base;
    return result;
}

static remat_status run_adamw(struct cpu_device *device, const struct remat_command *command,
                              const struct cpu_tile *tile)
{
    (void)tile;
    double lr = (double)*(const float *)cpu_view_of(device, command, 0).data;
    int32_t step = *(const int32_t *)cpu_view_of(device, command, 1).data;
    float *out = cpu_view_of(device, command, 2).data;
    if (step < 1)
        return remat_error(device->ctx, REMAT_ERROR_INVALID,
                           "command \"%s\": step is %d, it counts from 1", command->name, step);
    out[0] = (float)(1.0 - lr * parameter(device, command, 2));
    out[1] = (float)(lr / (1.0 - power(parameter(device, command, 0), step)));
    out[2] = (float)sqrt(1.0 - power(parameter(device, command, 1), step));
    return REMAT_OK;
}

/* --- copy, pad --- */

/* out = in, both as views of the same shape. */
static remat_status prepare_move(struct cpu_device *device, const struct remat_command *command,
                                 const struct remat_operand operands[2], struct cpu_tile **tile)
{
    static const struct remat_instruction instructions[] = {
        {.opcode = REMAT_INSTRUCTION_load,
         .args = {REMAT_NO_REGISTER, REMAT_NO_REGISTER, REMAT_NO_REGISTER}},
        {.opcode = REMAT_INSTRUCTION_store,
         .operand = 1,
         .args = {0, REMAT_NO_REGISTER, REMAT_NO_REGISTER}},
    };
    static const struct remat_kernel_program kernel = {2, instructions, 2};
    struct cpu_tile_source source = {
        .name = command->name,
        .kernel = &kernel,
        .operands = operands,
        .operand_count = 2,
        .rank = operands[0].rank,
        .space = operands[0].shape,
        .words = true,
    };
    return cpu_device_prepare_tile(device, &source, command->instance > 0, tile);
}

static int64_t bytes_of(const struct cpu_view *view)
{
    return remat_dtype_bytes((remat_dtype)view->operand->dtype);
}

static bool movable(const struct cpu_view *in, const struct cpu_view *out)
{
    return in->operand->dtype == out->operand->dtype && in->rank == out->rank;
}

static remat_status prepare_copy(struct cpu_device *device, const struct remat_command *command,
                                 struct cpu_tile **tile)
{
    remat_status st = REMAT_OK;
    REMAT_TRY(expect_arity(device, command));
    struct cpu_view in = cpu_view_of(device, command, 0), out = cpu_view_of(device, command, 1);
    REMAT_TRY(expect(device, command, movable(&in, &out) && same_shape(&in, &out),
                     "shapes or dtypes differ"));
    REMAT_TRY(prepare_move(device, command, in.operand, tile));
fail:
    return st;
}

static remat_status run_copy(struct cpu_device *device, const struct remat_command *command,
                             const struct cpu_tile *tile)
{
    (void)command;
    cpu_tile_run(tile, device->pool, device->base.memory, device->scratch, device->scratch_bytes);
    return REMAT_OK;
}

static remat_status prepare_pad(struct cpu_device *device, const struct remat_command *command,
                                struct cpu_tile **tile)
{
    remat_status st = REMAT_OK;
    REMAT_TRY(expect_arity(device, command));
    struct cpu_view in = cpu_view_of(device, command, 0), out = cpu_view_of(device, command, 1);
    double axis = parameter(device, command, 0), begin = parameter(device, command, 1);
    bool good = movable(&in, &out) && dense(&out) && axis >= 0 && axis < in.rank && begin >= 0;
    for (int k = 0; good && k < in.rank; k++)
        good = k == (int)axis ? begin + (double)in.shape[k] <= (double)out.shape[k]
                              : in.shape[k] == out.shape[k];
    REMAT_TRY(expect(device, command, good, "the box does not lie in the result"));
    struct remat_operand operands[2] = {*in.operand, *out.operand};
    memcpy(operands[1].shape, in.shape, sizeof operands[1].shape);
    operands[1].offset_elements += (uint64_t)begin * (uint64_t)out.strides[(int)axis];
    REMAT_TRY(prepare_move(device, command, operands, tile));
fail:
    return st;
}

struct margin { /* in each of the slabs that the axes before the padded one enumerate; bytes */
    char *out;
    int64_t slab, begin, end;
};

static void clear_margin(void *arg, int64_t item, int worker)
{
    (void)worker;
    const struct margin *margin = arg;
    char *slab = margin->out + item * margin->slab;
    memset(slab, 0, (size_t)margin->begin);
    memset(slab + margin->end, 0, (size_t)(margin->slab - margin->end));
}

static remat_status run_pad(struct cpu_device *device, const struct remat_command *command,
                            const struct cpu_tile *tile)
{
    struct cpu_view in = cpu_view_of(device, command, 0), out = cpu_view_of(device, command, 1);
    int axis = (int)parameter(device, command, 0);
    int64_t begin = (int64_t)parameter(device, command, 1), inner = bytes_of(&out), slabs = 1;
    for (int k = 0; k < axis; k++)
        slabs *= out.shape[k];
    for (int k = axis + 1; k < out.rank; k++)
        inner *= out.shape[k];
    struct margin margin = {out.data, out.shape[axis] * inner, begin * inner,
                            (begin + in.shape[axis]) * inner};
    cpu_pool_run(device->pool, slabs, clear_margin, &margin);
    return run_copy(device, command, tile);
}

/* --- concat --- */

static uint32_t concat_inputs(const struct remat_command *command)
{
    return command->operand_end - command->operand_begin - 1;
}

static remat_status prepare_concat(struct cpu_device *device, const struct remat_command *command,
                                   struct cpu_tile **tile)
{
    (void)tile;
    remat_status st = expect_arity(device, command);
    if (st)
        return st;
    struct cpu_view out = cpu_view_of(device, command, concat_inputs(command));
    double axis = parameter(device, command, 0);
    bool good = out.rank >= 1 && axis >= 0 && axis < out.rank && dense(&out);
    int64_t length = 0;
    for (uint32_t i = 0; good && i < concat_inputs(command); i++) {
        struct cpu_view in = cpu_view_of(device, command, i);
        good = movable(&in, &out);
        for (int k = 0; good && k < out.rank; k++)
            good = k == (int)axis || in.shape[k] == out.shape[k];
        length += good ? in.shape[(int)axis] : 0;
    }
    return expect(device, command, good && length == out.shape[(int)axis],
                  "the inputs do not fill the result");
}

struct piece { /* one input and where it begins in the result */
    struct cpu_view in;
    const int64_t *out_strides;
    char *out;
};

static void copy_elements(char *to, const char *from, int64_t stride, int64_t count, int64_t bytes)
{
    if (stride == 1)
        memcpy(to, from, (size_t)(count * bytes));
    else if (bytes == 2)
        for (int64_t j = 0; j < count; j++)
            memcpy(to + 2 * j, from + 2 * stride * j, 2);
    else
        for (int64_t j = 0; j < count; j++)
            memcpy(to + 4 * j, from + 4 * stride * j, 4);
}

/* `item` enumerates all axes but the last. */
static void copy_row(void *arg, int64_t item, int worker)
{
    (void)worker;
    const struct piece *piece = arg;
    const struct cpu_view *in = &piece->in;
    int64_t from = 0, to = 0, bytes = bytes_of(in);
    int last = in->rank - 1;
    for (int k = last; k-- > 0; item /= in->shape[k]) {
        from += item % in->shape[k] * in->strides[k];
        to += item % in->shape[k] * piece->out_strides[k];
    }
    copy_elements(piece->out + to * bytes, (const char *)in->data + from * bytes, in->strides[last],
                  in->shape[last], bytes);
}

static remat_status run_concat(struct cpu_device *device, const struct remat_command *command,
                               const struct cpu_tile *tile)
{
    (void)tile;
    struct cpu_view out = cpu_view_of(device, command, concat_inputs(command));
    int axis = (int)parameter(device, command, 0);
    char *begin = out.data;
    for (uint32_t i = 0; i < concat_inputs(command); i++) {
        struct piece piece = {cpu_view_of(device, command, i), out.strides, begin};
        cpu_pool_run(device->pool, count_of(&piece.in) / piece.in.shape[piece.in.rank - 1],
                     copy_row, &piece);
        begin += piece.in.shape[axis] * out.strides[axis] * bytes_of(&out);
    }
    return REMAT_OK;
}

/* --- microbatches --- */

static remat_status prepare_batch_slice(struct cpu_device *device,
                                        const struct remat_command *command, struct cpu_tile **tile)
{
    (void)tile;
    remat_status st = expect_arity(device, command);
    if (st)
        return st;
    struct cpu_view in = cpu_view_of(device, command, 0), index = cpu_view_of(device, command, 1),
                    out = cpu_view_of(device, command, 2);
    bool good = movable(&in, &out) && dense(&in) && dense(&out) && is_type(&index, REMAT_I32) &&
                count_of(&index) == 1 && count_of(&in) % count_of(&out) == 0;
    return expect(device, command, good, "operands are not in, index i32 [1] and a part of in");
}

static remat_status run_batch_slice(struct cpu_device *device, const struct remat_command *command,
                                    const struct cpu_tile *tile)
{
    (void)tile;
    struct cpu_view in = cpu_view_of(device, command, 0), out = cpu_view_of(device, command, 2);
    int64_t index = *(const int32_t *)cpu_view_of(device, command, 1).data;
    int64_t bytes = count_of(&out) * bytes_of(&out), parts = count_of(&in) / count_of(&out);
    if (index < 0 || index >= parts)
        return remat_error(device->ctx, REMAT_ERROR_INVALID,
                           "command \"%s\": part %lld of %lld parts", command->name,
                           (long long)index, (long long)parts);
    memcpy(out.data, (const char *)in.data + index * bytes, (size_t)bytes);
    return REMAT_OK;
}

static remat_status prepare_advance(struct cpu_device *device, const struct remat_command *command,
                                    struct cpu_tile **tile)
{
    (void)tile;
    remat_status st = expect_arity(device, command);
    if (st)
        return st;
    struct cpu_view index = cpu_view_of(device, command, 0);
    return expect(device, command, is_type(&index, REMAT_I32) && count_of(&index) == 1,
                  "the operand is not i32 [1]");
}

static remat_status run_advance(struct cpu_device *device, const struct remat_command *command,
                                const struct cpu_tile *tile)
{
    (void)tile;
    int32_t *index = cpu_view_of(device, command, 0).data;
    int32_t last = (int32_t)parameter(device, command, 0) - 1;
    *index = *index >= 0 && *index < last ? *index + 1 : 0;
    return REMAT_OK;
}

/* --- fill --- */

static remat_status prepare_fill(struct cpu_device *device, const struct remat_command *command,
                                 struct cpu_tile **tile)
{
    (void)tile;
    remat_status st = expect_arity(device, command);
    if (st)
        return st;
    struct cpu_view out = cpu_view_of(device, command, 0);
    bool constant = device->program->kernels[command->kernel].kind == REMAT_KERNEL_fill;
    bool type = is_float(&out) || (constant && is_type(&out, REMAT_I32));
    return expect(device, command, type && dense(&out),
                  "the result has another dtype or is not contiguous");
}

static remat_status run_fill(struct cpu_device *device, const struct remat_command *command,
                             const struct cpu_tile *tile)
{
    (void)tile;
    struct cpu_view out = cpu_view_of(device, command, 0);
    int32_t *integers = out.data;
    if (is_type(&out, REMAT_I32)) {
        for (int64_t i = 0; i < count_of(&out); i++)
            integers[i] = (int32_t)parameter(device, command, 0);
        return REMAT_OK;
    }
    cpu_fill_constant(device->pool, out.data, out.type, count_of(&out),
                      (float)parameter(device, command, 0));
    return REMAT_OK;
}

static remat_status run_fill_normal(struct cpu_device *device, const struct remat_command *command,
                                    const struct cpu_tile *tile)
{
    (void)tile;
    struct cpu_view out = cpu_view_of(device, command, 0);
    struct cpu_normal normal = {
        .seed = device->params.seed,
        .site = (uint64_t)parameter(device, command, 2) | (uint64_t)parameter(device, command, 3)
                                                              << 32,
        .mean = (float)parameter(device, command, 0),
        .stddev = (float)parameter(device, command, 1),
    };
    if (cpu_fault_applies(device, command, 6))
        cpu_fault_normal(device, &out, count_of(&out), &normal);
    else
        cpu_fill_normal(device->pool, device->functions, out.data, out.type, count_of(&out),
                        &normal);
    return REMAT_OK;
}

/* --- rope_table (cpu_rope.c) --- */

static remat_status prepare_rope_table(struct cpu_device *device,
                                       const struct remat_command *command, struct cpu_tile **tile)
{
    (void)tile;
    remat_status st = expect_arity(device, command);
    if (st)
        return st;
    struct cpu_view out = cpu_view_of(device, command, 0);
    return expect(device, command, is_type(&out, REMAT_F32) && out.rank == 4 && dense(&out),
                  "the result is not f32 of rank 4 and contiguous");
}

static remat_status run_rope_table(struct cpu_device *device, const struct remat_command *command,
                                   const struct cpu_tile *tile)
{
    (void)tile;
    struct cpu_view out = cpu_view_of(device, command, 0);
    struct cpu_rope rope = {parameter(device, command, 0), parameter(device, command, 1),
                            parameter(device, command, 2), parameter(device, command, 3),
                            parameter(device, command, 4)};
    cpu_rope_table(device->pool, out.data, out.shape[0], out.shape[3], &rope);
    return REMAT_OK;
}

/* --- the table --- */

static const struct cpu_named_kernel named_kernels[REMAT_KERNEL_KIND_COUNT] = {
    [REMAT_KERNEL_matmul] = {prepare_matmul, run_matmul, CPU_SCRATCH_BYTES},
    [REMAT_KERNEL_attention] = {prepare_attention, run_attention, CPU_SCRATCH_BYTES},
    [REMAT_KERNEL_attention_backward] = {prepare_attention_backward, run_attention_backward,
                                         CPU_SCRATCH_BYTES},
    [REMAT_KERNEL_embedding] = {prepare_embedding, run_embedding, 0},
    [REMAT_KERNEL_embedding_backward] = {prepare_embedding_backward, run_embedding_backward,
                                         CPU_SCRATCH_BYTES},
    [REMAT_KERNEL_adamw_coefficients] = {prepare_adamw, run_adamw, 0},
    [REMAT_KERNEL_copy] = {prepare_copy, run_copy, 0},
    [REMAT_KERNEL_concat] = {prepare_concat, run_concat, 0},
    [REMAT_KERNEL_pad] = {prepare_pad, run_pad, 0},
    [REMAT_KERNEL_rope_table] = {prepare_rope_table, run_rope_table, 0},
    [REMAT_KERNEL_batch_slice] = {prepare_batch_slice, run_batch_slice, 0},
    [REMAT_KERNEL_advance] = {prepare_advance, run_advance, 0},
    [REMAT_KERNEL_fill] = {prepare_fill, run_fill, 0},
    [REMAT_KERNEL_fill_normal] = {prepare_fill, run_fill_normal, 0},
};

const struct cpu_named_kernel *cpu_named_kernel_find(uint32_t kind)
{
    if (kind >= REMAT_KERNEL_KIND_COUNT || !named_kernels[kind].run)
        return NULL;
    return &named_kernels[kind];
}
