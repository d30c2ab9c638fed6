/* SPDX-License-Identifier: Apache-2.0 */
/* A row-major product is the column-major product of the transposes in reverse: C' = B' A'. So
 * cuBLASLt's A is operand b, its B operand a, and its D the result. Leading axes that one stride
 * covers become its batch, those left a loop of calls. */
#include "cuda_gemm.h"

#include "gemm_table.h"

#include <assert.h>

#define CHOICES       8 /* that the heuristic is asked for; the first that fits is taken */
#define ALIGNMENT_MAX REMAT_ALIGNMENT

enum gemm_side { SIDE_A, SIDE_B, SIDE_D, SIDES }; /* of cuBLASLt */
static const uint32_t operand_of[SIDES] = {1, 0, 2};

struct matrix { /* column-major */
    uint64_t rows, columns;
    int64_t leading; /* elements from column to column */
    bool transposed;
    uint8_t dtype;
    int64_t batch_stride;
    uint32_t alignment; /* bytes, of every address that is passed */
};

struct gemm_shape {
    struct matrix matrices[SIDES];
    int32_t batch;
};

struct gemm { /* a distinct shape */
    const char *key;
    void *description, *layouts[SIDES];
    struct cublaslt_algorithm algorithm;
};

struct product { /* of a command that is a matmul */
    uint32_t gemm;
    uint32_t axes; /* of the loop of calls: the first axes of the operands */
    uint32_t calls;
};

struct cuda_gemms {
    remat_context *ctx;
    const struct remat_program *program;
    struct remat_arena arena;
    struct cublaslt library;
    void *handle;
    uint64_t workspace_bytes;
    struct REMAT_LIST(struct gemm) gemms;
    struct product *products; /* by command */
};

static remat_status check(remat_context *ctx, int result, const char *what)
{
    if (result == CUBLASLT_ALLOC_FAILED)
        return remat_error(ctx, REMAT_ERROR_MEMORY,
                           "cuBLASLt: %s: status %d: no memory is left: end what else runs on the "
                           "GPU, or run with --device cpu",
                           what, result);
    return result ? remat_error(ctx, REMAT_ERROR_OTHER, "cuBLASLt: %s: status %d", what, result)
                  : REMAT_OK;
}
#define LT_TRY(g, function, ...)                                                                   \
    REMAT_TRY(check((g)->ctx, (g)->library.function(__VA_ARGS__), #function))

/* --- shapes --- */

static int data_type(uint8_t dtype)
{
    switch (dtype) {
#define COMPUTED_DTYPE(NAME, name, number, bytes, infinity, file, torch, option, cublaslt)         \
    case REMAT_##NAME:                                                                             \
        return cublaslt;
#include <remat/dtypes.def>
    default:
        return -1;
    }
}

static const struct remat_operand *side_operand(const struct cuda_gemms *g,
                                                const struct remat_command *command, uint32_t side)
{
    return &g->program->operands[command->operand_begin + operand_of[side]];
}

/* The last two axes, rows of the operand being columns of the matrix unless it is transposed. */
static bool read_matrix(const struct remat_operand *operand, struct matrix *out)
{
    uint32_t row = operand->rank - 2u, column = operand->rank - 1u;
    bool transposed = operand->strides[column] != 1 && operand->shape[column] != 1;
    uint32_t inner = transposed ? row : column, outer = transposed ? column : row;
    *out = (struct matrix){.rows = (uint64_t)operand->shape[inner],
                           .columns = (uint64_t)operand->shape[outer],
                           .leading = operand->strides[outer],
                           .transposed = transposed,
                           .dtype = operand->dtype,
                           .alignment = ALIGNMENT_MAX};
    if (out->columns == 1 && out->leading < (int64_t)out->rows)
        out->leading = (int64_t)out->rows;
    return (operand->strides[inner] == 1 || operand->shape[inner] == 1) &&
           out->leading >= (int64_t)out->rows;
}

/* Takes axes from the last one on into the batch, as long as one stride covers them. */
static uint32_t read_batch(const struct cuda_gemms *g, const struct remat_command *command,
                           struct gemm_shape *shape)
{
    uint32_t axis = side_operand(g, command, SIDE_D)->rank - 2u;
    shape->batch = 1;
    for (; axis > 0; axis--) {
        int64_t length = side_operand(g, command, SIDE_D)->shape[axis - 1];
        bool covered = length <= INT32_MAX / shape->batch;
        for (uint32_t s = 0; s < SIDES; s++)
            covered &= length == 1 || shape->batch == 1 ||
                       side_operand(g, command, s)->strides[axis - 1] ==
                           shape->matrices[s].batch_stride * shape->batch;
        if (!covered)
            break;
        for (uint32_t s = 0; s < SIDES && length > 1 && shape->batch == 1; s++)
            shape->matrices[s].batch_stride = side_operand(g, command, s)->strides[axis - 1];
        shape->batch *= (int32_t)length;
    }
    return axis;
}

static uint64_t offset_of(const struct remat_program *program, const struct remat_operand *operand)
{
    return program->buffers[program->values[operand->value].buffer].offset_bytes +
           operand->offset_elements * remat_dtype_bytes((remat_dtype)operand->dtype);
}

static void align_to(struct matrix *matrix, uint64_t bytes)
{
    while (bytes % matrix->alignment)
        matrix->alignment /= 2;
}

static remat_status read_shape(const struct cuda_gemms *g, const struct remat_command *command,
                               struct gemm_shape *shape, struct product *product)
{
    for (uint32_t s = 0; s < SIDES; s++) {
        const struct remat_operand *operand = side_operand(g, command, s);
        if (data_type(operand->dtype) < 0)
            return remat_error(g->ctx, REMAT_ERROR_INVALID,
                               "command \"%s\": products are of %s, operand %u is %s",
                               command->name, remat_computed_dtypes, operand_of[s],
                               remat_dtype_name((remat_dtype)operand->dtype));
        if (!read_matrix(operand, &shape->matrices[s]) ||
            (s == SIDE_D && shape->matrices[s].transposed))
            return remat_error(g->ctx, REMAT_ERROR_INVALID,
                               "command \"%s\": cuBLASLt does not do the strides of operand %u",
                               command->name, operand_of[s]);
    }
    product->axes = read_batch(g, command, shape);
    uint64_t calls = 1; /* at most REMAT_ELEMENTS_MAX */
    for (uint32_t a = 0; a < product->axes; a++)
        calls *= (uint64_t)side_operand(g, command, SIDE_D)->shape[a];
    if (calls > INT32_MAX)
        return remat_error(g->ctx, REMAT_ERROR_INVALID, "command \"%s\": %llu calls of cuBLASLt",
                           command->name, (unsigned long long)calls);
    product->calls = (uint32_t)calls;
    for (uint32_t s = 0; s < SIDES; s++) {
        const struct remat_operand *operand = side_operand(g, command, s);
        align_to(&shape->matrices[s], offset_of(g->program, operand));
        for (uint32_t a = 0; a < product->axes; a++)
            align_to(&shape->matrices[s], (uint64_t)operand->strides[a] *
                                              remat_dtype_bytes((remat_dtype)operand->dtype));
    }
    return REMAT_OK;
}

/* "bf16 NT 512x768x64 ...": all that a choice depends on, in cuBLASLt's terms. */
static const char *key_of(struct cuda_gemms *g, const struct gemm_shape *shape)
{
    const struct matrix *a = &shape->matrices[SIDE_A], *b = &shape->matrices[SIDE_B],
                        *d = &shape->matrices[SIDE_D];
    return remat_arena_format(
        &g->arena,
        "%s %s %c%c %llux%llux%llu ld %lld,%lld,%lld batch %d by %lld,%lld,%lld align %u,%u,%u",
        remat_dtype_name((remat_dtype)a->dtype), remat_dtype_name((remat_dtype)d->dtype),
        "NT"[a->transposed], "NT"[b->transposed], (unsigned long long)d -> rows,
        (unsigned long long)d -> columns,
        (unsigned long long)(b->transposed ? b->columns : b->rows), (long long)a -> leading,
        (long long)b -> leading, (long long)d -> leading, shape -> batch,
        (long long)a -> batch_stride, (long long)b -> batch_stride, (long long)d -> batch_stride,
        a -> alignment, b -> alignment, d -> alignment);
}

/* --- descriptions and the choice --- */

static remat_status describe(struct cuda_gemms *g, const struct gemm_shape *shape,
                             struct gemm *gemm)
{
    remat_status st = REMAT_OK;
    const int32_t transpose = CUBLASLT_OP_T;
    LT_TRY(g, cublasLtMatmulDescCreate, &gemm->description, CUBLASLT_COMPUTE_32F, CUBLASLT_R_32F);
    if (shape->matrices[SIDE_A].transposed)
        LT_TRY(g, cublasLtMatmulDescSetAttribute, gemm->description, CUBLASLT_DESC_TRANSA,
               &transpose, sizeof transpose);
    if (shape->matrices[SIDE_B].transposed)
        LT_TRY(g, cublasLtMatmulDescSetAttribute, gemm->description, CUBLASLT_DESC_TRANSB,
               &transpose, sizeof transpose);
    for (uint32_t s = 0; s < SIDES; s++) {
        const struct matrix *matrix = &shape->matrices[s];
        LT_TRY(g, cublasLtMatrixLayoutCreate, &gemm->layouts[s], data_type(matrix->dtype),
               matrix->rows, matrix->columns, matrix->leading);
        if (shape->batch == 1)
            continue;
        LT_TRY(g, cublasLtMatrixLayoutSetAttribute, gemm->layouts[s], CUBLASLT_LAYOUT_BATCH_COUNT,
               &shape->batch, sizeof shape->batch);
        LT_TRY(g, cublasLtMatrixLayoutSetAttribute, gemm->layouts[s],
               CUBLASLT_LAYOUT_STRIDED_BATCH_OFFSET, &matrix->batch_stride,
               sizeof matrix->batch_stride);
    }
fail:
    return st;
}

static remat_status set_preferences(struct cuda_gemms *g, const struct gemm_shape *shape,
                                    void *preference)
{
    /* Sums of split products in f32, in the workspace: rounded to the result's dtype once. */
    const uint32_t reductions = CUBLASLT_REDUCTION_COMPUTE_TYPE;
    const struct {
        int attribute;
        uint32_t side;
    } alignments[] = {{CUBLASLT_PREF_MIN_ALIGNMENT_A_BYTES, SIDE_A},
                      {CUBLASLT_PREF_MIN_ALIGNMENT_B_BYTES, SIDE_B},
                      {CUBLASLT_PREF_MIN_ALIGNMENT_C_BYTES, SIDE_D},
                      {CUBLASLT_PREF_MIN_ALIGNMENT_D_BYTES, SIDE_D}};
    remat_status st = REMAT_OK;
    LT_TRY(g, cublasLtMatmulPreferenceSetAttribute, preference, CUBLASLT_PREF_MAX_WORKSPACE_BYTES,
           &g->workspace_bytes, sizeof g->workspace_bytes);
    LT_TRY(g, cublasLtMatmulPreferenceSetAttribute, preference, CUBLASLT_PREF_REDUCTION_SCHEME_MASK,
           &reductions, sizeof reductions);
    for (size_t i = 0; i < sizeof alignments / sizeof *alignments; i++) {
        const uint32_t bytes = shape->matrices[alignments[i].side].alignment;
        LT_TRY(g, cublasLtMatmulPreferenceSetAttribute, preference, alignments[i].attribute, &bytes,
               sizeof bytes);
    }
fail:
    return st;
}

static bool is_usable(const struct cuda_gemms *g, const struct cublaslt_choice *choice)
{
    return choice->state == 0 && choice->workspace_bytes <= g->workspace_bytes;
}

static remat_status choose(struct cuda_gemms *g, const struct gemm_shape *shape, struct gemm *gemm)
{
    remat_status st = REMAT_OK;
    struct cublaslt_choice choices[CHOICES] = {0};
    void *preference = NULL, **l = gemm->layouts;
    int count = 0, c = 0;
    LT_TRY(g, cublasLtMatmulPreferenceCreate, &preference);
    REMAT_TRY(set_preferences(g, shape, preference));
    int result = g->library.cublasLtMatmulAlgoGetHeuristic(g->handle, gemm->description, l[SIDE_A],
                                                           l[SIDE_B], l[SIDE_D], l[SIDE_D],
                                                           preference, CHOICES, choices, &count);
    while (c < count && !is_usable(g, &choices[c]))
        c++;
    if (result || c == count)
        REMAT_FAIL(g->ctx, REMAT_ERROR_INVALID,
                   "cuBLASLt has no algorithm for %s in %llu bytes of workspace (status %d)",
                   gemm->key, (unsigned long long)g->workspace_bytes, result);
    gemm->algorithm = choices[c].algorithm;
fail:
    if (preference)
        g->library.cublasLtMatmulPreferenceDestroy(preference);
    return st;
}

/* What the table has, where the library still takes it. */
static remat_status recall(struct cuda_gemms *g, const struct gemm_table *table, struct gemm *gemm,
                           bool *out)
{
    remat_status st = REMAT_OK;
    struct cublaslt_choice verdict = {0};
    void **l = gemm->layouts;
    REMAT_TRY(gemm_table_find(table, gemm->key, &gemm->algorithm, out));
    if (!*out)
        return REMAT_OK;
    int result =
        g->library.cublasLtMatmulAlgoCheck(g->handle, gemm->description, l[SIDE_A], l[SIDE_B],
                                           l[SIDE_D], l[SIDE_D], &gemm->algorithm, &verdict);
    *out = result == 0 && is_usable(g, &verdict);
    if (!*out)
        remat_log(g->ctx, REMAT_SEVERITY_WARNING,
                  "cuBLASLt refuses the algorithm that the table has for %s: another is chosen, "
                  "bits may differ from earlier runs",
                  gemm->key);
fail:
    return st;
}

static remat_status add_product(struct cuda_gemms *g, struct gemm_table *table, uint32_t c)
{
    remat_status st = REMAT_OK;
    struct gemm_shape shape;
    struct gemm gemm = {0};
    bool recalled;
    struct product *product = &g->products[c];
    REMAT_TRY(read_shape(g, &g->program->commands[c], &shape, product));
    if (!(gemm.key = key_of(g, &shape)))
        return REMAT_ERROR_MEMORY;
    for (product->gemm = 0; product->gemm < g->gemms.count; product->gemm++)
        if (strcmp(g->gemms.items[product->gemm].key, gemm.key) == 0)
            return REMAT_OK;
    REMAT_TRY_PUSH(&g->arena, &g->gemms, gemm); /* first, so that destroy finds it */
    struct gemm *added = &g->gemms.items[product->gemm];
    REMAT_TRY(describe(g, &shape, added));
    REMAT_TRY(recall(g, table, added, &recalled));
    if (recalled)
        return REMAT_OK;
    REMAT_TRY(choose(g, &shape, added));
    REMAT_TRY(gemm_table_add(table, added->key, &added->algorithm));
fail:
    return st;
}

/* --- life --- */

static bool is_gemm(const struct remat_program *program, uint32_t c)
{
    uint32_t kind = program->kernels[program->commands[c].kernel].kind;
    return remat_kernel_row(kind)->dispatch == REMAT_DISPATCH_GEMM;
}

static remat_status prepare(struct cuda_gemms *g, const struct cuda_gemm_settings *settings)
{
    remat_status st = REMAT_OK;
    struct gemm_table table;
    REMAT_TRY_NEW(&g->arena, g->products, g->program->command_count);
    REMAT_TRY(gemm_table_open(g->ctx, &g->arena, settings->table, settings->device,
                              g->library.version, settings->workspace_bytes, &table));
    for (uint32_t c = 0; c < g->program->command_count; c++)
        if (is_gemm(g->program, c))
            REMAT_TRY(add_product(g, &table, c));
    REMAT_TRY(gemm_table_save(&table));
fail:
    return st;
}

remat_status cuda_gemms_create(remat_context *ctx, const struct cuda_driver *driver,
                               const struct remat_program *program,
                               const struct cuda_gemm_settings *settings, struct cuda_gemms **out)
{
    remat_status st = REMAT_OK;
    uint32_t c = 0;
    *out = NULL;
    while (c < program->command_count && !is_gemm(program, c))
        c++;
    if (c == program->command_count)
        return REMAT_OK;
    struct cuda_gemms *g = *out = remat_reallocate(ctx, NULL, sizeof *g);
    if (!g)
        return REMAT_ERROR_MEMORY;
    *g = (struct cuda_gemms){
        .ctx = ctx, .program = program, .workspace_bytes = settings->workspace_bytes};
    remat_arena_init(&g->arena, ctx);
    REMAT_TRY(cublaslt_open(ctx, settings->folder, driver->version, &g->library));
    int result = g->library.cublasLtCreate(&g->handle);
    if (result && result != CUBLASLT_ALLOC_FAILED)
        REMAT_FAIL(ctx, REMAT_ERROR_IO,
                   "cuBLASLt %llu does not start on this GPU: status %d: install one that fits the "
                   "driver, or run with --device cpu",
                   (unsigned long long)g->library.version, result);
    REMAT_TRY(check(ctx, result, "cublasLtCreate"));
    REMAT_TRY(prepare(g, settings));
    return REMAT_OK;
fail:
    cuda_gemms_destroy(out);
    return st;
}

void cuda_gemms_destroy(struct cuda_gemms **gemms)
{
    struct cuda_gemms *g = *gemms;
    if (!g)
        return;
    for (size_t i = 0; i < g->gemms.count; i++) {
        struct gemm *gemm = &g->gemms.items[i];
        for (uint32_t s = 0; s < SIDES; s++)
            if (gemm->layouts[s])
                g->library.cublasLtMatrixLayoutDestroy(gemm->layouts[s]);
        if (gemm->description)
            g->library.cublasLtMatmulDescDestroy(gemm->description);
    }
    if (g->handle)
        g->library.cublasLtDestroy(g->handle);
    cublaslt_close(&g->library);
    remat_arena_release(&g->arena);
    remat_reallocate(g->ctx, g, 0);
    *gemms = NULL;
}

/* --- running --- */

static uint64_t address_of(const struct cuda_gemms *g, const struct remat_command *command,
                           uint32_t side, const struct product *product, uint32_t call)
{
    const struct remat_operand *operand = side_operand(g, command, side);
    uint64_t elements = 0;
    for (uint32_t a = product->axes; a-- > 0;) {
        uint32_t length = (uint32_t)side_operand(g, command, SIDE_D)->shape[a];
        elements += call % length * (uint64_t)operand->strides[a];
        call /= length;
    }
    return offset_of(g->program, operand) +
           elements * remat_dtype_bytes((remat_dtype)operand->dtype);
}

remat_status cuda_gemms_run(struct cuda_gemms *g, uint32_t c, uint64_t arena, uint64_t workspace,
                            void *stream)
{
    assert(c < g->program->command_count);
    remat_status st = REMAT_OK;
    const struct remat_command *command = &g->program->commands[c];
    bool added = side_operand(g, command, SIDE_D)->access == REMAT_ACCESS_UPDATE;
    const float one = 1, beta = added ? 1 : 0;
    const struct product *product = &g->products[c];
    const struct gemm *gemm = &g->gemms.items[product->gemm];
    void *const *l = gemm->layouts;
    for (uint32_t call = 0; call < product->calls; call++) {
        const void *address[SIDES];
        for (uint32_t s = 0; s < SIDES; s++)
            address[s] =
                (const void *)(uintptr_t)(arena + address_of(g, command, s, product, call));
        LT_TRY(g, cublasLtMatmul, g->handle, gemm->description, &one, address[SIDE_A], l[SIDE_A],
               address[SIDE_B], l[SIDE_B], &beta, address[SIDE_D], l[SIDE_D],
               (void *)(uintptr_t)address[SIDE_D], l[SIDE_D], &gemm->algorithm,
               (void *)(uintptr_t)workspace, g->workspace_bytes, stream);
    }
fail:
    return st;
}
