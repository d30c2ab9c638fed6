/* SPDX-License-Identifier: Apache-2.0 */
/* Lowering is a change of tables: persistent tensors and graph values with bytes become program
 * values, kernels become commands in schedule order, views become operands. */
#include "lower.h"

#include "kernel_body.h"

/* Of the program. */
REMAT_INDEX(kernel_id);
REMAT_INDEX(value_id);
REMAT_INDEX(buffer_id);

struct lowerer {
    struct remat_arena *arena;
    const struct remat_lowering *in;
    struct remat_program *out;
    struct remat_arena *scratch;
    struct REMAT_LIST(struct remat_kernel) kernels;
    struct REMAT_LIST(uint64_t) kernel_hashes; /* by program kernel */
    /* of the segment in hand */
    const struct remat_step_segment *segment;
    remat_command_id first; /* of its commands */
    value_id *value_of;     /* by graph value */
    buffer_id *buffer_of;   /* by placed buffer */
    const char **root_name; /* by graph value: the name that users know a root by */
    uint8_t *root_role;     /* by graph value */
};

/* --- persistent tensors: the first values and buffers, with the same indices --- */

static void lower_whole(const struct remat_value_info *info, struct remat_program_value *out)
{
    const struct remat_rank_part *part = info->part;
    out->block_axis = part ? part->block_axis : REMAT_NONE;
    if (!part)
        return;
    out->whole_rank = (uint8_t)part->whole.rank;
    memcpy(out->whole, part->whole.dims, sizeof out->whole);
    out->part_axis = part->axis;
    out->part_run = (uint64_t)part->run;
    out->part_tokens = part->tokens;
}

static void lower_statics(struct lowerer *l)
{
    const struct remat_persistent *persistent = l->in->persistent;
    for (uint32_t i = 0; i < persistent->count; i++) {
        const struct remat_persistent_tensor *item = &persistent->items[i];
        const struct remat_value_info *info = item->info;
        l->out->buffers[i] = (struct remat_buffer){
            .offset_bytes = item->offset_bytes, .bytes = item->bytes, .persistent = true};
        l->out->values[i] = (struct remat_program_value){
            .name = info->name,
            .scope = "",
            .layer = -1,
            .dtype = (uint8_t)info->dtype,
            .role = remat_is_none(info->node.i) ? info->role : (uint8_t)REMAT_ROLE_OUTPUT,
            .phase = REMAT_PHASE_INIT,
            .rank = (uint8_t)info->shape.rank,
            .bytes = item->bytes,
            .buffer = i,
        };
        memcpy(l->out->values[i].shape, info->shape.dims, sizeof info->shape.dims);
        lower_whole(info, &l->out->values[i]);
        l->out->tensors[i] = (struct remat_tensor){
            .name = info->name,
            .value = i,
            .initializer = info->initializer,
            .init_mean = info->init_mean,
            .init_std = info->init_std,
            .index_bound = info->indices.bound,
            .index_ignored = info->indices.ignored,
            .unpadded_rows = info->unpadded_rows,
            .data = info->data,
            .data_bytes = info->data ? item->bytes : 0,
        };
    }
    l->out->buffer_count = l->out->value_count = l->out->tensor_count = persistent->count;
    l->out->static_bytes = persistent->total_bytes;
    l->out->workspace_bytes = persistent->workspace_bytes;
}

/* --- values --- */

/* The name of what is kept goes when the search does. */
static void name_outputs(struct lowerer *l, const struct remat_node_info *node)
{
    for (uint32_t o = 0; o < node->output_count; o++) {
        remat_value v = node->outputs[o];
        const struct remat_value_info *info = &l->segment->arranged.graph->values[v.i];
        l->root_name[v.i] = info->keep ? REMAT_FORMAT(l->arena, "%s", info->name) : info->name;
        l->root_role[v.i] = info->role;
    }
}

/* A root takes the name and role of the output or gradient that is a view of it; a new version of a
 * tensor that the host reads, the name that the host knows. */
static void name_roots(struct lowerer *l)
{
    const struct remat_graph *g = l->segment->arranged.graph;
    const struct remat_nodes *nodes = &l->segment->arranged.nodes;
    REMAT_NEW_UNINITIALIZED(l->scratch, l->root_name, g->value_count);
    REMAT_NEW_UNINITIALIZED(l->scratch, l->root_role, g->value_count);
    for (size_t n = 0; n < nodes->count; n++)
        name_outputs(l, &g->nodes[nodes->items[n].i]);
    for (size_t n = 0; n < nodes->count; n++) {
        remat_value v = g->nodes[nodes->items[n].i].outputs[0]; /* of a view the only one */
        remat_value root = remat_storage_root(g, v);
        if (root.i != v.i && g->values[v.i].role == REMAT_ROLE_GRADIENT) {
            l->root_name[root.i] = g->values[v.i].name;
            l->root_role[root.i] = REMAT_ROLE_GRADIENT;
        }
    }
    for (uint32_t u = 0; u < g->update_count; u++) {
        const struct remat_value_info *state = &g->values[g->updates[u].state.i];
        if (state->role == REMAT_ROLE_OUTPUT || state->role == REMAT_ROLE_GRADIENT)
            l->root_name[g->updates[u].value.i] = state->name;
    }
    for (uint32_t o = 0; o < g->output_count; o++) {
        remat_value root = remat_storage_root(g, g->outputs[o]);
        l->root_name[root.i] = g->values[g->outputs[o].i].name;
        l->root_role[root.i] = REMAT_ROLE_OUTPUT;
    }
}

static void lower_value(struct lowerer *l, remat_value v)
{
    const struct remat_graph *g = l->segment->arranged.graph;
    const struct remat_value_info *info = &g->values[v.i];
    const struct remat_node_info *node = &g->nodes[info->node.i];
    const struct remat_scope *scope = &g->scopes[node->scope.i];
    struct remat_program_value *out = &l->out->values[l->out->value_count];
    *out = (struct remat_program_value){
        .name = l->root_name[v.i],
        .scope = scope->path,
        .layer = scope->layer,
        .instance = node->instance,
        .dtype = (uint8_t)info->dtype,
        .role = l->root_role[v.i],
        .phase = node->phase,
        .rank = (uint8_t)info->shape.rank,
        .bytes = remat_value_bytes(info),
        .buffer = l->buffer_of[l->segment->arranged.lifespans.buffer_of[v.i].i].i,
    };
    memcpy(out->shape, info->shape.dims, sizeof out->shape);
    lower_whole(info, out);
    l->value_of[v.i].i = l->out->value_count++;
}

/* Graph inputs are values of the program already; others become some if they have bytes. */
static void lower_values(struct lowerer *l)
{
    const struct remat_arrangement *in = &l->segment->arranged;
    const struct remat_graph *g = in->graph;
    REMAT_NEW_UNINITIALIZED(l->scratch, l->value_of, g->value_count);
    for (remat_value v = {0}; v.i < g->value_count; v.i++)
        l->value_of[v.i].i = remat_is_none(remat_producer(g, v).i)
                                 ? remat_persistent_find(l->in->persistent, g->values[v.i].name).i
                                 : REMAT_NONE;
    for (size_t n = 0; n < in->nodes.count; n++) {
        const struct remat_node_info *node = &g->nodes[in->nodes.items[n].i];
        for (uint32_t o = 0; o < node->output_count; o++)
            if (!remat_is_none(in->lifespans.buffer_of[node->outputs[o].i].i))
                lower_value(l, node->outputs[o]);
    }
}

/* --- commands --- */

/* The composite ops that the kernel's nodes came from, in order, and the hash of its instructions.
 */
static const char *kernel_key(struct lowerer *l, const struct remat_kernel_info *kernel)
{
    struct remat_text text = {.arena = l->arena};
    uint16_t previous = UINT16_MAX;
    uint32_t group = REMAT_NONE;
    for (uint32_t n = 0; n < kernel->node_count; n++) {
        const struct remat_node_info *node = &l->segment->arranged.graph->nodes[kernel->nodes[n].i];
        if (node->origin == previous && node->origin_group == group)
            continue;
        bool derived =
            node->phase == REMAT_PHASE_BACKWARD && !node->instance && node->op != node->origin;
        remat_text_append(&text, "%s%s%s", n ? "." : "", remat_op_info(node->origin)->name,
                          derived ? "_backward" : "");
        previous = node->origin;
        group = node->origin_group;
    }
    remat_text_append(&text, "#%08x", remat_kernel_key_hash(kernel));
    remat_text_complete(&text);
    return text.items;
}

/* Finds or adds the kernel; `source` is NULL for built-in kernels. */
static kernel_id intern_kernel(struct lowerer *l, uint32_t kind,
                               const struct remat_kernel_info *source)
{
    bool fused = kind == REMAT_KERNEL_fused;
    uint64_t hash = remat_kernel_hash(kind, fused ? &source->body : NULL);
    for (kernel_id k = {0}; k.i < l->kernels.count; k.i++)
        if (l->kernel_hashes.items[k.i] == hash)
            return k;
    struct remat_kernel kernel = {.kind = kind, .key = remat_kernel_row(kind)->name};
    if (fused) {
        kernel.body = source->body;
        kernel.body.instructions =
            remat_copy(l->arena, source->body.instructions, source->body.instruction_count,
                       sizeof *source->body.instructions);
        kernel.key = kernel_key(l, source);
    }
    REMAT_PUSH(l->scratch, &l->kernel_hashes, hash);
    REMAT_PUSH(l->arena, &l->kernels, kernel);
    return (kernel_id){(uint32_t)l->kernels.count - 1};
}

/* A master copy gets the random values of its parameter. */
static uint64_t site_of(const struct remat_value_info *info)
{
    size_t length = strlen(info->name), suffix = strlen("." REMAT_MASTER_SUFFIX);
    bool master = info->role == REMAT_ROLE_OPTIMIZER_STATE && length > suffix &&
                  strcmp(info->name + length - suffix, "." REMAT_MASTER_SUFFIX) == 0;
    return remat_hash(info->name, length - (master ? suffix : 0), 0);
}

static struct remat_operand static_operand(const struct lowerer *l, remat_tensor_id tensor,
                                           uint8_t access)
{
    const struct remat_value_info *info = l->in->persistent->items[tensor.i].info;
    return (struct remat_operand){
        .value = tensor.i,
        .previous = REMAT_NONE,
        .access = access,
        .dtype = (uint8_t)info->dtype,
        .rank = 1,
        .shape = {remat_shape_elements(&info->shape)},
        .strides = {1},
    };
}

/* Of the whole. */
static int64_t unpadded_elements(const struct remat_value_info *info)
{
    const struct remat_shape *whole = info->part ? &info->part->whole : &info->shape;
    int64_t elements = remat_shape_elements(whole);
    return info->unpadded_rows ? elements / whole->dims[0] * info->unpadded_rows : elements;
}

static void add_static(struct lowerer *l, remat_tensor_id tensor, uint8_t access)
{
    l->out->operands[l->out->operand_count++] = static_operand(l, tensor, access);
}

static void add_coordinate(struct lowerer *l, const struct remat_mesh_axis *axis)
{
    add_static(l, (remat_tensor_id){axis->tensor}, REMAT_ACCESS_READ);
}

/* A part is filled as its place in the whole says; padding is 0. */
static void init_command(struct lowerer *l, remat_tensor_id tensor)
{
    const struct remat_value_info *info = l->in->persistent->items[tensor.i].info;
    bool normal = info->initializer == REMAT_INIT_NORMAL, deals = normal && info->part;
    bool ends = deals || (normal && info->unpadded_rows);
    uint64_t site = site_of(info);
    struct remat_command *command = &l->out->commands[l->out->command_count++];
    *command = (struct remat_command){
        .operand_begin = l->out->operand_count,
        .parameter_begin = l->out->parameter_count,
        .phase = REMAT_PHASE_INIT,
        .name = info->name,
        .scope = "",
        .layer = -1,
        .moved_bytes = remat_value_bytes(info),
        .live_bytes = l->in->persistent->total_bytes,
    };
    uint32_t kind = ends     ? REMAT_KERNEL_fill_normal_part
                    : normal ? REMAT_KERNEL_fill_normal
                             : REMAT_KERNEL_fill;
    command->kernel = intern_kernel(l, kind, NULL).i;
    add_static(l, tensor, REMAT_ACCESS_WRITE);
    const struct remat_mesh_axis *axis = deals ? &l->out->mesh[info->part->axis] : NULL;
    if (axis)
        add_coordinate(l, axis);
    if (axis && info->part->block_axis != REMAT_NONE)
        add_coordinate(l, &l->out->mesh[info->part->block_axis]);
    const double parameters[] = {
        info->init_mean,
        info->init_std,
        (double)(site & UINT32_MAX),
        (double)(site >> 32),
        (double)unpadded_elements(info),
        (double)(axis ? info->part->run : remat_shape_elements(&info->shape)),
        axis ? axis->size : 1};
    for (uint32_t p = 0; p < (ends ? 7 : normal ? 4 : 1); p++)
        l->out->parameters[l->out->parameter_count++] = parameters[p];
    command->operand_end = l->out->operand_count;
    command->parameter_end = l->out->parameter_count;
}

static struct remat_operand lower_operand(const struct lowerer *l,
                                          const struct remat_kernel_operand *from)
{
    struct remat_operand operand = {
        .value = l->value_of[from->value.i].i,
        .previous = remat_is_none(from->previous.i) ? REMAT_NONE : l->value_of[from->previous.i].i,
        .access = from->access,
        .dtype = (uint8_t)l->segment->arranged.graph->values[from->value.i].dtype,
        .rank = (uint8_t)from->view->rank,
        .offset_elements = from->view->offset_elements,
    };
    memcpy(operand.shape, from->view->shape, from->view->rank * sizeof *operand.shape);
    memcpy(operand.strides, from->view->strides, from->view->rank * sizeof *operand.strides);
    return operand;
}

static void lower_kernel(struct lowerer *l, uint32_t position)
{
    remat_kernel_id k = l->segment->arranged.order[position];
    const struct remat_kernel_info *kernel = remat_kernel_at(&l->segment->arranged.kernels, k);
    const struct remat_scope *scope = &l->segment->arranged.graph->scopes[kernel->scope.i];
    const struct remat_price *price = &l->segment->arranged.prices[k.i];
    struct remat_command *command = &l->out->commands[l->out->command_count++];
    *command = (struct remat_command){
        .operand_begin = l->out->operand_count,
        .parameter_begin = l->out->parameter_count,
        .phase = kernel->phase,
        .rank = (uint8_t)(kernel->kind == REMAT_KERNEL_fused ? kernel->space.rank : 0),
        .name = l->root_name[kernel->name.i],
        .scope = scope->path,
        .layer = scope->layer,
        .instance = kernel->instance,
        .flops = price->flops,
        .moved_bytes = price->moved_bytes,
        .estimated_ns = price->ns,
        .cost_source = price->source,
        .live_bytes = l->segment->arranged.lifespans.live_bytes[position],
    };
    if (command->rank)
        memcpy(command->space, kernel->space.dims, sizeof command->space);
    command->kernel = intern_kernel(l, kernel->kind, kernel).i;
    command->absent = kernel->absent;
    if (remat_kernel_kind_is_transfer(kernel->kind))
        command->complete_before =
            l->first.i + (l->segment->arranged.complete_before
                              ? l->segment->arranged.complete_before[position]
                              : position + 1);
    command->continues_group =
        l->segment->arranged.continues && l->segment->arranged.continues[position];
    command->slowdown_permille = price->slowdown_permille;
    for (uint32_t o = 0; o < kernel->operand_count; o++)
        l->out->operands[l->out->operand_count++] = lower_operand(l, &kernel->operands[o]);
    for (uint32_t p = 0; p < kernel->parameter_count; p++)
        l->out->parameters[l->out->parameter_count++] = kernel->parameters[p];
    command->operand_end = l->out->operand_count;
    command->parameter_end = l->out->parameter_count;
}

/* --- segments --- */

static void add_segment(struct lowerer *l, const char *name, remat_command_id begin)
{
    l->out->segments[l->out->segment_count++] =
        (struct remat_segment){name, begin.i, l->out->command_count};
}

/* Segment, call and entry point 0 are init's. */
static void lower_scripts(struct lowerer *l)
{
    const struct remat_step *step = l->in->step;
    struct remat_program *out = l->out;
    out->calls[out->call_count++] = (struct remat_call){0, 1, 0};
    out->entries[out->entry_count++] = (struct remat_entry){"init", 0, 1};
    for (size_t c = 0; c < step->calls.count; c++) {
        struct remat_call call = step->calls.items[c];
        call.segment++;
        out->calls[out->call_count++] = call;
    }
    for (size_t e = 0; e < step->entries.count; e++) {
        struct remat_entry entry = step->entries.items[e];
        out->entries[out->entry_count++] =
            (struct remat_entry){entry.name, 1 + entry.call_begin, 1 + entry.call_end};
    }
}

static void lower_init(struct lowerer *l)
{
    const struct remat_persistent *persistent = l->in->persistent;
    for (remat_tensor_id t = {0}; t.i < persistent->count; t.i++)
        if (persistent->items[t.i].info->initializer != REMAT_INIT_NONE)
            init_command(l, t);
    add_segment(l, "init", (remat_command_id){0});
}

static void lower_buffers(struct lowerer *l)
{
    const struct remat_lifespans *from = &l->segment->arranged.lifespans;
    REMAT_NEW_UNINITIALIZED(l->scratch, l->buffer_of, from->buffer_count);
    for (uint32_t b = 0; b < from->buffer_count; b++) {
        const struct remat_placed_buffer *buffer = &from->buffers[b];
        if (!remat_is_none(buffer->persistent.i)) {
            l->buffer_of[b].i = buffer->persistent.i;
            continue;
        }
        l->buffer_of[b].i = l->out->buffer_count;
        l->out->buffers[l->out->buffer_count++] = (struct remat_buffer){
            .offset_bytes = buffer->offset_bytes,
            .bytes = buffer->bytes,
            .begin = buffer->begin + l->first.i,
            .end = buffer->end + l->first.i,
        };
    }
}

static void lower_segment(struct lowerer *l, const struct remat_step_segment *segment)
{
    const struct remat_arrangement *a = &segment->arranged;
    l->segment = segment;
    l->first.i = l->out->segments[0].command_end + a->lifespans.first_point;
    assert(l->first.i == l->out->command_count);
    name_roots(l);
    lower_buffers(l);
    lower_values(l);
    for (uint32_t position = 0; position < a->kernels.count; position++)
        lower_kernel(l, position);
    add_segment(l, segment->name, l->first);
    if (segment->decided)
        remat_lower_decisions(l->arena, l->scratch, l->in, l->first, l->root_name, l->out);
    if (a->lifespans.live_peak_bytes > l->out->peak_bytes) {
        l->out->peak_bytes = a->lifespans.live_peak_bytes;
        l->out->peak_command = l->first.i + a->lifespans.peak_position;
    }
}

/* Now that the number of commands is known. */
static void finish_buffers(struct lowerer *l)
{
    for (uint32_t b = 0; b < l->out->buffer_count; b++) {
        struct remat_buffer *buffer = &l->out->buffers[b];
        if (buffer->persistent)
            buffer->end = l->out->command_count;
        uint64_t end = buffer->offset_bytes + buffer->bytes;
        if (end > l->out->touched_bytes)
            l->out->touched_bytes = end;
    }
}

/* An init command has a tensor, at most two coordinates and at most seven parameters. */
static void reserve_tables(struct lowerer *l)
{
    size_t tensors = l->in->persistent->count, values = tensors, buffers = tensors;
    size_t commands = tensors, operands = 3 * tensors, parameters = 7 * tensors;
    const struct remat_step *step = l->in->step;
    for (size_t s = 0; s < step->segments.count; s++) {
        const struct remat_arrangement *a = &step->segments.items[s].arranged;
        buffers += a->lifespans.buffer_count;
        commands += a->kernels.count;
        for (remat_kernel_id k = {0}; k.i < a->kernels.count; k.i++) {
            const struct remat_kernel_info *kernel = remat_kernel_at(&a->kernels, k);
            operands += kernel->operand_count;
            values += kernel->operand_count;
            parameters += kernel->parameter_count;
        }
    }
    REMAT_NEW_UNINITIALIZED(l->arena, l->out->values, values);
    REMAT_NEW_UNINITIALIZED(l->arena, l->out->buffers, buffers);
    REMAT_NEW_UNINITIALIZED(l->arena, l->out->tensors, tensors);
    REMAT_NEW_UNINITIALIZED(l->arena, l->out->commands, commands);
    REMAT_NEW_UNINITIALIZED(l->arena, l->out->operands, operands);
    REMAT_NEW_UNINITIALIZED(l->arena, l->out->parameters, parameters);
    REMAT_NEW(l->arena, l->out->segments, step->segments.count + 1);
    REMAT_NEW(l->arena, l->out->entries, step->entries.count + 1);
    REMAT_NEW(l->arena, l->out->calls, step->calls.count + 1);
}

static void lower_mesh(struct lowerer *l)
{
    const struct remat_mesh *mesh = &remat_step_decided(l->in->step)->graph->mesh;
    REMAT_NEW(l->arena, l->out->mesh, mesh->axis_count);
    for (uint32_t k = 0; k < mesh->axis_count; k++) {
        const char *name = REMAT_FORMAT(l->arena, REMAT_COORDINATE_PREFIX "%s", mesh->axes[k].name);
        remat_tensor_id coordinate = remat_persistent_find(l->in->persistent, name);
        l->out->mesh[l->out->mesh_count++] =
            (struct remat_mesh_axis){mesh->axes[k].name, mesh->axes[k].size, coordinate.i};
    }
}

/* With one microbatch a tensor of that name is the model's. */
static void lower_number(struct lowerer *l)
{
    bool several = remat_step_microbatches(l->in->step) > 1;
    l->out->number_tensor =
        several ? remat_persistent_find(l->in->persistent, REMAT_NUMBER_NAME).i : REMAT_NONE;
    for (uint32_t k = 0; several && k < l->out->mesh_count; k++)
        assert(l->out->mesh[k].tensor != l->out->number_tensor);
}

void remat_lower(struct remat_arena *arena, const struct remat_lowering *lowering,
                 struct remat_program *out)
{
    assert(lowering->decision->value_count ==
           remat_step_decided(lowering->step)->graph->value_count);
    struct lowerer l = {
        .arena = arena, .in = lowering, .out = out, .scratch = remat_scratch_open(arena->ctx)};
    reserve_tables(&l);
    lower_statics(&l);
    lower_mesh(&l);
    lower_number(&l);
    lower_init(&l);
    for (size_t s = 0; s < lowering->step->segments.count; s++)
        lower_segment(&l, &lowering->step->segments.items[s]);
    lower_scripts(&l);
    finish_buffers(&l);
    out->kernels = l.kernels.items;
    out->kernel_count = (uint32_t)l.kernels.count;
    remat_scratch_close(l.scratch);
    const struct remat_arrangement *decided = &remat_step_decided(lowering->step)->arranged;
    const struct remat_step_time time = {.ns = decided->step_ns};
    out->step_ns = remat_step_sum(lowering->step, &time).ns;
    out->depth = decided->depth;
}
