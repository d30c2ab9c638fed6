/* SPDX-License-Identifier: Apache-2.0 */
/* Built-in kernels without fragments of matrices: the few lines around functions of builtin.cu and
 * embedding.cu. In most threads know nothing of each other: a call of the function of its name. The
 * arguments are the threads of use, a second count, the operands, the parameters (the bits of
 * doubles) and, for normal fills, the session's seed. What is an error on the CPU, as there is no
 * way back from a GPU, gives NaN (and -1 in integers). */
#include "builtin.h"

#include "body.h"

/* Operands and parameters by the names in builtin_kernels.def. */
static void write_names(struct cuda_source *s, uint32_t kind)
{
    const struct remat_kernel_row *row = remat_kernel_row(kind);
    const char *name;
    uint32_t word = 2;
    int length;
    for (uint32_t k = 0; (name = remat_kernel_row_name(row->operands, k, &length)); k++)
        cuda_text(s, "u8 *const %.*s = (u8 *)arguments.word[%u];", length, name, word++);
    for (uint32_t k = 0; (name = remat_kernel_row_name(row->parameters, k, &length)); k++)
        cuda_text(s, "const double %.*s = double_of_bits(arguments.word[%u]);", length, name,
                  word++);
}

/* A thread has one element of this rank's part, and one number of a call of Philox. */
static void write_fill_part(struct cuda_source *s, const struct remat_operand *operands)
{
    const char *dtype = cuda_dtype_name(operands[1].dtype);
    s->columns = s->rows;
    cuda_text(s, "const u64 site = (u64)site_low | (u64)site_high << 32;");
    cuda_text(s, "const i32 part = (i32)read4(rank);");
    cuda_text(s, "const u64 index = (u64)part * arguments.word[1] + item;");
    cuda_text(s, "float x[4];");
    cuda_text(s, "four_normals(x, arguments.word[8], site, index / 4);");
    cuda_text(s, "float mine = x[0];");
    cuda_text(s, "UNROLL for (u32 e = 1; e < 4; e++) mine = index %% 4 == e ? x[e] : mine;");
    cuda_text(s, "mine = mine * (float)deviation + (float)mean;");
    cuda_text(s, "mine = part < 0 ? NOT_A_NUMBER : mine;");
    cuda_text(s, "store_elements(DTYPE_%s, out + item * dtype_bytes(DTYPE_%s), &mine, 1, 1);",
              dtype, dtype);
}

/* A thread moves as many bytes of the part as are aligned everywhere, at most 16. */
static void write_batch_slice(struct cuda_source *s, const struct remat_operand *operands,
                              uint32_t alignment)
{
    uint64_t bytes = s->rows * cuda_dtype_bytes(operands[2].dtype);
    while (bytes % alignment)
        alignment /= 2;
    s->width = alignment / cuda_dtype_bytes(operands[2].dtype);
    s->rows = bytes / alignment;
    s->columns = (uint64_t)(operands[0].shape[0] / operands[2].shape[0]);
    cuda_text(s, "batch_slice(item, arguments.word[0], arguments.word[1], in, index, out, %u);",
              alignment);
}

bool cuda_write_items(struct cuda_source *s, uint32_t kind, const struct remat_operand *operands,
                      uint32_t alignment)
{
    cuda_text(s, "const u64 item = (u64)block_index() * %u + thread_index();", CUDA_THREADS);
    cuda_text(s, "if (item >= arguments.word[0]) return;");
    write_names(s, kind);
    switch (kind) {
    case REMAT_KERNEL_fill_normal:
        s->columns = s->rows;
        s->rows = (s->columns + 3) / 4;
        s->width = alignment >= 4 * cuda_dtype_bytes(operands[0].dtype) ? 4 : 1;
        cuda_text(s, "const u64 site = (u64)site_low | (u64)site_high << 32;");
        cuda_text(s,
                  "fill_normal(item, arguments.word[1], out, mean, deviation, site, "
                  "arguments.word[7], DTYPE_%s, %u);",
                  cuda_dtype_name(operands[0].dtype), s->width);
        return true;
    case REMAT_KERNEL_fill_normal_part:
        write_fill_part(s, operands);
        return true;
    case REMAT_KERNEL_rope_table:
        s->columns = (uint64_t)operands[0].shape[3];
        s->rows = (uint64_t)operands[0].shape[0] * s->columns;
        cuda_text(s, "rope_table(item, (u32)arguments.word[1], out, theta, factor, low, high, "
                     "context);");
        return true;
    case REMAT_KERNEL_adamw_coefficients:
        s->rows = s->columns = 1;
        cuda_text(s, "adamw_coefficients(lr, step, out, beta1, beta2, weight_decay);");
        return true;
    case REMAT_KERNEL_batch_slice:
        write_batch_slice(s, operands, alignment);
        return true;
    case REMAT_KERNEL_advance:
        s->rows = s->columns = 1;
        cuda_text(s, "advance(index, count);");
        return true;
    case REMAT_KERNEL_part_number:
        s->rows = s->columns = 1;
        cuda_text(s, "write4(out, read4(rank) * (u32)count + read4(microbatch));");
        return true;
    default:
        return false;
    }
}

/* --- rows of a table by ids, and back (embedding.cu) --- */

static void write_constants(struct cuda_source *s, const struct cuda_embedding *embedding,
                            uint8_t table, uint8_t rows)
{
    cuda_text(s, "struct embedding a;");
    cuda_text(s, "a.table_rows = %lluu;", (unsigned long long)embedding->table_rows);
    cuda_text(s, "a.tokens = (u32)arguments.word[0];");
    cuda_text(s, "a.columns = %llu;", (unsigned long long)s->columns);
    cuda_text(s, "a.width = %u;", s->width);
    cuda_text(s, "a.table = DTYPE_%s;", cuda_dtype_name(table));
    cuda_text(s, "a.rows = DTYPE_%s;", cuda_dtype_name(rows));
    cuda_text(s, "a.accumulate = %d;", embedding->accumulate);
    cuda_text(s, "u8 *const table = (u8 *)arguments.word[2];");
    cuda_text(s, "const u8 *const ids = (const u8 *)arguments.word[3];");
    cuda_text(s, "u8 *const rows = (u8 *)arguments.word[4];");
}

void cuda_write_gather(struct cuda_source *s, const struct cuda_embedding *embedding)
{
    uint8_t dtype = cuda_dtype_bytes(embedding->table) == 2 ? CUDA_WORD16 : REMAT_F32;
    write_constants(s, embedding, dtype, dtype);
    cuda_text(s, "gather(&a, table, ids, rows);");
}

void cuda_write_sort(struct cuda_source *s, uint64_t table_rows, uint32_t digit_bits)
{
    cuda_text(s, "SHARED_MEMORY(counts, 2 * SORT_WARPS);");
    cuda_text(s, "struct digit d;");
    cuda_text(s, "d.tokens = (u32)arguments.word[0];");
    cuda_text(s, "d.shift = (u32)arguments.word[1];");
    cuda_text(s, "d.mask = %uu;", (1u << digit_bits) - 1);
    cuda_text(s, "d.first = %d;", s->columns == 0);
    cuda_text(s, "d.ids = %lluu;", (unsigned long long)table_rows);
    cuda_text(s, "sort(&d, (u8 *)arguments.word[2], (const u8 *)arguments.word[3], counts);");
}

void cuda_write_scatter_add(struct cuda_source *s, const struct cuda_embedding *embedding)
{
    cuda_text(s, "SHARED_MEMORY(shared, RUN_ROWS * (32 * %u + 1));", s->width);
    write_constants(s, embedding, embedding->table, embedding->rows);
    cuda_text(s, "add_runs(&a, table, ids, rows, shared);");
}
