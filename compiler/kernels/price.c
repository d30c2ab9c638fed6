#include "price.h"

#include <math.h>

#include "ops.h"
#include "profile.h"
#include "roofline.h"

#define BELOW (1 - 1e-9) /* what rounding in double cannot make up for */

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

/* Of each instruction as often as it has a value, of a reduction as often as it has an argument.
 * `needed`, by instruction: those that count; NULL: all. */
static uint64_t program_flops(const struct remat_fused_kernel *kernel, const bool *needed)
{
    enum remat_register_class classes[REMAT_FUSED_INSTRUCTIONS_MAX];
    uint64_t flops = 0;
    for (uint32_t i = 0; i < kernel->program.instruction_count; i++) {
        const struct remat_instruction *in = &kernel->program.instructions[i];
        bool reduces = remat_opcode_is_row_reduction(in->opcode) ||
                       remat_opcode_is_column_reduction(in->opcode);
        classes[i] = remat_instruction_class(in, classes);
        if (!needed || needed[i])
            flops += remat_opcode_flops(in->opcode) *
                     class_extent(reduces ? classes[in->args[0]] : classes[i], &kernel->space);
    }
    return flops;
}

uint64_t remat_price_part_flops(const struct remat_fused_kernel *kernel, uint32_t value)
{
    const struct remat_kernel_program *program = &kernel->program;
    bool needed[REMAT_FUSED_INSTRUCTIONS_MAX] = {0}, stored[REMAT_FUSED_INSTRUCTIONS_MAX] = {0};
    for (uint32_t i = 0; i < program->instruction_count; i++) {
        const struct remat_instruction *in = &program->instructions[i];
        if (in->opcode != REMAT_INSTRUCTION_store)
            continue;
        bool wanted = kernel->operands[in->operand].value.i == value;
        *(wanted ? &needed[in->args[0]] : &stored[in->args[0]]) = true;
    }
    for (uint32_t i = program->instruction_count; i-- > 0;)
        for (uint32_t a = 0; needed[i] && a < remat_opcode_arity(program->instructions[i].opcode);
             a++)
            needed[program->instructions[i].args[a]] |= !stored[program->instructions[i].args[a]];
    return program_flops(kernel, needed);
}

static uint64_t kernel_flops(const struct remat_graph *graph,
                             const struct remat_fused_kernel *kernel)
{
    if (kernel->kind == REMAT_KERNEL_program)
        return program_flops(kernel, NULL);
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
            bytes *= (uint64_t)o->view->shape[axis];
    return bytes;
}

/* A table of embeddings is touched where the ids point: as often as there are rows of values; a
 * batch where its part is. An update is read and written; a kernel program reads the old version,
 * if it does, as an operand of its own. */
uint64_t remat_price_operand_bytes(const struct remat_graph *graph,
                                   const struct remat_fused_kernel *kernel, uint32_t operand)
{
    const struct remat_kernel_operand *o = &kernel->operands[operand];
    bool update = o->access == REMAT_ACCESS_UPDATE, program = kernel->kind == REMAT_KERNEL_program;
    bool gather = kernel->kind == REMAT_KERNEL_embedding && operand == 0;
    bool accumulate = kernel->kind == REMAT_KERNEL_embedding_backward && update;
    bool part = kernel->kind == REMAT_KERNEL_batch_slice && operand == 0;
    uint64_t bytes = view_bytes(graph, o), touched = UINT64_MAX;
    if (gather || accumulate || part)
        touched = view_bytes(graph, &kernel->operands[accumulate ? 0 : 2]);
    return (touched < bytes ? touched : bytes) * (update && !program ? 2 : 1);
}

/* Values are told apart by where their views begin; of several views the largest counts. */
static uint64_t moved_bytes(const struct remat_graph *graph,
                            const struct remat_fused_kernel *kernel)
{
    uint64_t total = 0;
    for (uint32_t i = 0; i < kernel->operand_count; i++) {
        const struct remat_kernel_operand *o = &kernel->operands[i];
        uint64_t most = 0;
        bool seen = false;
        for (uint32_t j = 0; j < kernel->operand_count; j++) {
            const struct remat_kernel_operand *other = &kernel->operands[j];
            if (other->value.i != o->value.i ||
                other->view->offset_elements != o->view->offset_elements)
                continue;
            uint64_t bytes = remat_price_operand_bytes(graph, kernel, j);
            most = bytes > most ? bytes : most;
            seen |= j < i;
        }
        total += seen ? 0 : most;
    }
    return total;
}

static double matmul_ns(const struct remat_graph *graph, const struct remat_fused_kernel *kernel,
                        const struct remat_device_description *device)
{
    const struct remat_view *a = kernel->operands[0].view, *c = kernel->operands[2].view;
    struct remat_product product = {
        .batch = 1,
        .m = (double)c->shape[c->rank - 2],
        .n = (double)c->shape[c->rank - 1],
        .k = (double)a->shape[a->rank - 1],
        .dtype = graph->values[kernel->operands[0].value.i].dtype,
    };
    for (uint32_t axis = 0; axis + 2 < c->rank; axis++)
        product.batch *= (double)c->shape[axis];
    return remat_roofline_product_ns(&product, device);
}

static double attention_ns(const struct remat_graph *graph, const struct remat_fused_kernel *kernel,
                           uint64_t flops, const struct remat_device_description *device)
{
    bool backward = kernel->kind == REMAT_KERNEL_attention_backward;
    const struct remat_kernel_operand *q = &kernel->operands[backward ? 1 : 0], *k = q + 1;
    bool causal = kernel->parameters[1] != 0;
    double queries = (double)q->view->shape[1], keys = (double)k->view->shape[1];
    return remat_roofline_attention_ns(
        (double)flops, causal ? keys - (queries - 1) / 2 : keys, (double)q->view->shape[3],
        graph->values[q->value.i].dtype,
        backward ? &device->attention_backward : &device->attention_forward, device);
}

static double compute_ns(const struct remat_graph *graph, const struct remat_fused_kernel *kernel,
                         uint64_t flops, const struct remat_device_description *device)
{
    switch (kernel->kind) {
    case REMAT_KERNEL_matmul:
        return matmul_ns(graph, kernel, device);
    case REMAT_KERNEL_attention:
    case REMAT_KERNEL_attention_backward:
        return attention_ns(graph, kernel, flops, device);
    default:
        return (double)flops / device->pointwise_flops_per_ns;
    }
}

struct remat_price remat_price_kernel(const struct remat_graph *graph,
                                      const struct remat_fused_kernel *kernel,
                                      const struct remat_device_description *device)
{
    struct remat_price price = {.flops = kernel_flops(graph, kernel),
                                .moved_bytes = moved_bytes(graph, kernel)};
    double compute = compute_ns(graph, kernel, price.flops, device);
    double memory = (double)price.moved_bytes / device->memory_bytes_per_ns;
    double ns = device->launch_ns + fmax(compute, memory);
    if (device->profile)
        price.source = remat_profile_time(device->profile, device, graph, kernel, price.flops,
                                          price.moved_bytes, &ns);
    price.ns = (uint64_t)ceil(ns);
    return price;
}

static struct remat_device_description on_line(const struct remat_device_description *device,
                                               struct remat_profile_line line)
{
    struct remat_device_description on = *device;
    on.profile = NULL;
    on.launch_ns = line.launch_ns;
    on.memory_bytes_per_ns /= line.ratio;
    on.pointwise_flops_per_ns /= line.ratio;
    return on;
}

struct remat_device_description remat_price_floor(const struct remat_device_description *device)
{
    if (!device->profile)
        return *device;
    struct remat_profile_line line = remat_profile_floor(device->profile);
    line.launch_ns *= BELOW;
    line.ratio *= BELOW;
    return on_line(device, line);
}

struct remat_device_description remat_price_typical(const struct remat_device_description *device)
{
    return device->profile ? on_line(device, remat_profile_typical(device->profile)) : *device;
}

remat_status remat_price_check(remat_context *ctx, const struct remat_graph *graph,
                               const struct remat_device_description *device)
{
    for (uint32_t v = 0; v < graph->value_count; v++) {
        const struct remat_value_info *value = &graph->values[v];
        if (value->dtype != REMAT_I32 && device->matmul_flops_per_ns[value->dtype] == 0)
            return remat_error(ctx, REMAT_ERROR_USAGE, "device \"%s\" has no %s, which \"%s\" is",
                               device->name, remat_dtype_name(value->dtype), value->name);
    }
    return REMAT_OK;
}
