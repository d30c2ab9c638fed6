/* SPDX-License-Identifier: Apache-2.0 */
/* Rows are found by two hashes: of what the kernel is (instructions or name, dtypes of the
 * operands) and of how large (texts of the operands, flops, bytes). Sorted by kernel and roofline
 * time, so that a kernel's sizes are neighbours. */
#include "profile.h"

#include "file.h"
#include "kernel_body.h"
#include "mesh.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

struct remat_profile_row {
    uint64_t kernel, size;
    double roofline_ns, measured_ns;
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
                                         const struct remat_fused_kernel *kernel, uint64_t flops,
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

static double roofline_ns(uint32_t kind, remat_dtype dtype, uint64_t flops, uint64_t moved_bytes,
                          const struct remat_device_description *device)
{
    double rate = device->pointwise_flops_per_ns, matmul = device->matmul_flops_per_ns[dtype];
    enum remat_arithmetic arithmetic = remat_kernel_row(kind)->arithmetic;
    if (arithmetic == REMAT_ARITHMETIC_MATMUL && matmul > 0)
        rate = matmul * device->matmul_efficiency;
    if (arithmetic == REMAT_ARITHMETIC_ATTENTION && matmul > 0)
        rate = matmul * device->attention_forward.efficiency;
    if (arithmetic == REMAT_ARITHMETIC_ATTENTION_BACKWARD && matmul > 0)
        rate = matmul * device->attention_backward.efficiency;
    return device->launch_ns + 1 +
           fmax((double)flops / rate, (double)moved_bytes / device->memory_bytes_per_ns);
}

/* --- the file --- */

struct reader {
    remat_context *ctx;
    struct remat_arena *arena;
    const char *path, *producer;
    const struct remat_device_description *device;
    json_t *root;
    struct remat_profile *out;
    double measured_ns, modelled_ns; /* of fused kernels, all runs together */
};

static remat_status fail_key(const struct reader *r, size_t index, const char *key,
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

static remat_status read_number(const struct reader *r, json_t *object, size_t index,
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

static remat_status read_text(const struct reader *r, json_t *object, size_t index, const char *key,
                              const char **out)
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

static remat_status read_row(struct reader *r, json_t *object, size_t index,
                             struct remat_profile_row *out)
{
    const char *kernel, *operands;
    uint64_t flops, moved_bytes, count, median_ns;
    remat_dtype dtype = REMAT_F32;
    REMAT_CHECK(read_text(r, object, index, "kernel", &kernel));
    REMAT_CHECK(read_text(r, object, index, "operands", &operands));
    REMAT_CHECK(read_number(r, object, index, "flops", &flops));
    REMAT_CHECK(read_number(r, object, index, "moved_bytes", &moved_bytes));
    REMAT_CHECK(read_number(r, object, index, "count", &count));
    REMAT_CHECK(read_number(r, object, index, "median_ns", &median_ns));
    uint32_t kind = kind_of(kernel);
    if (kind == REMAT_KERNEL_KIND_COUNT)
        return fail_key(r, index, "kernel", "is no kernel");
    (void)remat_dtype_parse(operands, strcspn(operands, "["), &dtype);
    *out =
        (struct remat_profile_row){.kernel = hash_name(kernel), .measured_ns = (double)median_ns};
    for (const char *text = operands; *text;) {
        size_t length = strcspn(text, " ");
        hash_operand(text, length, out);
        text += length + strspn(text + length, " ");
    }
    hash_size(flops, moved_bytes, out);
    out->roofline_ns = roofline_ns(kind, dtype, flops, moved_bytes, r->device);
    if (kind == REMAT_KERNEL_fused) {
        r->measured_ns += out->measured_ns * (double)count;
        r->modelled_ns += out->roofline_ns * (double)count;
    }
    return REMAT_OK;
}

static remat_status check_text(const struct reader *r, const char *key, const char *expected,
                               const char *advice)
{
    const char *text = json_string_value(json_object_get(r->root, key));
    if (text && strcmp(text, expected) == 0)
        return REMAT_OK;
    return remat_error(r->ctx, REMAT_ERROR_INVALID, "%s: its \"%s\" is \"%s\", expected \"%s\": %s",
                       r->path, key, text ? text : "", expected, advice);
}

/* A GPU goes by the driver's name and its architecture, another device by its description's name.
 */
static remat_status check_device(const struct reader *r)
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
static remat_status read_mesh(const struct reader *r, const char **out)
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
    if (x->roofline_ns != y->roofline_ns)
        return x->roofline_ns < y->roofline_ns ? -1 : 1;
    return x->size < y->size ? -1 : x->size > y->size;
}

static remat_status read_profile(void *user)
{
    struct reader *r = user;
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
    out->typical_ratio = r->modelled_ns > 0 ? r->measured_ns / r->modelled_ns : 1;
    r->out = out;
    qsort(out->rows, out->count, sizeof *out->rows, compare_rows);
    for (uint32_t i = 1; i < out->count; i++)
        if (compare_rows(&out->rows[i - 1], &out->rows[i]) == 0)
            return remat_error(r->ctx, REMAT_ERROR_INVALID, "%s: a kernel of one size has two rows",
                               r->path);
    return REMAT_OK;
}

remat_status remat_profile_read(remat_context *ctx, struct remat_arena *arena, const char *path,
                                const char *producer, const struct remat_device_description *device,
                                const struct remat_profile **out)
{
    struct reader reader = {ctx, arena, path, producer, device, NULL, NULL, 0, 0};
    json_error_t error;
    char *text;
    size_t bytes;
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

/* The sizes next to the one asked for, on one side: those of one roofline time count as their mean.
 */
struct side {
    double roofline_ns, log_ratios;
    uint32_t count;
};

static void add_to_side(struct side *side, const struct remat_profile_row *row, bool nearer)
{
    if (side->count && row->roofline_ns != side->roofline_ns) {
        if (!nearer)
            return;
        side->count = 0;
        side->log_ratios = 0;
    }
    side->roofline_ns = row->roofline_ns;
    side->log_ratios += log(row->measured_ns / row->roofline_ns);
    side->count++;
}

static double side_ratio(const struct side *side)
{
    return side->log_ratios / side->count;
}

/* measured / roofline between the two sides */
static double ratio_at(const struct side *below, const struct side *above, double ns)
{
    if (!above->count || (below->count && below->roofline_ns == above->roofline_ns))
        return exp(side_ratio(below));
    if (!below->count)
        return exp(side_ratio(above));
    double share = log(ns / below->roofline_ns) / log(above->roofline_ns / below->roofline_ns);
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
                           const struct remat_graph *graph, const struct remat_fused_kernel *kernel,
                           uint64_t flops, uint64_t moved_bytes, double *ns)
{
    struct remat_profile_row wanted = identify(graph, kernel, flops, moved_bytes);
    struct side below = {0}, above = {0};
    remat_dtype dtype = graph->values[kernel->operands[0].value.i].dtype;
    double roofline = roofline_ns(kernel->kind, dtype, flops, moved_bytes, device);
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
        if (row->roofline_ns <= roofline)
            add_to_side(&below, row, true);
        if (row->roofline_ns >= roofline)
            add_to_side(&above, row, false);
    }
    bool known = below.count || above.count;
    if (known)
        *ns = roofline * ratio_at(&below, &above, roofline);
    else if (kernel->kind == REMAT_KERNEL_fused)
        *ns *= profile->typical_ratio;
    return known ? REMAT_COST_INTERPOLATED : REMAT_COST_MODELLED;
}
