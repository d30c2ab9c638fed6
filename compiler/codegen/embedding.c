/* Rows of a table by ids. Ids outside the table give a row of NaN, and add to none. */
#include "source.h"

static void write_head(struct cuda_source *s, const struct cuda_embedding *embedding)
{
    cuda_text(s, "const u32 tokens = (u32)arguments.word[0], columns = %llu;",
              (unsigned long long)embedding->columns);
    cuda_text(s, "u8 *const table = (u8 *)arguments.word[2];");
    cuda_text(s, "const u8 *const ids = (const u8 *)arguments.word[3];");
    cuda_text(s, "u8 *const rows = (u8 *)arguments.word[4];");
    cuda_text(s, "const u32 thread = thread_index();");
}

/* "load_vector_f32(x, " or, of single elements, "x[0] = load_f32(" up to the offset's end. */
static void write_load(struct cuda_source *s, const struct cuda_embedding *embedding, uint8_t dtype,
                       const char *to, const char *from, const char *row)
{
    const char *name = cuda_dtype_name(dtype);
    uint32_t bytes = cuda_dtype_bytes(dtype);
    if (embedding->width > 1)
        cuda_text(s, "load_vector_%s(%s, %s + ((u64)(%s) * columns + column) * %u, %u, %u);", name,
                  to, from, row, bytes, embedding->width, embedding->width);
    else
        cuda_text(s, "%s[0] = load_%s(%s + ((u64)(%s) * columns + column) * %u);", to, name, from,
                  row, bytes);
}

static void write_store(struct cuda_source *s, const struct cuda_embedding *embedding,
                        uint8_t dtype, const char *from, const char *to, const char *row)
{
    const char *name = cuda_dtype_name(dtype);
    uint32_t bytes = cuda_dtype_bytes(dtype);
    if (embedding->width > 1)
        cuda_text(s, "store_vector_%s(%s + ((u64)(%s) * columns + column) * %u, %s, %u, %u);", name,
                  to, row, bytes, from, embedding->width, embedding->width);
    else
        cuda_text(s, "store_%s(%s + ((u64)(%s) * columns + column) * %u, %s[0]);", name, to, row,
                  bytes, from);
}

void cuda_write_gather(struct cuda_source *s, const struct cuda_embedding *embedding)
{
    uint8_t dtype = cuda_dtype_bytes(embedding->table) == 2 ? CUDA_WORD16 : REMAT_F32;
    uint64_t vectors = embedding->columns / embedding->width;
    write_head(s, embedding);
    cuda_text(s, "const u64 vector = (u64)block_index() * %u + thread;", CUDA_THREADS);
    cuda_text(s, "const u64 token = vector / %lluu;", (unsigned long long)vectors);
    cuda_text(s, "const u32 column = (u32)(vector %% %lluu) * %u;", (unsigned long long)vectors,
              embedding->width);
    cuda_text(s, "if (token >= tokens) return;");
    cuda_text(s, "const u32 id = read4(ids + token * 4);");
    cuda_text(s, "float x[%u];", embedding->width);
    cuda_text(s, "UNROLL for (u32 e = 0; e < %u; e++) x[e] = float_of_bits(0x7fc00000u);",
              embedding->width);
    cuda_text(s, "if (id < %lluu) {", (unsigned long long)embedding->table_rows);
    write_load(s, embedding, dtype, "x", "table", "id");
    cuda_text(s, "}");
    write_store(s, embedding, dtype, "x", "rows", "token");
}

#define WARPS       (CUDA_THREADS / 32)
#define SPAN_TOKENS (CUDA_THREADS * 32) /* that a block looks through at once: a word a thread */

/* The words of `found`, one for 32 tokens, that are not 0 have a bit in a word for each warp. */
static void write_find(struct cuda_source *s)
{
    cuda_text(s, "u32 mine = 0;");
    cuda_text(s, "UNROLL_BY_4 for (u32 k = 0; k < 32; k++) {");
    cuda_text(s, "const u32 j = first + (thread - lane + k) * 32 + lane;");
    cuda_text(s, "const u32 has = vote(j < tokens && read4(ids + (u64)j * 4) == id);");
    cuda_text(s, "if (k == lane) mine = has;");
    cuda_text(s, "}");
    cuda_text(s, "const u32 any = vote(mine != 0);");
    cuda_text(s, "barrier();");
    cuda_text(s, "shared_write(found, thread, float_of_bits(mine));");
    cuda_text(s, "if (lane == 0) shared_write(found, %d + thread / 32, float_of_bits(any));",
              CUDA_THREADS);
    cuda_text(s, "barrier();");
}

static void write_add(struct cuda_source *s, const struct cuda_embedding *embedding)
{
    cuda_text(s, "for (u32 w = 0; w < %d; w++)", WARPS);
    cuda_text(s,
              "for (u32 groups = bits_of_float(shared_read(found, %d + w)); groups;"
              " groups &= groups - 1) {",
              CUDA_THREADS);
    cuda_text(s, "const u32 group = w * 32 + lowest_bit(groups);");
    cuda_text(s, "for (u32 has = bits_of_float(shared_read(found, group)); has; has &= has - 1) {");
    cuda_text(s, "const u32 j = first + group * 32 + lowest_bit(has);");
    cuda_text(s, "if (column < columns) {");
    write_load(s, embedding, embedding->rows, "x", "rows", "j");
    cuda_text(s, "UNROLL for (u32 e = 0; e < %u; e++) sum[e] = sum[e] + x[e];", embedding->width);
    cuda_text(s, "}");
    cuda_text(s, "}");
    cuda_text(s, "}");
}

/* A block for each token. One that finds an earlier token of its id, the nearest first, has nothing
 * to do; the block of an id's first token adds the rows of all, in order. Ids are compared 32 at a
 * time, by a vote of a warp. */
void cuda_write_scatter_add(struct cuda_source *s, const struct cuda_embedding *embedding)
{
    uint32_t width = embedding->width;
    cuda_text(s, "SHARED_MEMORY(found, %d);", CUDA_THREADS + WARPS);
    write_head(s, embedding);
    cuda_text(s, "const u32 token = block_index(), id = read4(ids + (u64)token * 4);");
    cuda_text(s, "const u32 lane = thread %% 32;");
    cuda_text(s, "u32 earlier = 0;");
    cuda_text(s, "for (u32 j = thread; j - lane < token && !earlier; j += %d)", CUDA_THREADS);
    cuda_text(s, "    earlier = vote(j < token && read4(ids + (u64)(token - 1 - j) * 4) == id);");
    cuda_text(s, "if (lane == 0) shared_write(found, thread / 32, float_of_bits(earlier));");
    cuda_text(s, "barrier();");
    cuda_text(s, "for (u32 w = 0; w < %d; w++) earlier |= bits_of_float(shared_read(found, w));",
              WARPS);
    cuda_text(s, "if (earlier || id >= %lluu) return;", (unsigned long long)embedding->table_rows);
    cuda_text(s, "for (u32 begin = 0; begin < columns; begin += %u) {", CUDA_THREADS * width);
    cuda_text(s, "const u32 column = begin + thread * %u;", width);
    cuda_text(s, "float sum[%u], x[%u];", width, width);
    cuda_text(s, "UNROLL for (u32 e = 0; e < %u; e++) sum[e] = 0.0f;", width);
    if (embedding->accumulate) {
        cuda_text(s, "if (column < columns) {");
        write_load(s, embedding, embedding->table, "sum", "table", "id");
        cuda_text(s, "}");
    }
    cuda_text(s, "for (u32 first = token; first < tokens; first += %d) {", SPAN_TOKENS);
    write_find(s);
    write_add(s, embedding);
    cuda_text(s, "}");
    cuda_text(s, "if (column < columns) {");
    write_store(s, embedding, embedding->table, "sum", "table", "id");
    cuda_text(s, "}");
    cuda_text(s, "}");
}
