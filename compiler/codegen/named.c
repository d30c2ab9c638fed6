/* Named kernels in which threads know nothing of each other: a few lines each around the functions
 * of named.cu. The arguments are the threads of use, a second count, the operands, the parameters
 * (the bits of doubles) and, for fill_normal, the session's seed. What is an error on the CPU, as
 * there is no way back from a GPU, gives NaN (and -1 in integers). */
#include "source.h"

/* A thread has four elements, which are one call of Philox. */
static void write_fill_normal(struct cuda_source *s, const struct remat_operand *operands,
                              uint32_t alignment)
{
    const char *dtype = cuda_dtype_name(operands[0].dtype);
    uint32_t bytes = cuda_dtype_bytes(operands[0].dtype);
    s->columns = s->rows;
    s->rows = (s->columns + 3) / 4;
    cuda_text(s, "const u64 left = arguments.word[1] - item * 4;");
    cuda_text(s, "float x[4];");
    cuda_text(s, "four_normals(x, arguments.word[7], (u64)site_low | (u64)site_high << 32, item);");
    cuda_text(s,
              "UNROLL for (u32 e = 0; e < 4; e++) x[e] = x[e] * (float)deviation + (float)mean;");
    s->width = alignment >= 4 * bytes ? 4 : 1;
    if (s->width > 1)
        cuda_text(s, "store_vector_%s(out + item * %u, x, 4, left < 4 ? (u32)left : 4);", dtype,
                  4 * bytes);
    else
        cuda_text(s,
                  "UNROLL for (u32 e = 0; e < 4; e++) if (e < left) store_%s(out + item * %u + "
                  "e * %u, x[e]);",
                  dtype, 4 * bytes, bytes);
}

/* A thread has the rotation of one pair at one position. */
static void write_rope_table(struct cuda_source *s, const struct remat_operand *operands,
                             uint32_t alignment)
{
    (void)alignment;
    s->columns = (uint64_t)operands[0].shape[3];
    s->rows = (uint64_t)operands[0].shape[0] * s->columns;
    cuda_text(s, "const u32 pairs = (u32)arguments.word[1];");
    cuda_text(s, "const u32 position = (u32)(item / pairs), pair = (u32)(item %% pairs);");
    cuda_text(s, "double sine, cosine;");
    cuda_text(s, "sine_and_cosine((double)position * rope_frequency(pair, pairs, theta, factor, "
                 "low, high, context), &sine, &cosine);");
    cuda_text(s, "u8 *const to = out + ((u64)position * 4 * pairs + pair) * 4;");
    cuda_text(s, "store_f32(to, (float)cosine);");
    cuda_text(s, "store_f32(to + (u64)pairs * 4, (float)-sine);");
    cuda_text(s, "store_f32(to + (u64)pairs * 8, (float)sine);");
    cuda_text(s, "store_f32(to + (u64)pairs * 12, (float)cosine);");
}

static void write_adamw_coefficients(struct cuda_source *s, const struct remat_operand *operands,
                                     uint32_t alignment)
{
    (void)alignment;
    (void)operands;
    s->rows = s->columns = 1;
    cuda_text(s, "const double rate = (double)load_f32(lr);");
    cuda_text(s, "const i32 count = (i32)read4(step);");
    cuda_text(s, "const i32 exponent = count < 1 ? 1 : count;");
    cuda_text(s, "const float decay = (float)(1.0 - rate * weight_decay);");
    cuda_text(s, "const float factor = (float)(rate / (1.0 - power(beta1, exponent)));");
    cuda_text(s, "const float root = (float)square_root_double(1.0 - power(beta2, exponent));");
    cuda_text(s, "store_f32(out, count < 1 ? NOT_A_NUMBER : decay);");
    cuda_text(s, "store_f32(out + 4, count < 1 ? NOT_A_NUMBER : factor);");
    cuda_text(s, "store_f32(out + 8, count < 1 ? NOT_A_NUMBER : root);");
}

/* A thread moves as many bytes of the part as are aligned everywhere, at most 16. */
static void write_batch_slice(struct cuda_source *s, const struct remat_operand *operands,
                              uint32_t alignment)
{
    uint64_t bytes = s->rows * cuda_dtype_bytes(operands[2].dtype);
    uint32_t unit = alignment;
    while (bytes % unit)
        unit /= 2;
    s->width = unit / cuda_dtype_bytes(operands[2].dtype);
    s->rows = bytes / unit;
    s->columns = (uint64_t)(operands[0].shape[0] / operands[2].shape[0]);
    cuda_text(s, "const u64 part = (u64)read4(index);");
    cuda_text(s, "const u8 *const from = in + (part * arguments.word[0] + item) * %u;", unit);
    if (unit == 2) {
        cuda_text(s, "write2(out + item * 2, part < arguments.word[1] ? read2(from) : 0xffffu);");
        return;
    }
    cuda_text(s, "u32 x[%u];", unit / 4);
    cuda_text(s, "UNROLL for (u32 e = 0; e < %u; e++) x[e] = 0xffffffffu;", unit / 4);
    cuda_text(s, "if (part < arguments.word[1]) read_words(x, from, %u);", unit / 4);
    cuda_text(s, "write_words(out + item * %u, x, %u);", unit, unit / 4);
}

static void write_advance(struct cuda_source *s, const struct remat_operand *operands,
                          uint32_t alignment)
{
    (void)alignment;
    (void)operands;
    s->rows = s->columns = 1;
    cuda_text(s, "const i32 i = (i32)read4(index);");
    cuda_text(s, "write4(index, i >= 0 && i < (i32)count - 1 ? (u32)i + 1 : 0);");
}

static const struct {
    void (*write)(struct cuda_source *s, const struct remat_operand *operands, uint32_t alignment);
    const char *operands[4], *parameters[6]; /* their names, in order, up to a NULL */
} kernels[REMAT_KERNEL_KIND_COUNT] = {
    [REMAT_KERNEL_fill_normal] = {write_fill_normal,
                                  {"out"},
                                  {"mean", "deviation", "site_low", "site_high"}},
    [REMAT_KERNEL_rope_table] = {write_rope_table,
                                 {"out"},
                                 {"theta", "factor", "low", "high", "context"}},
    [REMAT_KERNEL_adamw_coefficients] = {write_adamw_coefficients,
                                         {"lr", "step", "out"},
                                         {"beta1", "beta2", "weight_decay"}},
    [REMAT_KERNEL_batch_slice] = {write_batch_slice, {"in", "index", "out"}, {NULL}},
    [REMAT_KERNEL_advance] = {write_advance, {"index"}, {"count"}},
};

static void write_names(struct cuda_source *s, uint32_t kind)
{
    uint32_t word = 2;
    for (const char *const *name = kernels[kind].operands; *name; name++)
        cuda_text(s, "u8 *const %s = (u8 *)arguments.word[%u];", *name, word++);
    for (const char *const *name = kernels[kind].parameters; *name; name++)
        cuda_text(s, "const double %s = double_of_bits(arguments.word[%u]);", *name, word++);
}

bool cuda_write_items(struct cuda_source *s, uint32_t kind, const struct remat_operand *operands,
                      uint32_t alignment)
{
    if (!kernels[kind].write)
        return false;
    cuda_text(s, "const u64 item = (u64)block_index() * %u + thread_index();", CUDA_THREADS);
    cuda_text(s, "if (item >= arguments.word[0]) return;");
    write_names(s, kind);
    kernels[kind].write(s, operands, alignment);
    return true;
}
