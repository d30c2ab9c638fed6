/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of a table by ids, and back. */
#include "emitter.h"
#include "unwind.h"

enum { DIGIT_BITS_MAX = 6 };       /* by which tokens are sorted at once: so many blocks */
#define IDS_MAX (INT64_C(1) << 31) /* of i32: what a table has beyond them is reached by none */

struct embedding { /* s->rows tokens, s->columns; a thread has s->width of these */
    uint64_t table_rows;
    uint8_t table, rows; /* dtypes; of what the ids are of, and of the rows */
    bool accumulate;
};

static void write_rows(struct cuda_source *s, const char *body, const struct embedding *embedding)
{
    const struct cuda_constant constants[] = {
        {"table_rows", embedding->table_rows, NULL},
        {"columns", s->columns, NULL},
        {"width", s->width, NULL},
        {"table", 0, cuda_dtype_name(embedding->table)},
        {"rows", 0, cuda_dtype_name(embedding->rows)},
        {"accumulate", embedding->accumulate, NULL},
    };
    cuda_write_template(s, body, constants, sizeof constants / sizeof *constants);
}

/* A digit of so many bits, in a list of tokens and their ids. */
static void write_sort(struct cuda_source *s, uint64_t table_rows, uint32_t digit_bits)
{
    const struct cuda_constant constants[] = {{"mask", (1u << digit_bits) - 1, NULL},
                                              {"first", s->columns == 0, NULL},
                                              {"ids", table_rows, NULL}};
    cuda_write_template(s, cuda_body_sort, constants, sizeof constants / sizeof *constants);
}

/* At most `width`: vectors of both tensors are aligned where their rows are. */
static uint32_t embedding_width(const struct cuda_emitter *e, const struct remat_operand *table,
                                const struct remat_operand *rows, uint32_t width)
{
    while (width > 1 && (table->shape[1] % width || cuda_operand_begin(e, table) % 16 ||
                         cuda_operand_begin(e, rows) % 16))
        width /= 2;
    return width;
}

/* Sorts the tokens, s->rows, by `ids`, which become the list: two in the workspace take turns. */
static remat_status emit_sort(struct cuda_emitter *e, struct cuda_source s, uint64_t table_rows,
                              struct remat_cuda_word *ids)
{
    uint32_t bits = 64 - (uint32_t)__builtin_clzll(table_rows);
    uint32_t digits = (bits + DIGIT_BITS_MAX - 1) / DIGIT_BITS_MAX;
    uint32_t digit_bits = (bits + digits - 1) / digits;
    uint64_t list_bytes = remat_workspace_list_bytes(REMAT_KERNEL_embedding_backward, s.rows);
    s.shape = CUDA_SORT;
    s.width = 1;
    s.threads = REMAT_CUDA_THREADS_MAX;
    REMAT_CHECK(cuda_use_workspace(e, &s, (digits > 1 ? 2 : 1) * list_bytes));
    for (uint32_t d = 0; d < digits; d++) {
        s.columns = d * digit_bits; /* the lowest bit */
        uint64_t values = (table_rows >> s.columns) + 1, most = UINT64_C(1) << digit_bits;
        write_sort(&s, table_rows, digit_bits);
        s.blocks = values < most ? values : most;
        REMAT_CHECK(cuda_add_launch(e, &s));
        cuda_add_word(e, REMAT_CUDA_WORKSPACE, d % 2 * list_bytes);
        cuda_add_word(e, ids->kind, ids->value);
        *ids = (struct remat_cuda_word){REMAT_CUDA_WORKSPACE, d % 2 * list_bytes};
    }
    return REMAT_OK;
}

/* `operands`: of table, ids and rows. */
static remat_status emit_embedding(struct cuda_emitter *e, const struct remat_command *command,
                                   bool backward, const uint32_t operands[3])
{
    const struct remat_operand *table = cuda_operand(e, command, operands[0]),
                               *ids = cuda_operand(e, command, operands[1]),
                               *rows = cuda_operand(e, command, operands[2]);
    struct embedding embedding = {table->shape[0] < IDS_MAX ? (uint64_t)table->shape[0] : IDS_MAX,
                                  table->dtype, rows->dtype,
                                  backward && cuda_parameter(e, command, 0) != 0};
    struct cuda_source s = cuda_start_source(e, command, backward ? CUDA_SCATTER : CUDA_GATHER);
    s.width = embedding_width(e, table, rows, backward ? 4 / cuda_dtype_bytes(rows->dtype) : 4);
    s.columns = (uint64_t)table->shape[1];
    for (uint32_t k = 0; k < ids->rank; k++)
        s.rows *= (uint64_t)ids->shape[k];
    struct remat_cuda_word list = {REMAT_CUDA_ARENA, cuda_operand_begin(e, ids)};
    s.blocks = cuda_divide_up(s.rows * (s.columns / s.width), CUDA_THREADS);
    if (backward) {
        s.blocks = cuda_divide_up(s.rows, CUDA_RUN_ROWS) * cuda_divide_up(s.columns, 32 * s.width);
        if (!embedding.accumulate)
            REMAT_CHECK(cuda_fill(e, command, table, 0));
        REMAT_CHECK(emit_sort(e, s, embedding.table_rows, &list));
        write_rows(&s, cuda_body_scatter_add, &embedding);
    } else {
        embedding.table = embedding.rows = cuda_moved_as(table->dtype);
        write_rows(&s, cuda_body_embedding, &embedding);
    }
    REMAT_CHECK(cuda_add_launch(e, &s));
    cuda_add_word(e, REMAT_CUDA_ARENA, cuda_operand_begin(e, table));
    cuda_add_word(e, list.kind, list.value);
    cuda_add_word(e, REMAT_CUDA_ARENA, cuda_operand_begin(e, rows));
    return REMAT_OK;
}

remat_status cuda_emit_embedding(struct cuda_emitter *e, const struct remat_command *command)
{
    return emit_embedding(e, command, false, (const uint32_t[]){0, 1, 2});
}

remat_status cuda_emit_embedding_backward(struct cuda_emitter *e,
                                          const struct remat_command *command)
{
    return emit_embedding(e, command, true, (const uint32_t[]){2, 1, 0});
}
