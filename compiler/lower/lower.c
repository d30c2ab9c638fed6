/* Lowering is a change of tables: graph values with bytes become program values, kernels become
 * commands in schedule order, views become operands. */
#include "lower.h"

#include "decisions.h"
#include "ops.h"

struct lowerer {
    remat_context *ctx;
    struct remat_arena *arena;
    const struct remat_lowering *in;
    struct remat_program *out;
    uint32_t *value_of;      /* graph value -> program value */
    const char **root_name;  /* by graph value: the name that users know a root by */
    uint8_t *root_role;      /* by graph value */
    uint64_t *kernel_hashes; /* by program kernel */
    size_t kernel_capacity, operand_capacity, parameter_capacity;
    uint32_t init_count;
};

/* A root takes the name and role of the output or gradient that is a view of it. */
static remat_status name_roots(struct lowerer *l)
{
    remat_status st = REMAT_OK;
    const struct remat_graph *g = l->in->graph;
    REMAT_NEW(l->arena, l->root_name, g->value_count);
    REMAT_NEW(l->arena, l->root_role, g->value_count);
    for (uint32_t v = 0; v < g->value_count; v++) {
        l->root_name[v] = g->values[v].name;
        l->root_role[v] = g->values[v].role;
    }
    for (uint32_t v = 0; v < g->value_count; v++) {
        remat_value root = remat_storage_root(g, (remat_value){v});
        if (root.i != v && g->values[v].role == REMAT_ROLE_GRADIENT) {
            l->root_name[root.i] = g->values[v].name;
            l->root_role[root.i] = REMAT_ROLE_GRADIENT;
        }
    }
    for (uint32_t o = 0; o < g->output_count; o++) {
        remat_value root = remat_storage_root(g, g->outputs[o]);
        l->root_name[root.i] = g->values[g->outputs[o].i].name;
        l->root_role[root.i] = REMAT_ROLE_OUTPUT;
    }
fail:
    return st;
}

static const struct remat_scope *scope_of(const struct remat_graph *g, uint32_t scope)
{
    return &g->scopes[scope];
}

static remat_status lower_values(struct lowerer *l)
{
    remat_status st = REMAT_OK;
    const struct remat_graph *g = l->in->graph;
    REMAT_NEW(l->arena, l->value_of, g->value_count);
    REMAT_NEW(l->arena, l->out->values, g->value_count);
    for (uint32_t v = 0; v < g->value_count; v++) {
        const struct remat_value_info *info = &g->values[v];
        l->value_of[v] = REMAT_NONE;
        if (remat_is_none(l->in->lifespans->buffer_of[v]))
            continue;
        const struct remat_node_info *node =
            remat_is_none(info->node) ? NULL : &g->nodes[info->node];
        const struct remat_scope *scope = scope_of(g, node ? node->scope : 0);
        l->value_of[v] = l->out->value_count;
        l->out->values[l->out->value_count] = (struct remat_program_value){
            .name = l->root_name[v],
            .scope = scope->path,
            .layer = scope->layer,
            .instance = node ? node->instance : 0,
            .dtype = (uint8_t)info->dtype,
            .role = l->root_role[v],
            .phase = node ? node->phase : (uint8_t)REMAT_PHASE_INIT,
            .rank = (uint8_t)info->shape.rank,
            .bytes = remat_value_bytes(info),
            .buffer = l->in->lifespans->buffer_of[v],
        };
        memcpy(l->out->values[l->out->value_count++].shape, info->shape.dims,
               sizeof info->shape.dims);
    }
fail:
    return st;
}

static remat_status add_operand(struct lowerer *l, struct remat_operand operand)
{
    remat_status st = REMAT_OK;
    struct {
        struct remat_operand *items;
        size_t count, capacity;
    } list = {l->out->operands, l->out->operand_count, l->operand_capacity};
    REMAT_PUSH(l->arena, &list, operand);
    l->out->operands = list.items;
    l->out->operand_count = (uint32_t)list.count;
    l->operand_capacity = list.capacity;
fail:
    return st;
}

static remat_status add_parameter(struct lowerer *l, double parameter)
{
    remat_status st = REMAT_OK;
    struct {
        double *items;
        size_t count, capacity;
    } list = {l->out->parameters, l->out->parameter_count, l->parameter_capacity};
    REMAT_PUSH(l->arena, &list, parameter);
    l->out->parameters = list.items;
    l->out->parameter_count = (uint32_t)list.count;
    l->parameter_capacity = list.capacity;
fail:
    return st;
}

static uint64_t kernel_hash(uint32_t kind, const struct remat_kernel_program *program)
{
    uint64_t hash = remat_hash(&kind, sizeof kind, 0);
    return kind != REMAT_KERNEL_program
               ? hash
               : remat_hash(program->instructions,
                            program->instruction_count * sizeof *program->instructions, hash);
}

/* The composite ops that the kernel's nodes came from, in order, and the hash of its instructions.
 */
static remat_status kernel_key(struct lowerer *l, const struct remat_fused_kernel *kernel,
                               uint64_t hash, const char **out)
{
    remat_status st = REMAT_OK;
    struct remat_text text = {.arena = l->arena};
    uint16_t previous = UINT16_MAX;
    uint32_t group = REMAT_NONE;
    for (uint32_t n = 0; n < kernel->node_count; n++) {
        const struct remat_node_info *node = &l->in->graph->nodes[kernel->nodes[n].i];
        if (node->origin == previous && node->origin_group == group)
            continue;
        bool derived =
            node->phase == REMAT_PHASE_BACKWARD && !node->instance && node->op != node->origin;
        remat_text_append(&text, "%s%s%s", n ? "." : "", remat_op_info(node->origin)->name,
                          derived ? "_backward" : "");
        previous = node->origin;
        group = node->origin_group;
    }
    remat_text_append(&text, "#%08x", (unsigned)(hash ^ hash >> 32));
    if (text.failed)
        st = REMAT_ERROR_MEMORY;
    *out = text.items;
    return st;
}

/* Finds or adds the kernel; `source` is NULL for named kernels. */
static remat_status intern_kernel(struct lowerer *l, uint32_t kind,
                                  const struct remat_fused_kernel *source, uint32_t *out)
{
    remat_status st = REMAT_OK;
    bool program = kind == REMAT_KERNEL_program;
    uint64_t hash = kernel_hash(kind, program ? &source->program : NULL);
    for (uint32_t k = 0; k < l->out->kernel_count; k++)
        if (l->kernel_hashes[k] == hash) {
            *out = k;
            return REMAT_OK;
        }
    struct remat_kernel kernel = {.kind = kind, .key = remat_kernel_kind_name(kind)};
    if (program) {
        kernel.program = source->program;
        REMAT_TRY(kernel_key(l, source, hash, &kernel.key));
    }
    *out = l->out->kernel_count++;
    l->out->kernels[*out] = kernel;
    l->kernel_hashes[*out] = hash;
fail:
    return st;
}

static remat_status init_command(struct lowerer *l, uint32_t v)
{
    remat_status st = REMAT_OK;
    const struct remat_value_info *info = &l->in->graph->values[v];
    bool normal = info->initializer == REMAT_INIT_NORMAL;
    uint64_t site = remat_hash_string(info->name, 0);
    struct remat_command *command = &l->out->commands[l->out->command_count++];
    struct remat_operand operand = {
        .value = l->value_of[v],
        .previous = REMAT_NONE,
        .access = REMAT_ACCESS_WRITE,
        .dtype = (uint8_t)info->dtype,
        .rank = 1,
        .shape = {remat_shape_elements(&info->shape)},
        .strides = {1},
    };
    *command = (struct remat_command){
        .operand_begin = l->out->operand_count,
        .parameter_begin = l->out->parameter_count,
        .phase = REMAT_PHASE_INIT,
        .name = info->name,
        .scope = "",
        .layer = -1,
        .moved_bytes = remat_value_bytes(info),
        .live_bytes = l->in->lifespans->static_bytes,
    };
    REMAT_TRY(intern_kernel(l, normal ? REMAT_KERNEL_fill_normal : REMAT_KERNEL_fill, NULL,
                            &command->kernel));
    REMAT_TRY(add_operand(l, operand));
    REMAT_TRY(add_parameter(l, info->init_mean));
    if (normal) {
        REMAT_TRY(add_parameter(l, info->init_std));
        REMAT_TRY(add_parameter(l, (double)(site & UINT32_MAX)));
        REMAT_TRY(add_parameter(l, (double)(site >> 32)));
    }
    command->operand_end = l->out->operand_count;
    command->parameter_end = l->out->parameter_count;
fail:
    return st;
}

static struct remat_operand lower_operand(const struct lowerer *l,
                                          const struct remat_kernel_operand *from)
{
    struct remat_operand operand = {
        .value = l->value_of[from->value.i],
        .previous = remat_is_none(from->previous.i) ? REMAT_NONE : l->value_of[from->previous.i],
        .access = from->access,
        .dtype = (uint8_t)l->in->graph->values[from->value.i].dtype,
        .rank = (uint8_t)from->view.rank,
        .offset_elements = from->view.offset_elements,
    };
    memcpy(operand.shape, from->view.shape, from->view.rank * sizeof *operand.shape);
    memcpy(operand.strides, from->view.strides, from->view.rank * sizeof *operand.strides);
    return operand;
}

static remat_status step_command(struct lowerer *l, uint32_t position)
{
    remat_status st = REMAT_OK;
    uint32_t k = l->in->order[position];
    const struct remat_fused_kernel *kernel = &l->in->kernels->kernels[k];
    const struct remat_scope *scope = scope_of(l->in->graph, kernel->scope);
    struct remat_command *command = &l->out->commands[l->out->command_count++];
    *command = (struct remat_command){
        .operand_begin = l->out->operand_count,
        .parameter_begin = l->out->parameter_count,
        .phase = kernel->phase,
        .rank = (uint8_t)(kernel->kind == REMAT_KERNEL_program ? kernel->space.rank : 0),
        .name = l->root_name[kernel->name.i],
        .scope = scope->path,
        .layer = scope->layer,
        .instance = kernel->instance,
        .flops = l->in->prices[k].flops,
        .moved_bytes = l->in->prices[k].moved_bytes,
        .estimated_ns = l->in->prices[k].ns,
        .live_bytes = l->in->lifespans->live_bytes[position],
    };
    if (command->rank)
        memcpy(command->space, kernel->space.dims, sizeof command->space);
    REMAT_TRY(intern_kernel(l, kernel->kind, kernel, &command->kernel));
    for (uint32_t o = 0; o < kernel->operand_count; o++)
        REMAT_TRY(add_operand(l, lower_operand(l, &kernel->operands[o])));
    for (uint32_t p = 0; p < kernel->parameter_count; p++)
        REMAT_TRY(add_parameter(l, kernel->parameters[p]));
    command->operand_end = l->out->operand_count;
    command->parameter_end = l->out->parameter_count;
fail:
    return st;
}

static remat_status lower_commands(struct lowerer *l)
{
    remat_status st = REMAT_OK;
    const struct remat_graph *g = l->in->graph;
    uint32_t count = l->in->kernels->count;
    REMAT_NEW(l->arena, l->out->commands, (size_t)count + g->value_count);
    REMAT_NEW(l->arena, l->out->kernels, (size_t)count + 2);
    REMAT_NEW(l->arena, l->kernel_hashes, (size_t)count + 2);
    for (uint32_t v = 0; v < g->value_count; v++)
        if (remat_is_none(g->values[v].node) && g->values[v].initializer != REMAT_INIT_NONE)
            REMAT_TRY(init_command(l, v));
    l->init_count = l->out->command_count;
    for (uint32_t position = 0; position < count; position++)
        REMAT_TRY(step_command(l, position));
    REMAT_NEW(l->arena, l->out->segments, 2);
    l->out->segments[0] = (struct remat_segment){"init", 0, l->init_count};
    l->out->segments[1] = (struct remat_segment){"step", l->init_count, l->out->command_count};
    l->out->segment_count = 2;
    REMAT_NEW(l->arena, l->out->entries, 2);
    l->out->entries[0] = (struct remat_entry){"init", 0};
    l->out->entries[1] = (struct remat_entry){"train", 1};
    l->out->entry_count = 2;
fail:
    return st;
}

static remat_status lower_buffers(struct lowerer *l)
{
    remat_status st = REMAT_OK;
    const struct remat_lifespans *from = l->in->lifespans;
    REMAT_NEW(l->arena, l->out->buffers, from->buffer_count);
    l->out->buffer_count = from->buffer_count;
    for (uint32_t b = 0; b < from->buffer_count; b++) {
        const struct remat_placed_buffer *buffer = &from->buffers[b];
        l->out->buffers[b] = (struct remat_buffer){
            .offset_bytes = buffer->offset_bytes,
            .bytes = buffer->bytes,
            .begin = buffer->persistent ? 0 : buffer->begin + l->init_count,
            .end = buffer->persistent ? l->out->command_count : buffer->end + l->init_count,
            .persistent = buffer->persistent,
        };
        uint64_t end = buffer->offset_bytes + buffer->bytes;
        if (end > l->out->touched_bytes)
            l->out->touched_bytes = end;
    }
    l->out->static_bytes = from->static_bytes;
    l->out->peak_bytes = from->live_peak_bytes;
    l->out->peak_command = from->peak_position + l->init_count;
fail:
    return st;
}

/* Graph inputs and outputs can be reached by name. */
static remat_status lower_tensors(struct lowerer *l)
{
    remat_status st = REMAT_OK;
    const struct remat_graph *g = l->in->graph;
    REMAT_NEW(l->arena, l->out->tensors, (size_t)g->value_count + g->output_count);
    for (uint32_t v = 0; v < g->value_count; v++)
        if (remat_is_none(g->values[v].node))
            l->out->tensors[l->out->tensor_count++] = (struct remat_tensor){
                .name = g->values[v].name,
                .value = l->value_of[v],
                .initializer = g->values[v].initializer,
                .init_mean = g->values[v].init_mean,
                .init_std = g->values[v].init_std,
            };
    for (uint32_t o = 0; o < g->output_count; o++) {
        remat_value root = remat_storage_root(g, g->outputs[o]);
        l->out->tensors[l->out->tensor_count++] =
            (struct remat_tensor){.name = l->root_name[root.i], .value = l->value_of[root.i]};
    }
fail:
    return st;
}

remat_status remat_lower(remat_context *ctx, struct remat_arena *arena,
                         const struct remat_lowering *lowering, struct remat_program *out)
{
    remat_status st = REMAT_OK;
    struct lowerer l = {.ctx = ctx, .arena = arena, .in = lowering, .out = out};
    REMAT_TRY(name_roots(&l));
    REMAT_TRY(lower_values(&l));
    REMAT_TRY(lower_commands(&l));
    REMAT_TRY(lower_buffers(&l));
    REMAT_TRY(lower_tensors(&l));
    REMAT_TRY(remat_lower_decisions(arena, lowering, l.root_name, out));
    for (uint32_t k = 0; k < lowering->kernels->count; k++)
        out->step_ns += lowering->prices[k].ns;
fail:
    return st;
}
