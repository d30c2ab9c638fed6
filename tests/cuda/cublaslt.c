/* SPDX-License-Identifier: Apache-2.0 */
/* libcublasLt: products in plain loops, one ascending chain of sums for each part of K, the
 * parts added in order. An algorithm is the number of its parts, so two algorithms differ in bits,
 * the alignments of addresses that it was chosen for, and the workspace that it needs. Nothing else
 * may lie in the workspace that a product is given: each fills the beginning with NaN, one in 16
 * all of it, which would take most of a test's time. */
#include "double.h"

#include "cuda_api.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define EXPORT                __attribute__((visibility("default")))
#define FUNCTION(symbol, ...) EXPORT int symbol(__VA_ARGS__);
#include "cublaslt.def"
#undef FUNCTION
EXPORT size_t cublasLtGetVersion(void);

#define MAGIC         0x616c676f72697468u
#define VERSION       130100
#define INVALID_VALUE 7
#define NOT_SUPPORTED 15

enum kind { LIBRARY, DESCRIPTION, LAYOUT, PREFERENCE };
static const char *const kind_names[] = {"handle", "description", "layout", "preference"};
struct layout {
    int type;
    uint64_t rows, columns;
    int64_t leading;
    int32_t batch;
    int64_t stride;
};
struct description {
    int32_t transposed[2];
};
struct preference {
    uint64_t workspace_bytes;
    uint32_t reductions;
    uint32_t alignment[4]; /* of A, B, C, D */
};
struct object {
    enum kind kind;
    bool destroyed; /* kept, so that what is done with it later is known */
    struct object *next;
    union {
        long charged; /* bytes, of a library */
        struct layout layout;
        struct description description;
        struct preference preference;
    };
};
enum word { MAGIC_WORD, SPLITS, ALIGNMENTS, WORKSPACE_BYTES }; /* of an algorithm */
struct product {                                               /* queued */
    struct description description;
    struct layout a, b, d;
    const char *a_data, *b_data;
    char *d_data, *workspace;
    size_t workspace_bytes;
    uint64_t splits;
    float beta;
};

static double_enqueue *enqueue;
static double_check_memory *check;
static double_charge_memory *charge;
static double_refuse_capture *refuse;
static double_end_process *end_process;
static struct object *objects;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* of the list */

size_t cublasLtGetVersion(void)
{
    const char *set = getenv("REMAT_DOUBLE_CUBLASLT");
    return set ? (size_t)atol(set) : VERSION;
}

static struct object *add(enum kind kind)
{
    struct object *object = calloc(1, sizeof *object);
    object->kind = kind;
    pthread_mutex_lock(&mutex);
    object->next = objects;
    objects = object;
    pthread_mutex_unlock(&mutex);
    return object;
}

/* Ends the process for one that is unknown, destroyed or of another kind. */
static struct object *find(const void *handle, enum kind kind, const char *call)
{
    char what[64];
    pthread_mutex_lock(&mutex);
    struct object *o = objects;
    pthread_mutex_unlock(&mutex); /* nothing is taken from the list */
    while (o && o != handle)
        o = o->next;
    snprintf(what, sizeof what, "%s %s",
             !o                ? "an unknown"
             : o->kind != kind ? "no"
                               : "a destroyed",
             kind_names[kind]);
    if (!o || o->kind != kind || o->destroyed)
        end_process(call, what);
    return o;
}

static int drop(const void *handle, enum kind kind, const char *call)
{
    find(handle, kind, call)->destroyed = true;
    return 0;
}

static long count_alive(bool libraries)
{
    long count = 0;
    for (const struct object *o = objects; o; o = o->next)
        count += !o->destroyed && (o->kind == LIBRARY) == libraries;
    return count;
}

int cublasLtCreate(void **handle)
{
    const char *fail = getenv("REMAT_DOUBLE_FAIL");
    void *address[] = {dlsym(RTLD_DEFAULT, "double_enqueue_host"),
                       dlsym(RTLD_DEFAULT, "double_check"), dlsym(RTLD_DEFAULT, "double_charge"),
                       dlsym(RTLD_DEFAULT, "double_refuse"), dlsym(RTLD_DEFAULT, "double_end")};
    memcpy(&enqueue, &address[0], sizeof enqueue);
    memcpy(&check, &address[1], sizeof check);
    memcpy(&charge, &address[2], sizeof charge);
    memcpy(&refuse, &address[3], sizeof refuse);
    memcpy(&end_process, &address[4], sizeof end_process);
    if (!enqueue || !check || !charge || !refuse || !end_process || refuse(__func__))
        return 1;
    if (fail && strncmp(fail, "cublasLtCreate:", 15) == 0)
        return atoi(fail + 15);
    *handle = add(LIBRARY);
    return 0;
}

int cublasLtDestroy(void *handle)
{
    if (refuse(__func__))
        return 1;
    struct object *library = find(handle, LIBRARY, __func__);
    charge(-library->charged);
    library->destroyed = true;
    if (count_alive(true) > 0)
        return 0;
    if (count_alive(false) > 0) {
        fprintf(stderr, "libcublasLt double: %ld objects leaked\n", count_alive(false));
        exit(DOUBLE_LEAK);
    }
    return 0;
}

/* As kernels are loaded when they are first used. */
static bool load_kernels(struct object *library)
{
    const char *set = getenv("REMAT_DOUBLE_PRODUCT");
    long bytes = set ? atol(set) : 1 << 16;
    if (!library->charged && refuse("cublasLtMatmul, for the first time"))
        return false;
    if (!library->charged && charge(bytes))
        library->charged = bytes;
    return library->charged == bytes;
}

int cublasLtMatmulDescCreate(void **out, int compute, int scale)
{
    if (compute != CUBLASLT_COMPUTE_32F || scale != CUBLASLT_R_32F)
        return INVALID_VALUE;
    *out = add(DESCRIPTION);
    return 0;
}

int cublasLtMatmulDescDestroy(void *description)
{
    return drop(description, DESCRIPTION, __func__);
}

int cublasLtMatmulDescSetAttribute(void *handle, int attribute, const void *value, size_t bytes)
{
    struct description *description = &find(handle, DESCRIPTION, __func__)->description;
    int side = attribute - CUBLASLT_DESC_TRANSA;
    if (side < 0 || side > 1 || bytes != sizeof(int32_t))
        return INVALID_VALUE;
    memcpy(&description->transposed[side], value, bytes);
    return 0;
}

int cublasLtMatrixLayoutCreate(void **out, int type, uint64_t rows, uint64_t columns,
                               int64_t leading)
{
    if (leading < (int64_t)rows)
        return INVALID_VALUE;
    struct object *object = add(LAYOUT);
    object->layout = (struct layout){type, rows, columns, leading, 1, 0};
    *out = object;
    return 0;
}

int cublasLtMatrixLayoutDestroy(void *layout)
{
    return drop(layout, LAYOUT, __func__);
}

int cublasLtMatrixLayoutSetAttribute(void *handle, int attribute, const void *value, size_t bytes)
{
    struct layout *layout = &find(handle, LAYOUT, __func__)->layout;
    void *to = attribute == CUBLASLT_LAYOUT_BATCH_COUNT ? (void *)&layout->batch : &layout->stride;
    if (bytes !=
        (attribute == CUBLASLT_LAYOUT_BATCH_COUNT ? sizeof layout->batch : sizeof layout->stride))
        return INVALID_VALUE;
    memcpy(to, value, bytes);
    return 0;
}

int cublasLtMatmulPreferenceCreate(void **out)
{
    struct object *object = add(PREFERENCE);
    object->preference = (struct preference){.alignment = {256, 256, 256, 256}};
    *out = object;
    return 0;
}

int cublasLtMatmulPreferenceDestroy(void *preference)
{
    return drop(preference, PREFERENCE, __func__);
}

int cublasLtMatmulPreferenceSetAttribute(void *handle, int attribute, const void *value,
                                         size_t bytes)
{
    struct preference *preference = &find(handle, PREFERENCE, __func__)->preference;
    if (attribute == CUBLASLT_PREF_MAX_WORKSPACE_BYTES)
        memcpy(&preference->workspace_bytes, value, sizeof(uint64_t));
    if (attribute == CUBLASLT_PREF_REDUCTION_SCHEME_MASK)
        memcpy(&preference->reductions, value, sizeof(uint32_t));
    int side = attribute - CUBLASLT_PREF_MIN_ALIGNMENT_A_BYTES;
    if (side >= 0 && side < 4)
        memcpy(&preference->alignment[side], value, sizeof(uint32_t));
    return bytes == 4 || bytes == 8 ? 0 : INVALID_VALUE;
}

static bool shapes_agree(const void *description, const void *left, const void *right,
                         const void *result, const char *call)
{
    const struct description *d = &find(description, DESCRIPTION, call)->description;
    const struct layout *a = &find(left, LAYOUT, call)->layout,
                        *b = &find(right, LAYOUT, call)->layout,
                        *out = &find(result, LAYOUT, call)->layout;
    uint64_t m = d->transposed[0] ? a->columns : a->rows,
             k = d->transposed[0] ? a->rows : a->columns;
    uint64_t n = d->transposed[1] ? b->rows : b->columns,
             inner = d->transposed[1] ? b->columns : b->rows;
    return m == out->rows && n == out->columns && k == inner && a->batch == out->batch &&
           b->batch == out->batch && a->type == b->type;
}

static struct cublaslt_choice choice_of(const struct preference *preference, uint64_t splits,
                                        uint64_t workspace_bytes)
{
    struct cublaslt_choice out = {.workspace_bytes = workspace_bytes};
    uint64_t *data = out.algorithm.data;
    data[MAGIC_WORD] = MAGIC;
    data[SPLITS] = splits;
    for (int side = 0; side < 4; side++)
        data[ALIGNMENTS] |= (uint64_t)preference->alignment[side] << (16 * side);
    data[WORKSPACE_BYTES] = workspace_bytes;
    return out;
}

int cublasLtMatmulAlgoGetHeuristic(void *handle, void *description, void *a, void *b, void *c,
                                   void *d, void *preference, int wanted,
                                   struct cublaslt_choice *choices, int *count)
{
    const char *splits = getenv("REMAT_DOUBLE_SPLITS");
    const struct preference *given = &find(preference, PREFERENCE, __func__)->preference;
    find(handle, LIBRARY, __func__);
    if (refuse(__func__)) /* as cuBLASLt of CUDA 13.3 fails */
        return 1;
    if (given->reductions != CUBLASLT_REDUCTION_COMPUTE_TYPE || c != d || wanted < 3 ||
        !shapes_agree(description, a, b, d, __func__))
        return INVALID_VALUE;
    *count = 3;
    /* Two that have to be left out: one that takes more than it may, as real heuristics never give,
     * and one that its state says is none, and no product takes. The last takes all that it may, so
     * that what the caller has must be what it said here. */
    choices[0] = choice_of(given, 3, given->workspace_bytes + 1);
    choices[1] = choice_of(given, 0, 0);
    choices[1].state = NOT_SUPPORTED;
    choices[2] = choice_of(given, splits ? (uint64_t)atoi(splits) : 1, given->workspace_bytes);
    return 0;
}

int cublasLtMatmulAlgoCheck(void *handle, void *description, void *a, void *b, void *c, void *d,
                            const struct cublaslt_algorithm *algorithm, struct cublaslt_choice *out)
{
    (void)c;
    find(handle, LIBRARY, __func__);
    *out = (struct cublaslt_choice){.algorithm = *algorithm,
                                    .workspace_bytes = algorithm->data[WORKSPACE_BYTES],
                                    .state = algorithm->data[SPLITS] ? 0 : NOT_SUPPORTED};
    return algorithm->data[MAGIC_WORD] == MAGIC && shapes_agree(description, a, b, d, __func__)
               ? 0
               : INVALID_VALUE;
}

/* --- the product --- */

static float load(const char *data, int type, int64_t element)
{
    uint32_t bits = 0;
    float value;
    if (type == CUBLASLT_R_16BF)
        memcpy((char *)&bits + 2, data + 2 * element, 2);
    else
        memcpy(&bits, data + 4 * element, 4);
    memcpy(&value, &bits, sizeof value);
    return value;
}

static void store(char *data, int type, int64_t element, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint16_t rounded =
        value == value ? (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16) : 0x7fff;
    if (type == CUBLASLT_R_32F)
        memcpy(data + 4 * element, &value, 4);
    else
        memcpy(data + 2 * element, &rounded, 2);
}

/* Of one matrix of a batch: [depth][count] floats. */
static float *widen(const char *data, int type, int64_t begin, uint64_t depth, int64_t step,
                    uint64_t count, int64_t stride)
{
    float *out = malloc(depth * count * sizeof *out), *to = out;
    for (uint64_t k = 0; k < depth; k++)
        for (uint64_t i = 0; i < count; i++)
            *to++ = load(data, type, begin + (int64_t)k * step + (int64_t)i * stride);
    return out;
}

/* Of each row with one column: adds the products in ascending order. */
static void add_chain(float *sums, const float *left, const float *right, uint64_t rows,
                      uint64_t columns, uint64_t begin, uint64_t end)
{
    for (uint64_t k = begin; k < end; k++)
        for (uint64_t i = 0; i < rows; i++)
            sums[i] += left[k * rows + i] * right[k * columns];
}

static void spoil_workspace(const struct product *p)
{
    static _Atomic unsigned count;
    const size_t beginning = 1 << 18;
    bool all = count++ % 16 == 0 || p->workspace_bytes < beginning;
    memset(p->workspace, 0xff, all ? p->workspace_bytes : beginning);
}

static void multiply(const void *data)
{
    const struct product *p = data;
    bool at = p->description.transposed[0], bt = p->description.transposed[1];
    spoil_workspace(p);
    uint64_t depth = at ? p->a.rows : p->a.columns, rows = p->d.rows, columns = p->d.columns;
    int64_t a_row = at ? p->a.leading : 1, a_step = at ? 1 : p->a.leading;
    int64_t b_column = bt ? 1 : p->b.leading, b_step = bt ? p->b.leading : 1;
    float *part = malloc(rows * sizeof *part), *sums = malloc(rows * sizeof *sums);
    for (int64_t z = 0; z < p->d.batch; z++) {
        float *left = widen(p->a_data, p->a.type, z * p->a.stride, depth, a_step, rows, a_row);
        float *right =
            widen(p->b_data, p->b.type, z * p->b.stride, depth, b_step, columns, b_column);
        for (uint64_t j = 0; j < columns; j++) {
            memset(sums, 0, rows * sizeof *sums);
            for (uint64_t s = 0; s < p->splits; s++) {
                memset(part, 0, rows * sizeof *part);
                add_chain(part, left, right + j, rows, columns, depth * s / p->splits,
                          depth * (s + 1) / p->splits);
                for (uint64_t i = 0; i < rows; i++)
                    sums[i] += part[i];
            }
            for (uint64_t i = 0; i < rows; i++) {
                int64_t element = z * p->d.stride + (int64_t)j * p->d.leading + (int64_t)i;
                float old = p->beta != 0 ? p->beta * load(p->d_data, p->d.type, element) : 0;
                store(p->d_data, p->d.type, element, p->beta != 0 ? sums[i] + old : sums[i]);
            }
        }
        free(left);
        free(right);
    }
    free(part);
    free(sums);
}

static void check_layout(const struct layout *layout, const void *data, const char *what)
{
    uint64_t elements = (uint64_t)(layout->batch - 1) * (uint64_t)layout->stride +
                        (layout->columns - 1) * (uint64_t)layout->leading + layout->rows;
    check(data, elements * (layout->type == CUBLASLT_R_32F ? 4 : 2), what);
}

static bool is_aligned(const struct cublaslt_algorithm *algorithm, const void *a, const void *b,
                       const void *c, const void *d)
{
    const void *addresses[] = {a, b, c, d};
    for (int side = 0; side < 4; side++) {
        uint64_t alignment = algorithm->data[ALIGNMENTS] >> (16 * side) & 0xffff;
        if (alignment == 0 || (uintptr_t)addresses[side] % alignment)
            return false;
    }
    return true;
}

static bool only_says(const struct product *p)
{
    const char *dry = getenv("REMAT_DOUBLE_DRY");
    const struct layout *layouts[] = {&p->a, &p->b, &p->d};
    const char *data[] = {p->a_data, p->b_data, p->d_data};
    FILE *said = dry ? fopen(dry, "a") : NULL;
    if (!said)
        return false;
    fprintf(said, "product %llu %llu %d", (unsigned long long)p->d.rows,
            (unsigned long long)p->d.columns, p->d.batch);
    for (int side = 0; side < 3; side++)
        fprintf(said, " %llx %lld %lld", (unsigned long long)(uintptr_t)data[side],
                (long long)layouts[side]->leading, (long long)layouts[side]->stride);
    fprintf(said, "\n");
    fclose(said);
    return true;
}

int cublasLtMatmul(void *handle, void *description, const void *alpha, const void *a,
                   void *a_layout, const void *b, void *b_layout, const void *beta, const void *c,
                   void *c_layout, void *d, void *d_layout,
                   const struct cublaslt_algorithm *algorithm, void *workspace,
                   size_t workspace_bytes, void *stream)
{
    struct product product = {find(description, DESCRIPTION, __func__)->description,
                              find(a_layout, LAYOUT, __func__)->layout,
                              find(b_layout, LAYOUT, __func__)->layout,
                              find(d_layout, LAYOUT, __func__)->layout,
                              a,
                              b,
                              d,
                              workspace,
                              workspace_bytes,
                              algorithm->data[SPLITS],
                              *(const float *)beta};
    struct object *library = find(handle, LIBRARY, __func__);
    if (*(const float *)alpha != 1 || (*(const float *)beta != 0 && *(const float *)beta != 1) ||
        c != d || c_layout != d_layout || algorithm->data[MAGIC_WORD] != MAGIC ||
        algorithm->data[SPLITS] == 0 || algorithm->data[WORKSPACE_BYTES] > workspace_bytes ||
        !is_aligned(algorithm, a, b, c, d) ||
        !shapes_agree(description, a_layout, b_layout, d_layout, __func__))
        return INVALID_VALUE;
    if (!load_kernels(library))
        return CUBLASLT_ALLOC_FAILED;
    if (only_says(&product))
        return 0;
    check_layout(&product.a, a, "A of a product");
    check_layout(&product.b, b, "B of a product");
    check_layout(&product.d, d, "D of a product");
    check(workspace, workspace_bytes, "workspace of a product");
    return enqueue(stream, multiply, &product, sizeof product);
}
