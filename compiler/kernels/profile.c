/* SPDX-License-Identifier: Apache-2.0 */
/* Rows are found by two hashes: of what the kernel is (instructions or name, dtypes of the
 * operands) and of how large (texts of the operands, flops, bytes). Sorted by kernel and modelled
 * work, so that a kernel's sizes are neighbours.
 *
 * Kernels are timed one by one, so each has the whole latency of a launch, which a graph of
 * commands hides. The shortest kernel does next to nothing: where it takes longer than the
 * description's launch, all were timed by so much too long. */
#include "profile.h"

#include "file.h"
#include "kernel_body.h"
#include "rates.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define SHAPES_MAX 3 /* of the first operands, from which products and attention are modelled */

struct remat_profile_row {
    uint64_t kernel, size;
    double work_ns; /* modelled, without the launch */
    double measured_ns;
};

/* --- what identifies a row --- */

/* A fused kernel is known by the hash in its key; the composite ops before it are for the reader.
 */
static uint64_t hash_name(const char *name)
{
    const char *hash = strchr(name, '#');
    return remat_hash_string(hash ? hash : name, 0);
}

static void hash_operand(const char *text, size_t length, struct remat_profile_row *row)
{
    const char *bracket = memchr(text, '[', length);
    row->kernel = remat_hash(text, bracket ? (size_t)(bracket - text) : length, row->kernel);
    row->size = remat_hash(text, length, row->size);
}

static void hash_size(uint64_t flops, uint64_t moved_bytes, struct remat_profile_row *row)
{
    row->size = remat_hash(&flops, sizeof flops, row->size);
    row->size = remat_hash(&moved_bytes, sizeof moved_bytes, row->size);
}

static struct remat_profile_row identify(const struct remat_graph *graph,
                                         const struct remat_kernel_info *kernel, uint64_t flops,
                                         uint64_t moved_bytes)
{
    char text[REMAT_OPERAND_TEXT_BYTES];
    struct remat_profile_row row = {0};
    if (kernel->kind == REMAT_KERNEL_fused)
        snprintf(text, sizeof text, "#%08" PRIx32, remat_kernel_key_hash(kernel));
    else
        snprintf(text, sizeof text, "%s", remat_kernel_kind_name(kernel->kind));
    row.kernel = hash_name(text);
    for (uint32_t o = 0; o < kernel->operand_count; o++) {
        const struct remat_kernel_operand *from = &kernel->operands[o];
        struct remat_operand operand = {
            .dtype = (uint8_t)graph->values[from->value.i].dtype,
            .rank = (uint8_t)from->view->rank,
        };
        memcpy(operand.shape, from->view->shape, from->view->rank * sizeof *operand.shape);
        memcpy(operand.strides, from->view->strides, from->view->rank * sizeof *operand.strides);
        hash_operand(text, remat_operand_print(&operand, text, sizeof text), &row);
    }
    hash_size(flops, moved_bytes, &row);
    return row;
}

/* --- what its work is modelled as --- */

struct shape {
    uint32_t rank;
    double dims[REMAT_RANK_MAX];
};

struct work {
    uint32_t kind;
    remat_dtype dtype;
    double flops, moved_bytes;
    struct shape shapes[SHAPES_MAX]; /* rank 0: not known */
};

static double product_ns(const struct work *w, const struct remat_device_description *device)
{
    const struct shape *a = &w->shapes[0], *c = &w->shapes[2];
    if (a->rank < 2 || c->rank < 2 || device->matmul_flops_per_ns[w->dtype] == 0)
        return w->flops / device->pointwise_flops_per_ns;
    struct remat_product product = {.batch = 1,
                                    .m = c->dims[c->rank - 2],
                                    .n = c->dims[c->rank - 1],
                                    .k = a->dims[a->rank - 1],
                                    .dtype = w->dtype};
    product.lengths = (uint64_t)product.n | (uint64_t)product.k;
    for (uint32_t axis = 0; axis + 2 < c->rank; axis++)
        product.batch *= c->dims[axis];
    return remat_price_product_ns(&product, device);
}

/* A score takes 4 flops for each element of a head and 20 more, backward 10 and 22. */
static double scores_ns(const struct work *w, bool backward,
                        const struct remat_device_description *device)
{
    const struct shape *q = &w->shapes[backward];
    if (q->rank != 4 || device->matmul_flops_per_ns[w->dtype] == 0)
        return w->flops / device->pointwise_flops_per_ns;
    struct remat_scores scores = {
        .flops = w->flops, .depth = q->dims[3], .dtype = w->dtype, .backward = backward};
    scores.count = w->flops / (backward ? 10 * scores.depth + 22 : 4 * scores.depth + 20);
    scores.seen = fmax(1, scores.count / (q->dims[0] * q->dims[1] * q->dims[2]));
    return remat_price_scores_ns(&scores, device);
}

static double work_ns(const struct work *w, const struct remat_device_description *device)
{
    double ns = w->flops / device->pointwise_flops_per_ns;
    enum remat_arithmetic arithmetic = remat_kernel_row(w->kind)->arithmetic;
    if (arithmetic == REMAT_ARITHMETIC_MATMUL)
        ns = product_ns(w, device);
    if (arithmetic == REMAT_ARITHMETIC_ATTENTION)
        ns = scores_ns(w, false, device);
    if (arithmetic == REMAT_ARITHMETIC_ATTENTION_BACKWARD)
        ns = scores_ns(w, true, device);
    if (arithmetic == REMAT_ARITHMETIC_TRANSFER && device->machine_ranks)
        ns = device->within.latency_ns + w->moved_bytes / device->within.bytes_per_ns;
    return 1 + fmax(ns, w->moved_bytes / device->memory_bytes_per_ns);
}

static struct work work_of(const struct remat_graph *graph, const struct remat_kernel_info *kernel,
                           uint64_t flops, uint64_t moved_bytes)
{
    struct work w = {.kind = kernel->kind,
                     .dtype = graph->values[kernel->operands[0].value.i].dtype,
                     .flops = (double)flops,
                     .moved_bytes = (double)moved_bytes};
    for (uint32_t o = 0; o < SHAPES_MAX && o < kernel->operand_count; o++) {
        const struct remat_view *view = kernel->operands[o].view;
        w.shapes[o].rank = view->rank;
        for (uint32_t axis = 0; axis < view->rank; axis++)
            w.shapes[o].dims[axis] = (double)view->shape[axis];
    }
    return w;
}

/* "bf16[8,*1024,768]'" -> its shape; rank 0: it has none that is known. */
static struct shape read_shape(const char *text, size_t length)
{
    struct shape shape = {0};
    const char *at = memchr(text, '[', length), *end = text + length;
    while (at && at < end && (*at == '[' || *at == ',')) {
        at += 1 + (at[1] == '*');
        uint64_t extent = strtoull(at, (char **)&at, 10);
        if (extent == 0 || extent > INT64_MAX || shape.rank == REMAT_RANK_MAX)
            return (struct shape){0};
        shape.dims[shape.rank++] = (double)extent;
    }
    return at && at < end && *at == ']' ? shape : (struct shape){0};
}

/* --- the file --- */

struct profile_reader {
    remat_context *ctx;
    struct remat_arena *arena;
    const char *path, *producer;
    const struct remat_device_description *device;
    json_t *root;
    struct remat_profile *out;
};

static remat_status fail_key(const struct profile_reader *r, size_t index, const char *key,
                             const char *what)
{
    return remat_error(r->ctx, REMAT_ERROR_INVALID, "%s: kernels[%zu]: \"%s\" %s", r->path, index,
                       key, what);
}

static const struct range {
    const char *key, *fault;
    json_int_t least, most;
} ranges[] = {
#define RANGE(key, kind, least, most)                                                              \
    {key, "must be an integer from " #least " to " #most, least, most},
#include "profile_ranges.def"
#undef RANGE
};

static remat_status read_number(const struct profile_reader *r, json_t *object, size_t index,
                                const char *key, uint64_t *out)
{
    json_t *item = json_object_get(object, key);
    const struct range *range = ranges;
    while (strcmp(range->key, key) != 0)
        range++;
    if (!json_is_integer(item) || json_integer_value(item) < range->least ||
        json_integer_value(item) > range->most)
        return fail_key(r, index, key, range->fault);
    *out = (uint64_t)json_integer_value(item);
    return REMAT_OK;
}

static remat_status read_text(const struct profile_reader *r, json_t *object, size_t index,
                              const char *key, const char **out)
{
    json_t *item = json_object_get(object, key);
    *out = json_string_value(item);
    return *out ? REMAT_OK : fail_key(r, index, key, "must be a string");
}

static uint32_t kind_of(const char *kernel)
{
    for (uint32_t kind = REMAT_KERNEL_fused + 1; kind < REMAT_KERNEL_KIND_COUNT; kind++)
        if (strcmp(kernel, remat_kernel_kind_name(kind)) == 0)
            return kind;
    return strchr(kernel, '#') ? REMAT_KERNEL_fused : REMAT_KERNEL_KIND_COUNT;
}

static remat_status read_row(struct profile_reader *r, json_t *object, size_t index,
                             struct remat_profile_row *out)
{
    const char *kernel, *operands;
    uint64_t flops, moved_bytes, count, median_ns;
    uint32_t operand = 0;
    struct work work = {.dtype = REMAT_F32};
    REMAT_CHECK(read_text(r, object, index, "kernel", &kernel));
    REMAT_CHECK(read_text(r, object, index, "operands", &operands));
    REMAT_CHECK(read_number(r, object, index, "flops", &flops));
    REMAT_CHECK(read_number(r, object, index, "moved_bytes", &moved_bytes));
    REMAT_CHECK(read_number(r, object, index, "count", &count));
    REMAT_CHECK(read_number(r, object, index, "median_ns", &median_ns));
    work.kind = kind_of(kernel);
    if (work.kind == REMAT_KERNEL_KIND_COUNT)
        return fail_key(r, index, "kernel", "is no kernel");
    (void)remat_dtype_parse(operands, strcspn(operands, "["), &work.dtype);
    *out =
        (struct remat_profile_row){.kernel = hash_name(kernel), .measured_ns = (double)median_ns};
    for (const char *text = operands; *text;) {
        size_t length = strcspn(text, " ");
        hash_operand(text, length, out);
        if (operand < SHAPES_MAX)
            work.shapes[operand++] = read_shape(text, length);
        text += length + strspn(text + length, " ");
    }
    hash_size(flops, moved_bytes, out);
    work.flops = (double)flops;
    work.moved_bytes = (double)moved_bytes;
    out->work_ns = work_ns(&work, r->device);
    return REMAT_OK;
}

/* Subtracts from a GPU's times the latency that the description's launch does not include. */
static void take_off_launch(struct remat_profile *p, const struct remat_device_description *device)
{
    double least_ns = INFINITY;
    for (uint32_t i = 0; i < p->count; i++)
        if (p->rows[i].work_ns < device->launch_ns)
            least_ns = fmin(least_ns, p->rows[i].measured_ns - p->rows[i].work_ns);
    p->launch_ns = fmax(0, fmin(least_ns, device->launch_ns));
    if (!remat_device_is_gpu(device) || least_ns <= device->launch_ns || isinf(least_ns))
        return;
    for (uint32_t i = 0; i < p->count; i++)
        p->rows[i].measured_ns =
            fmax(p->launch_ns + 1, p->rows[i].measured_ns - (least_ns - device->launch_ns));
}

static remat_status check_text(const struct profile_reader *r, const char *key,
                               const char *expected, const char *advice)
{
    const char *text = json_string_value(json_object_get(r->root, key));
    if (text && strcmp(text, expected) == 0)
        return REMAT_OK;
    return remat_error(r->ctx, REMAT_ERROR_INVALID, "%s: its \"%s\" is \"%s\", expected \"%s\": %s",
                       r->path, key, text ? text : "", expected, advice);
}

/* A GPU goes by the driver's name and its architecture, another device by its description's name.
 */
static remat_status check_device(const struct profile_reader *r)
{
    static const char advice[] = "a profile prices the device that it was recorded on";
    const struct remat_device_description *device = r->device;
    const char *name = json_string_value(json_object_get(r->root, "device"));
    if (!device->cuda_arch)
        return check_text(r, "device", device->name, advice);
    for (uint32_t g = 0; g < device->gpu_count; g++)
        if (name && strcmp(name, device->gpus[g]) == 0)
            return check_text(r, "arch", device->cuda_arch, advice);
    return check_text(r, "device", device->gpus[0], advice);
}

/* Of a profile of one rank it is missing. */
static remat_status read_mesh(const struct profile_reader *r, const char **out)
{
    json_t *mesh = json_object_get(r->root, "mesh");
    if (mesh && !json_is_string(mesh))
        return remat_error(r->ctx, REMAT_ERROR_INVALID, "%s: \"mesh\" must be a string", r->path);
    *out = mesh ? remat_string(r->arena, json_string_value(mesh), json_string_length(mesh)) : "";
    return REMAT_OK;
}

static int compare_rows(const void *a, const void *b)
{
    const struct remat_profile_row *x = a, *y = b;
    if (x->kernel != y->kernel)
        return x->kernel < y->kernel ? -1 : 1;
    if (x->work_ns != y->work_ns)
        return x->work_ns < y->work_ns ? -1 : 1;
    return x->size < y->size ? -1 : x->size > y->size;
}

static remat_status read_profile(void *user)
{
    struct profile_reader *r = user;
    struct remat_profile *out;
    json_t *kernels = json_object_get(r->root, "kernels");
    REMAT_CHECK(check_text(r, "schema", "remat-profile/1", "it is no profile"));
    REMAT_CHECK(
        check_text(r, "producer", r->producer, "kernels may have changed, record it again"));
    REMAT_CHECK(check_device(r));
    if (!json_is_array(kernels))
        return remat_error(r->ctx, REMAT_ERROR_INVALID, "%s: \"kernels\" must be an array",
                           r->path);
    REMAT_NEW(r->arena, out, 1);
    REMAT_NEW(r->arena, out->rows, json_array_size(kernels));
    REMAT_CHECK(read_mesh(r, &out->mesh));
    for (size_t i = 0; i < json_array_size(kernels); i++)
        REMAT_CHECK(read_row(r, json_array_get(kernels, i), i, &out->rows[out->count++]));
    take_off_launch(out, r->device);
    r->out = out;
    qsort(out->rows, out->count, sizeof *out->rows, compare_rows);
    for (uint32_t i = 1; i < out->count; i++)
        if (compare_rows(&out->rows[i - 1], &out->rows[i]) == 0)
            return remat_error(r->ctx, REMAT_ERROR_INVALID, "%s: a kernel of one size has two rows",
                               r->path);
    return REMAT_OK;
}

/* NULL: no built-in description of this name has one. */
static const char *built_in_profile(const char *name)
{
    for (unsigned i = 0; i < remat_device_text_count; i++)
        if (strcmp(remat_device_texts[i].name, name) == 0)
            return remat_device_texts[i].profile;
    return NULL;
}

const char *remat_profile_beside(struct remat_arena *arena, const char *target,
                                 const struct remat_device_description *device)
{
    static const char end[] = ".json";
    size_t length = strlen(target), stem = length - strlen(end);
    if (length < strlen(end) || strcmp(target + stem, end) != 0)
        return built_in_profile(device->name) ? device->name : NULL;
    const char *path = remat_arena_format(arena, "%.*s.profile.json", (int)stem, target);
    struct stat info;
    bool is_file = path && stat(path, &info) == 0 && S_ISREG(info.st_mode);
    return is_file && access(path, R_OK) == 0 ? path : NULL;
}

remat_status remat_profile_read(remat_context *ctx, struct remat_arena *arena, const char *path,
                                const char *producer, const struct remat_device_description *device,
                                const struct remat_profile **out)
{
    struct profile_reader reader = {ctx, arena, path, producer, device, NULL, NULL};
    const char *built_in = built_in_profile(path);
    json_error_t error;
    char *text = (char *)built_in;
    size_t bytes = built_in ? strlen(built_in) : 0;
    if (!built_in)
        REMAT_CHECK(remat_file_read(ctx, path, arena, &text, &bytes));
    reader.root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);
    if (!reader.root)
        return remat_error(ctx, REMAT_ERROR_INVALID, "%s:%d: %s", path, error.line, error.text);
    remat_status st = remat_guard(ctx, read_profile, &reader); /* which frees no JSON */
    json_decref(reader.root);
    *out = reader.out;
    return st;
}

/* --- times --- */

/* The sizes next to the one asked for, on one side: those of one amount of work count as their
 * mean.
 */
struct side {
    double work_ns, log_ratios;
    uint32_t count;
};

/* measured / modelled, without the launch */
static double ratio_of(const struct remat_profile_row *row, double launch_ns)
{
    return fmax(1, row->measured_ns - launch_ns) / row->work_ns;
}

static void add_to_side(struct side *side, const struct remat_profile_row *row, double launch_ns,
                        bool nearer)
{
    if (side->count && row->work_ns != side->work_ns) {
        if (!nearer)
            return;
        side->count = 0;
        side->log_ratios = 0;
    }
    side->work_ns = row->work_ns;
    side->log_ratios += log(ratio_of(row, launch_ns));
    side->count++;
}

static double side_ratio(const struct side *side)
{
    return side->log_ratios / side->count;
}

/* measured / modelled between the two sides */
static double ratio_at(const struct side *below, const struct side *above, double ns)
{
    if (!above->count || (below->count && below->work_ns == above->work_ns))
        return exp(side_ratio(below));
    if (!below->count)
        return exp(side_ratio(above));
    double share = log(ns / below->work_ns) / log(above->work_ns / below->work_ns);
    return exp(side_ratio(below) + share * (side_ratio(above) - side_ratio(below)));
}

static uint32_t first_row(const struct remat_profile *profile, uint64_t kernel)
{
    uint32_t begin = 0, end = profile->count;
    while (begin < end) {
        uint32_t middle = begin + (end - begin) / 2;
        if (profile->rows[middle].kernel < kernel)
            begin = middle + 1;
        else
            end = middle;
    }
    return begin;
}

static bool is_of_mesh(const struct remat_profile *profile, const struct remat_mesh *mesh)
{
    char text[REMAT_MESH_TEXT_BYTES];
    remat_mesh_print(mesh, text);
    return strcmp(profile->mesh, text) == 0;
}

uint8_t remat_profile_time(const struct remat_profile *profile,
                           const struct remat_device_description *device,
                           const struct remat_graph *graph, const struct remat_kernel_info *kernel,
                           uint64_t flops, uint64_t moved_bytes, double *ns)
{
    struct remat_profile_row wanted = identify(graph, kernel, flops, moved_bytes);
    struct side below = {0}, above = {0};
    struct work work = work_of(graph, kernel, flops, moved_bytes);
    double wanted_ns = work_ns(&work, device);
    if (remat_kernel_row(kernel->kind)->arithmetic == REMAT_ARITHMETIC_TRANSFER &&
        !is_of_mesh(profile, &graph->mesh))
        return REMAT_COST_MODELLED;
    for (uint32_t i = first_row(profile, wanted.kernel);
         i < profile->count && profile->rows[i].kernel == wanted.kernel; i++) {
        const struct remat_profile_row *row = &profile->rows[i];
        if (row->size == wanted.size) {
            *ns = row->measured_ns;
            return REMAT_COST_MEASURED;
        }
        if (row->work_ns <= wanted_ns)
            add_to_side(&below, row, profile->launch_ns, true);
        if (row->work_ns >= wanted_ns)
            add_to_side(&above, row, profile->launch_ns, false);
    }
    if (!below.count && !above.count)
        return REMAT_COST_MODELLED;
    *ns = profile->launch_ns + wanted_ns * ratio_at(&below, &above, wanted_ns);
    return REMAT_COST_INTERPOLATED;
}
