/* SPDX-License-Identifier: Apache-2.0 */
#include "price.h"

#include "overlap.h"

#include <inttypes.h>
#include <math.h>

#include "amounts.h"
#include "profile.h"
#include "rates.h"

#define BELOW (1 - 1e-9) /* what rounding in double cannot make up for */

/* Work of CUDA's kernels beside their body's instructions; counted by tests/nvrtc/prices.py. */
#define ROPE_FLOPS       80   /* a byte of the table: series in double */
#define LOAD_FLOPS       4    /* an element in a further pass: address, load, conversion */
#define TEAM_COLUMNS     1024 /* of longer rows a block passes what it sums through shared memory */
#define COLUMN_FLOPS     150  /* of a column's sum, however few its rows */
#define BLOCK_SUM_FLOPS  6    /* for each element, beside the reduction's own */
#define RESIDENT_COLUMNS 4096 /* longer rows do not fit registers: each pass reads them */
/* The embedding's gradient. */
#define DIGIT_BITS 6    /* by which tokens are sorted at once, at most */
#define SORT_FLOPS 36   /* a token, for each value of the digit */
#define SORT_BASE  7500 /* a block does as much beside, in tokens */
#define ADD_FLOPS  38   /* an element */
#define ROW_NS     25   /* of an id's rows one after the other; estimated */

static uint64_t class_extent(enum remat_register_class class, const struct remat_shape *space)
{
    uint64_t elements = (uint64_t)remat_shape_elements(space);
    uint64_t columns = (uint64_t)space->dims[space->rank - 1];
    switch (class) {
    case REMAT_CLASS_ELEMENT:
        return elements;
    case REMAT_CLASS_ROW:
        return elements / columns;
    case REMAT_CLASS_COLUMN:
        return columns;
    default:
        return 1;
    }
}

/* Counts each instruction once per element of its value; a reduction or flag, of its argument. */
static uint64_t program_flops(const struct remat_kernel_info *kernel)
{
    enum remat_register_class classes[REMAT_FUSED_INSTRUCTIONS_MAX];
    int64_t columns = kernel->space.rank ? kernel->space.dims[kernel->space.rank - 1] : 1;
    uint64_t flops = 0;
    for (uint32_t i = 0; i < kernel->body.instruction_count; i++) {
        const struct remat_instruction *in = &kernel->body.instructions[i];
        bool reduces =
            remat_opcode_is_reduction(in->opcode) || in->opcode == REMAT_INSTRUCTION_flag;
        classes[i] = remat_instruction_class(in, classes);
        uint64_t each = remat_opcode_flops(in->opcode);
        if (remat_opcode_is_row_reduction(in->opcode) && columns > TEAM_COLUMNS)
            each += BLOCK_SUM_FLOPS;
        if (remat_opcode_is_column_reduction(in->opcode))
            flops = remat_add_saturated(
                flops, remat_mul_saturated(COLUMN_FLOPS,
                                           class_extent(REMAT_CLASS_COLUMN, &kernel->space)));
        flops = remat_add_saturated(
            flops,
            remat_mul_saturated(
                each, class_extent(reduces ? classes[in->args[0]] : classes[i], &kernel->space)));
    }
    return flops;
}

static uint64_t kernel_flops(const struct remat_graph *graph,
                             const struct remat_kernel_info *kernel)
{
    if (kernel->kind == REMAT_KERNEL_fused)
        return program_flops(kernel);
    const struct remat_node_info *node = &graph->nodes[kernel->nodes[0].i];
    const struct remat_op_info *op = remat_op_info(node->op);
    return op->flops ? op->flops(graph, node) : 0;
}

/* Bytes that a view touches once. */
static uint64_t view_bytes(const struct remat_graph *graph, const struct remat_kernel_operand *o)
{
    uint64_t bytes = remat_dtype_bytes(graph->values[o->value.i].dtype);
    for (uint32_t axis = 0; axis < o->view->rank; axis++)
        if (o->view->strides[axis] != 0)
            bytes = remat_mul_saturated(bytes, (uint64_t)o->view->shape[axis]);
    return bytes;
}

/* A table of embeddings is touched where the ids point: as often as there are rows of values; a
 * batch where its part is. An update is read and written; a fused kernel reads the old version,
 * if it does, as an operand of its own. */
uint64_t remat_price_operand_bytes(const struct remat_graph *graph,
                                   const struct remat_kernel_info *kernel, uint32_t operand)
{
    assert(operand < kernel->operand_count);
    const struct remat_kernel_operand *o = &kernel->operands[operand];
    bool update = o->access == REMAT_ACCESS_UPDATE, fused = kernel->kind == REMAT_KERNEL_fused;
    const struct remat_kernel_row *row = remat_kernel_row(kernel->kind);
    bool part = !fused && operand == row->touched && o->access != REMAT_ACCESS_WRITE;
    uint64_t bytes = view_bytes(graph, o), touched = UINT64_MAX;
    if (part)
        touched = view_bytes(graph, &kernel->operands[row->touched_like]);
    return remat_mul_saturated(touched < bytes ? touched : bytes, update && !fused ? 2 : 1);
}

static bool same_view(const struct remat_view *a, const struct remat_view *b)
{
    bool same = a->rank == b->rank && a->offset_elements == b->offset_elements;
    for (uint32_t axis = 0; axis < a->rank && same; axis++)
        same = a->shape[axis] == b->shape[axis] && a->strides[axis] == b->strides[axis];
    return same;
}

/* A load of `beside`, too: of the same value, or of the one that it stands for, in the same view.
 */
static bool loads_too(const struct remat_graph *graph, const struct remat_kernel_info *beside,
                      const struct remat_kernel_operand *operand)
{
    if (!beside || remat_is_none(remat_operand_read(operand).i))
        return false;
    remat_value original = remat_instance(graph, operand->value)
                               ? graph->values[operand->value.i].original
                               : operand->value;
    for (uint32_t o = 0; o < beside->operand_count; o++) {
        const struct remat_kernel_operand *other = &beside->operands[o];
        if (other->value.i == original.i && !remat_is_none(remat_operand_read(other).i) &&
            same_view(other->view, operand->view))
            return true;
    }
    return false;
}

bool remat_price_shares(const struct remat_graph *graph, const struct remat_kernel_info *kernel,
                        const struct remat_kernel_info *beside)
{
    for (uint32_t o = 0; o < kernel->operand_count; o++)
        if (loads_too(graph, beside, &kernel->operands[o]))
            return true;
    return false;
}

/* Values are told apart by where their views begin; of several views the largest counts. */
static uint64_t value_bytes(const struct remat_graph *graph, const struct remat_kernel_info *kernel,
                            remat_value value, const struct remat_kernel_info *beside)
{
    uint64_t total = 0;
    for (uint32_t i = 0; i < kernel->operand_count; i++) {
        const struct remat_kernel_operand *o = &kernel->operands[i];
        uint64_t most = 0;
        bool seen =
            (!remat_is_none(value.i) && o->value.i != value.i) || loads_too(graph, beside, o);
        for (uint32_t j = 0; j < kernel->operand_count && !seen; j++) {
            const struct remat_kernel_operand *other = &kernel->operands[j];
            if (other->value.i != o->value.i ||
                other->view->offset_elements != o->view->offset_elements ||
                loads_too(graph, beside, other))
                continue;
            uint64_t bytes = remat_price_operand_bytes(graph, kernel, j);
            most = bytes > most ? bytes : most;
            seen |= j < i;
        }
        total = seen ? total : remat_add_saturated(total, most);
    }
    return total;
}

uint64_t remat_price_value_bytes(const struct remat_graph *graph,
                                 const struct remat_kernel_info *kernel, remat_value value)
{
    return value_bytes(graph, kernel, value, NULL);
}

struct again {
    uint64_t bytes, flops;
};

/* Work that a kernel of the forward pass repeats: in rows too long for registers each pass
 * over the row loads and computes what it needs; a reduction ends a pass. Kernels of the backward
 * pass are left out, so that their prices are sub-additive (price.h). */
static struct again done_again(const struct remat_graph *graph,
                               const struct remat_kernel_info *kernel)
{
    const struct remat_kernel_body *body = &kernel->body;
    uint8_t passes[REMAT_FUSED_INSTRUCTIONS_MAX] = {0};
    uint32_t needed[REMAT_FUSED_INSTRUCTIONS_MAX] = {0}; /* bit p: by pass p */
    enum remat_register_class classes[REMAT_FUSED_INSTRUCTIONS_MAX];
    struct again again = {0, 0};
    bool forward = remat_in_forward_pass(kernel->phase);
    if (kernel->kind != REMAT_KERNEL_fused || !forward || kernel->space.rank == 0 ||
        kernel->space.dims[kernel->space.rank - 1] <= RESIDENT_COLUMNS)
        return again;
    for (uint32_t i = 0; i < body->instruction_count; i++) {
        const struct remat_instruction *in = &body->instructions[i];
        bool reduces = remat_opcode_is_row_reduction(in->opcode);
        classes[i] = remat_instruction_class(in, classes);
        for (uint32_t a = 0; a < remat_opcode_arity(in->opcode); a++)
            passes[i] = passes[in->args[a]] > passes[i] ? passes[in->args[a]] : passes[i];
        if (reduces || in->opcode == REMAT_INSTRUCTION_store)
            needed[in->args[0]] |= 1u << (passes[i] < 31 ? passes[i] : 31);
        passes[i] += reduces;
    }
    for (uint32_t i = body->instruction_count; i-- > 0;) {
        const struct remat_instruction *in = &body->instructions[i];
        if (classes[i] != REMAT_CLASS_ELEMENT)
            continue;
        for (uint32_t a = 0; a < remat_opcode_arity(in->opcode); a++)
            needed[in->args[a]] |= needed[i];
        uint64_t times = (uint64_t)__builtin_popcount(needed[i]), bytes = 0;
        bool load = in->opcode == REMAT_INSTRUCTION_load;
        uint64_t flops = remat_mul_saturated(load ? LOAD_FLOPS : remat_opcode_flops(in->opcode),
                                             class_extent(classes[i], &kernel->space));
        if (times < 2)
            continue;
        if (load)
            bytes = remat_price_operand_bytes(graph, kernel, in->operand);
        again.bytes = remat_add_saturated(again.bytes, remat_mul_saturated(bytes, times - 1));
        again.flops = remat_add_saturated(again.flops, remat_mul_saturated(flops, times - 1));
    }
    return again;
}

/* Tokens are sorted by their ids, a digit a launch, with a block for each of its values that looks
 * through all tokens; then the rows of each id are added one after the other
 * (compiler/codegen/embedding_backward.cu). Ids by Zipf's law: so long is the longest of these
 * chains. */
static double scatter_ns(const struct remat_graph *graph, const struct remat_kernel_info *kernel,
                         double bytes, const struct remat_device_description *device)
{
    const struct remat_kernel_operand *dout = &kernel->operands[0], *table = &kernel->operands[2];
    double columns = (double)table->view->shape[1], rows = (double)table->view->shape[0];
    double elements =
        (double)view_bytes(graph, dout) / remat_dtype_bytes(graph->values[dout->value.i].dtype);
    double tokens = elements / columns, rate = device->pointwise_flops_per_ns;
    int bits = ilogb(rows) + 1, digits = (bits + DIGIT_BITS - 1) / DIGIT_BITS;
    double blocks = ldexp(1, (bits + digits - 1) / digits);
    double looked = SORT_FLOPS * (tokens + SORT_BASE) * fmax(blocks, device->processors) / rate;
    double chain = ROW_NS * floor(tokens / fmax(1, log(rows) + 0.5772));
    double added = fmax(ADD_FLOPS * elements / rate, bytes / device->memory_bytes_per_ns);
    bool filled = kernel->parameters[0] == 0; /* with zeros, by a launch before */
    return (digits + filled) * device->launch_ns + digits * looked + fmax(added, chain);
}

/* A length that counts for alignment; of what may be rows on a monotone device: 0. */
static uint64_t counted(uint64_t length, const struct remat_device_description *device)
{
    return device->monotone && length % device->monotone == 0 ? 0 : length;
}

static double matmul_ns(const struct remat_graph *graph, const struct remat_kernel_info *kernel,
                        const struct remat_device_description *device)
{
    const struct remat_view *a = kernel->operands[0].view, *c = kernel->operands[2].view;
    uint64_t n = (uint64_t)c->shape[c->rank - 1], k = (uint64_t)a->shape[a->rank - 1];
    struct remat_product product = {
        .batch = 1,
        .m = (double)c->shape[c->rank - 2],
        .n = (double)n,
        .k = (double)k,
        .dtype = graph->values[kernel->operands[0].value.i].dtype,
        .lengths = counted(n, device) | counted(k, device),
    };
    for (uint32_t axis = 0; axis + 2 < c->rank; axis++)
        product.batch *= (double)c->shape[axis];
    for (uint32_t o = 0; o < kernel->operand_count; o++) {
        const struct remat_view *view = kernel->operands[o].view;
        for (uint32_t axis = view->rank - 2; axis < view->rank; axis++)
            if (view->shape[axis] > 1 && view->strides[axis] != 1)
                product.lengths |= counted((uint64_t)view->strides[axis], device);
    }
    return remat_price_product_ns(&product, device);
}

static double attention_ns(const struct remat_graph *graph, const struct remat_kernel_info *kernel,
                           bool backward, uint64_t flops,
                           const struct remat_device_description *device)
{
    const struct remat_kernel_operand *q = &kernel->operands[backward ? 1 : 0], *k = q + 1;
    bool causal = kernel->parameters[1] != 0;
    double queries = (double)q->view->shape[1], keys = (double)k->view->shape[1];
    struct remat_scores scores = {
        .flops = (double)flops,
        .seen = causal ? keys - (queries - 1) / 2 : keys,
        .depth = (double)q->view->shape[3],
        .dtype = graph->values[q->value.i].dtype,
        .backward = backward,
        .dropout = kernel->parameters[2] > 0,
    };
    scores.count = (double)q->view->shape[0] * queries * (double)q->view->shape[2] * scores.seen;
    return remat_price_scores_ns(&scores, device);
}

/* Ranks lie in the order of the mesh, the last axis nearest: a group along `axis` takes every
 * stride-th of `span` ranks in a row. */
static bool crosses_machines(const struct remat_mesh *mesh, uint32_t axis, uint32_t machine_ranks)
{
    uint32_t stride = 1, ranks = 1;
    for (uint32_t k = 0; k < mesh->axis_count; k++) {
        ranks *= mesh->axes[k].size;
        stride *= k > axis ? mesh->axes[k].size : 1;
    }
    uint32_t span = stride * mesh->axes[axis].size;
    return ranks > machine_ranks && machine_ranks % span != 0;
}

uint64_t remat_price_engine_bytes(const struct remat_mesh *mesh,
                                  const struct remat_device_description *device)
{
    uint32_t ranks = 1;
    for (uint32_t k = 0; k < mesh->axis_count; k++)
        ranks *= mesh->axes[k].size;
    uint32_t near = ranks < device->machine_ranks ? ranks : device->machine_ranks;
    if (ranks == 1)
        return 0;
    return (near - 1) * device->within.peer_bytes + (ranks - near) * device->between.peer_bytes;
}

static const struct remat_link *link_of(const struct remat_graph *graph,
                                        const struct remat_kernel_info *kernel,
                                        const struct remat_device_description *device)
{
    uint32_t axis = (uint32_t)kernel->parameters[0];
    return crosses_machines(&graph->mesh, axis, device->machine_ranks) ? &device->between
                                                                       : &device->within;
}

/* No rank sends or receives more than all parts but one. */
static double transfer_ns(const struct remat_graph *graph, const struct remat_kernel_info *kernel,
                          const struct remat_device_description *device)
{
    bool gathers = kernel->kind == REMAT_KERNEL_gather;
    double ranks = graph->mesh.axes[(uint32_t)kernel->parameters[0]].size;
    double part = (double)view_bytes(graph, &kernel->operands[!gathers]) / (gathers ? 1 : ranks);
    const struct remat_link *link = link_of(graph, kernel, device);
    return link->latency_ns + (ranks - 1) * part / link->bytes_per_ns;
}

/* Attributes of a foreign node by their order in the row of its kernel. */
enum { FOREIGN_FLOPS, FOREIGN_BYTES, FOREIGN_LAUNCHES, FOREIGN_NS };

/* At the rate of matrix products of its first float operand's dtype. */
static double foreign_ns(const struct remat_graph *graph, const struct remat_kernel_info *kernel,
                         const struct remat_device_description *device)
{
    double rate = device->pointwise_flops_per_ns;
    for (uint32_t o = kernel->operand_count; o-- > 0;) {
        remat_dtype dtype = graph->values[kernel->operands[o].value.i].dtype;
        rate = remat_dtype_is_float(dtype) ? device->matmul_flops_per_ns[dtype] : rate;
    }
    return kernel->parameters[FOREIGN_FLOPS] / rate;
}

static double compute_ns(const struct remat_graph *graph, const struct remat_kernel_info *kernel,
                         uint64_t flops, uint64_t bytes,
                         const struct remat_device_description *device)
{
    switch (remat_kernel_row(kernel->kind)->arithmetic) {
    case REMAT_ARITHMETIC_MATMUL:
        return matmul_ns(graph, kernel, device);
    case REMAT_ARITHMETIC_ATTENTION:
        return attention_ns(graph, kernel, false, flops, device);
    case REMAT_ARITHMETIC_ATTENTION_BACKWARD:
        return attention_ns(graph, kernel, true, flops, device);
    case REMAT_ARITHMETIC_SERIES:
        return ROPE_FLOPS * (double)view_bytes(graph, &kernel->operands[0]) /
               device->pointwise_flops_per_ns;
    case REMAT_ARITHMETIC_FOREIGN:
        return foreign_ns(graph, kernel, device);
    case REMAT_ARITHMETIC_TRANSFER:
        return transfer_ns(graph, kernel, device);
    case REMAT_ARITHMETIC_SCATTER:
        return remat_device_is_gpu(device) ? scatter_ns(graph, kernel, (double)bytes, device) : 0;
    default:
        return (double)flops / device->pointwise_flops_per_ns;
    }
}

static uint64_t moved_bytes(const struct remat_graph *graph, const struct remat_kernel_info *kernel,
                            const struct remat_kernel_info *beside)
{
    bool stated = kernel->kind == REMAT_KERNEL_foreign && kernel->parameters[FOREIGN_BYTES] >= 0;
    return stated ? (uint64_t)kernel->parameters[FOREIGN_BYTES]
                  : value_bytes(graph, kernel, REMAT_NO_VALUE, beside);
}

static double roofline_ns(const struct remat_kernel_info *kernel, struct remat_load load,
                          const struct remat_device_description *device)
{
    bool foreign = kernel->kind == REMAT_KERNEL_foreign;
    double launches = foreign ? kernel->parameters[FOREIGN_LAUNCHES] : 1;
    if (foreign && kernel->parameters[FOREIGN_NS] >= 0)
        return kernel->parameters[FOREIGN_NS];
    return launches * device->launch_ns +
           (launches > 0 ? fmax(load.compute_ns, load.memory_ns) : 0);
}

/* Fills flops and moved bytes. */
static struct remat_load load_of(const struct remat_graph *graph,
                                 const struct remat_kernel_info *kernel,
                                 const struct remat_kernel_info *beside,
                                 const struct remat_device_description *device,
                                 struct remat_price *out)
{
    struct again again = done_again(graph, kernel);
    out->flops = kernel_flops(graph, kernel);
    out->moved_bytes = moved_bytes(graph, kernel, beside);
    return (struct remat_load){compute_ns(graph, kernel, out->flops, out->moved_bytes, device) +
                                   (double)again.flops / device->pointwise_flops_per_ns,
                               ((double)out->moved_bytes + (double)again.bytes) /
                                   device->memory_bytes_per_ns};
}

struct remat_load remat_price_load(const struct remat_graph *graph,
                                   const struct remat_kernel_info *kernel,
                                   const struct remat_device_description *device)
{
    return remat_price_load_beside(graph, kernel, NULL, device);
}

struct remat_load remat_price_load_beside(const struct remat_graph *graph,
                                          const struct remat_kernel_info *kernel,
                                          const struct remat_kernel_info *beside,
                                          const struct remat_device_description *device)
{
    struct remat_price price;
    return load_of(graph, kernel, beside, device, &price);
}

struct remat_price remat_price_kernel(const struct remat_graph *graph,
                                      const struct remat_kernel_info *kernel,
                                      const struct remat_device_description *device)
{
    struct remat_price price = {0};
    struct remat_load load = load_of(graph, kernel, NULL, device, &price);
    price.roofline_ns = roofline_ns(kernel, load, device);
    double ns = price.roofline_ns;
    if (device->profile)
        price.source = remat_profile_time(device->profile, device, graph, kernel, price.flops,
                                          price.moved_bytes, &ns);
    price.ns = remat_ns_ceil(ns);
    if (remat_kernel_kind_is_transfer(kernel->kind))
        price.slowdown_permille = link_of(graph, kernel, device)->slowdown_permille;
    if (remat_may_join_group(graph, kernel)) {
        double spared = fmin(link_of(graph, kernel, device)->latency_ns,
                             fmax(0, load.compute_ns - load.memory_ns));
        price.latency_ns = (uint64_t)(spared * ns / price.roofline_ns);
    }
    return price;
}

uint64_t remat_price_least_ns(const struct remat_price *price)
{
    uint64_t rest_ns = price->ns - price->latency_ns;
    double ns = (double)rest_ns * (1 + 1.0 / REMAT_GROUP_LATENCIES);
    return price->latency_ns && ns < (double)price->ns ? (uint64_t)ns : price->ns;
}

struct remat_price remat_price_variant(const struct remat_graph *graph,
                                       const struct remat_kernel_info *kernel,
                                       const struct remat_price *whole,
                                       const struct remat_device_description *device)
{
    struct remat_price price = remat_price_kernel(graph, kernel, device);
    if (!device->profile || kernel->kind != REMAT_KERNEL_fused || whole->roofline_ns <= 0)
        return price;
    double share = price.roofline_ns / whole->roofline_ns;
    price.ns = remat_ns_ceil((double)whole->ns * share);
    price.source = whole->source == REMAT_COST_MEASURED && share != 1 ? REMAT_COST_INTERPOLATED
                                                                      : whole->source;
    return price;
}

struct remat_price remat_price_variant_beside(const struct remat_graph *graph,
                                              const struct remat_kernel_info *kernel,
                                              const struct remat_kernel_info *beside,
                                              const struct remat_price *whole,
                                              const struct remat_device_description *device)
{
    if (!beside || !remat_price_shares(graph, kernel, beside))
        return remat_price_variant(graph, kernel, whole, device);
    struct remat_price price = {.source = whole->source};
    struct remat_load load = load_of(graph, kernel, beside, device, &price);
    bool profiled = device->profile && whole->roofline_ns > 0;
    double ratio = profiled ? (double)whole->ns / whole->roofline_ns : 1;
    price.roofline_ns = fmax(load.compute_ns, load.memory_ns);
    price.ns = remat_ns_ceil(price.roofline_ns * ratio);
    if (price.source == REMAT_COST_MEASURED)
        price.source = REMAT_COST_INTERPOLATED;
    return price;
}

struct remat_device_description
remat_price_variants_on(const struct remat_device_description *device,
                        const struct remat_price *whole)
{
    struct remat_device_description on = *device;
    if (!device->profile || whole->roofline_ns <= 0)
        return on;
    double ratio = BELOW * (double)whole->ns / whole->roofline_ns;
    on.profile = NULL;
    on.launch_ns *= ratio;
    on.memory_bytes_per_ns /= ratio;
    on.pointwise_flops_per_ns /= ratio;
    return on;
}

remat_status remat_price_check(remat_context *ctx, const struct remat_graph *graph,
                               const struct remat_device_description *device)
{
    for (uint32_t v = 0; v < graph->value_count; v++) {
        const struct remat_value_info *value = &graph->values[v];
        if (remat_dtype_is_float(value->dtype) && device->matmul_flops_per_ns[value->dtype] == 0)
            return remat_error(ctx, REMAT_ERROR_USAGE, "device \"%s\" has no %s, which \"%s\" is",
                               device->name, remat_dtype_name(value->dtype), value->name);
    }
    return REMAT_OK;
}

remat_status remat_price_check_mesh(remat_context *ctx, const struct remat_mesh *mesh,
                                    const struct remat_device_description *device)
{
    if (mesh->axis_count == 0 || device->machine_ranks)
        return REMAT_OK;
    return remat_error(ctx, REMAT_ERROR_USAGE,
                       "device \"%s\" describes no \"links\" between ranks, which a mesh needs",
                       device->name);
}

remat_status remat_price_check_values(remat_context *ctx, const struct remat_graph *graph)
{
    uint64_t total = 0, most = 0;
    const char *largest = "";
    for (uint32_t v = 0; v < graph->value_count; v++) {
        uint64_t bytes = remat_value_bytes(&graph->values[v]);
        total = remat_add_saturated(total, bytes);
        if (bytes > most)
            largest = graph->values[v].name;
        most = bytes > most ? bytes : most;
    }
    if (total <= REMAT_VALUES_BYTES_MAX)
        return REMAT_OK;
    return remat_error(ctx, REMAT_ERROR_INVALID,
                       "the values of the graph have more than 2^59 bytes together, %" PRIu64
                       " of them \"%.200s\"",
                       most, largest);
}

static const char *kernel_name(const struct remat_graph *graph,
                               const struct remat_kernel_info *kernel)
{
    return graph->values[graph->nodes[kernel->nodes[0].i].outputs[0].i].name;
}

remat_status remat_price_check_list(remat_context *ctx, const struct remat_graph *graph,
                                    const struct remat_kernel_list *kernels,
                                    const struct remat_price *prices,
                                    const struct remat_device_description *device)
{
    uint64_t ns = 0;
    remat_kernel_id longest = {0};
    for (remat_kernel_id k = {0}; k.i < kernels->count; k.i++) {
        if (prices[k.i].flops > INT64_MAX || prices[k.i].moved_bytes > INT64_MAX)
            return remat_error(ctx, REMAT_ERROR_INVALID,
                               "node \"%.200s\" has more than 2^63 flops or moved bytes",
                               kernel_name(graph, remat_kernel_at(kernels, k)));
        ns = remat_ns_add(ns, prices[k.i].ns);
        longest = prices[k.i].ns > prices[longest.i].ns ? k : longest;
    }
    if (ns < REMAT_SEGMENT_NS_MAX)
        return REMAT_OK;
    return remat_error(ctx, REMAT_ERROR_USAGE,
                       "device \"%.200s\": a pass over the graph takes 2^45 ns (9 h 46 min) or "
                       "more, most of it in node \"%.200s\"",
                       device->name, kernel_name(graph, remat_kernel_at(kernels, longest)));
}

/* The operands of a product have one dtype; a sum that it is added to comes first. */
static remat_dtype product_dtype(const struct remat_graph *graph,
                                 const struct remat_node_info *node)
{
    return graph->values[node->inputs[node->op == REMAT_OP_matmul_accumulate].i].dtype;
}

struct remat_model_work remat_price_model_work(const struct remat_graph *graph,
                                               const struct remat_device_description *device)
{
    struct remat_model_work work = {0};
    for (uint32_t n = 0; n < graph->node_count; n++) {
        const struct remat_node_info *node = &graph->nodes[n];
        uint64_t flops = remat_op_product_flops(graph, node);
        if (flops == 0)
            continue;
        work.flops = remat_add_saturated(work.flops, flops);
        work.ns += (double)flops / device->matmul_flops_per_ns[product_dtype(graph, node)];
    }
    return work;
}
