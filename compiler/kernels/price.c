#include "price.h"

#include <math.h>

#include "ops.h"

static uint64_t program_flops(const struct remat_fused_kernel *kernel)
{
    uint64_t elements = (uint64_t)remat_shape_elements(&kernel->space), flops = 0;
    for (uint32_t i = 0; i < kernel->program.instruction_count; i++)
        flops += remat_opcode_flops(kernel->program.instructions[i].opcode) * elements;
    return flops;
}

static uint64_t kernel_flops(const struct remat_graph *graph,
                             const struct remat_fused_kernel *kernel)
{
    if (kernel->kind == REMAT_KERNEL_program)
        return program_flops(kernel);
    const struct remat_node_info *node = &graph->nodes[kernel->nodes[0].i];
    const struct remat_op_info *op = remat_op_info(node->op);
    return op->flops ? op->flops(graph, node) : 0;
}

/* Bytes that a view touches once. */
static uint64_t view_bytes(const struct remat_graph *graph, const struct remat_kernel_operand *o)
{
    uint64_t bytes = remat_dtype_bytes(graph->values[o->value.i].dtype);
    for (uint32_t axis = 0; axis < o->view.rank; axis++)
        if (o->view.strides[axis] != 0)
            bytes *= (uint64_t)o->view.shape[axis];
    return bytes;
}

/* A table of embeddings is touched where the ids point: as often as there are rows of values; a
 * batch where its part is. */
static uint64_t touched_bytes(const struct remat_graph *graph,
                              const struct remat_fused_kernel *kernel, uint32_t operand)
{
    bool gather = kernel->kind == REMAT_KERNEL_embedding && operand == 0;
    bool accumulate = kernel->kind == REMAT_KERNEL_embedding_backward &&
                      kernel->operands[operand].access == REMAT_ACCESS_UPDATE;
    bool part = kernel->kind == REMAT_KERNEL_batch_slice && operand == 0;
    if (!gather && !accumulate && !part)
        return UINT64_MAX;
    return view_bytes(graph, &kernel->operands[accumulate ? 0 : 2]);
}

static uint64_t moved_bytes(const struct remat_graph *graph,
                            const struct remat_fused_kernel *kernel)
{
    uint64_t total = 0;
    for (uint32_t i = 0; i < kernel->operand_count; i++) {
        const struct remat_kernel_operand *o = &kernel->operands[i];
        bool seen = false;
        for (uint32_t j = 0; j < i && !seen; j++)
            seen = kernel->operands[j].value.i == o->value.i &&
                   kernel->operands[j].view.offset_elements == o->view.offset_elements;
        uint64_t bytes = view_bytes(graph, o), touched = touched_bytes(graph, kernel, i);
        if (!seen)
            total +=
                (touched < bytes ? touched : bytes) * (o->access == REMAT_ACCESS_UPDATE ? 2 : 1);
    }
    return total;
}

static double flops_per_ns(uint32_t kind, const struct remat_device_description *device)
{
    switch (kind) {
    case REMAT_KERNEL_matmul:
        return device->matmul_flops_per_ns;
    case REMAT_KERNEL_attention:
    case REMAT_KERNEL_attention_backward:
        return device->attention_flops_per_ns;
    default:
        return device->pointwise_flops_per_ns;
    }
}

struct remat_price remat_price_kernel(const struct remat_graph *graph,
                                      const struct remat_fused_kernel *kernel,
                                      const struct remat_device_description *device)
{
    struct remat_price price = {.flops = kernel_flops(graph, kernel),
                                .moved_bytes = moved_bytes(graph, kernel)};
    double compute = (double)price.flops / flops_per_ns(kernel->kind, device);
    double memory = (double)price.moved_bytes / device->memory_bytes_per_ns;
    price.ns = (uint64_t)llround(device->launch_ns + fmax(compute, memory));
    return price;
}
