/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a kernel's operands and, for a fused kernel, its instructions.
 *
 * Nodes come in graph order, so each argument is a register of the same kernel, an inline constant
 * or column index, or a load of another kernel's value. Stores come last. */
#include "kernel_body.h"

#include "analysis.h"
#include "builder.h"
#include "clone_round.h"
#include "fusions.h"

/* The latest views of operands, for reuse: a model has few different ones. */
#define REMAT_VIEWS_SHARED 8
struct remat_shared_views {
    const struct remat_view *items[REMAT_VIEWS_SHARED]; /* in the arena of kernels */
    uint32_t next;
};

struct remat_kernel_writer {
    struct remat_arena *arena;   /* of kernels */
    struct remat_arena *scratch; /* of one kernel while it is written, as the next two */
    const struct remat_graph *graph;
    const uint32_t *kernel_of;
    struct remat_shared_views views;
};

struct remat_kernel_writer *remat_kernel_writer_create(struct remat_arena *arena,
                                                       struct remat_arena *scratch)
{
    struct remat_kernel_writer *w;
    REMAT_NEW(arena, w, 1);
    *w = (struct remat_kernel_writer){.arena = arena, .scratch = scratch};
    return w;
}

struct binding { /* value -> register */
    remat_value value;
    uint16_t reg;
};

struct body {
    struct remat_kernel_writer *w;
    const struct remat_graph *graph; /* the writer's */
    const struct remat_kernel_info *kernel;
    struct REMAT_LIST(struct remat_instruction) instructions;
    struct REMAT_LIST(struct remat_kernel_operand) operands;
    struct REMAT_LIST(struct binding) bindings; /* few: searched linearly */
};

static void bind(struct body *b, remat_value v, uint16_t reg)
{
    REMAT_PUSH(b->w->scratch, &b->bindings, ((struct binding){v, reg}));
}

static uint16_t bound(const struct body *b, remat_value v)
{
    for (size_t i = b->bindings.count; i-- > 0;)
        if (b->bindings.items[i].value.i == v.i)
            return b->bindings.items[i].reg;
    return REMAT_NO_REGISTER;
}

static uint16_t emit(struct body *b, struct remat_instruction instruction)
{
    REMAT_PUSH(b->w->scratch, &b->instructions, instruction);
    return (uint16_t)(b->instructions.count - 1);
}

static struct remat_instruction instruction(uint16_t opcode)
{
    return (struct remat_instruction){
        .opcode = opcode, .args = {REMAT_NO_REGISTER, REMAT_NO_REGISTER, REMAT_NO_REGISTER}};
}

/* Of which value it is a view, the operand says. */
static const struct remat_view *share(struct body *b, struct remat_view view)
{
    struct remat_shared_views *shared = &b->w->views;
    view.root = REMAT_NO_VALUE;
    for (uint32_t k = 0; k < REMAT_VIEWS_SHARED && shared->items[k]; k++)
        if (memcmp(shared->items[k], &view, sizeof view) == 0)
            return shared->items[k];
    const struct remat_view *added = remat_copy(b->w->arena, &view, 1, sizeof view);
    shared->items[shared->next++ % REMAT_VIEWS_SHARED] = added;
    return added;
}

static uint16_t add_operand(struct body *b, remat_value v, uint8_t access, struct remat_view view)
{
    struct remat_kernel_operand operand = {
        .value = v,
        .previous = REMAT_NO_VALUE,
        .access = access,
        .bytes = remat_storage_bytes(&b->graph->values[v.i]),
        .view = share(b, view),
    };
    REMAT_PUSH(b->w->scratch, &b->operands, operand);
    return (uint16_t)(b->operands.count - 1);
}

/* An operand that no element of the space addresses. */
static uint16_t whole_operand(struct body *b, remat_value v, uint8_t access)
{
    struct remat_view view = remat_view_of(b->graph, v);
    return add_operand(b, view.root, access, view);
}

/* The view over the index space, to which the value broadcasts (right-aligned): repeated axes get
 * stride 0. */
static struct remat_view view_over_space(const struct body *b, remat_value v)
{
    const struct remat_shape *space = &b->kernel->space;
    struct remat_view view = remat_view_of(b->graph, v), out = view;
    uint32_t missing = space->rank - view.rank;
    assert(view.rank <= space->rank);
    out.rank = space->rank;
    for (uint32_t axis = 0; axis < space->rank; axis++) {
        int64_t length = axis < missing ? 1 : view.shape[axis - missing];
        assert(length == 1 || length == space->dims[axis]);
        bool repeats = axis < missing || length != space->dims[axis];
        out.shape[axis] = space->dims[axis];
        out.strides[axis] = repeats ? 0 : view.strides[axis - missing];
    }
    return out;
}

static uint16_t load(struct body *b, remat_value v)
{
    const struct remat_shape *space = &b->kernel->space;
    struct remat_view view = view_over_space(b, v);
    bool by_row = view.strides[view.rank - 1] == 0 && space->dims[space->rank - 1] != 1;
    struct remat_instruction i =
        instruction(by_row ? REMAT_INSTRUCTION_load_row : REMAT_INSTRUCTION_load);
    i.operand = add_operand(b, view.root, REMAT_ACCESS_READ, view);
    return emit(b, i);
}

static void node_instruction(struct body *b, const struct remat_node_info *node);

/* The register that holds `v`, made if need be. A view of a constant is the constant. */
static uint16_t argument(struct body *b, remat_value v)
{
    uint16_t reg = bound(b, v);
    if (reg != REMAT_NO_REGISTER)
        return reg;
    remat_value root = remat_storage_root(b->graph, v);
    remat_node n = remat_producer(b->graph, root);
    const struct remat_node_info *maker = remat_producer_info(b->graph, root);
    bool itself = maker && (remat_is_made_by_readers(maker) || !b->w->kernel_of ||
                            remat_is_none(b->w->kernel_of[n.i]));
    if (itself && root.i == v.i) {
        node_instruction(b, maker);
        return bound(b, v);
    }
    reg = itself && maker->op == REMAT_OP_constant ? argument(b, root) : load(b, v);
    bind(b, v, reg);
    return reg;
}

/* Its store rounds it, the one reader that fusion leaves it in its kernel. */
static bool is_column_sum(const struct body *b, remat_value v)
{
    const struct remat_node_info *node = remat_producer_info(b->graph, v);
    return node && bound(b, v) != REMAT_NO_REGISTER &&
           remat_op_has(node->op, REMAT_FACT_COLUMN_REDUCE);
}

/* Instructions that stand for a foreign node's: they read what it reads. */
static uint16_t foreign_result(struct body *b, const struct remat_node_info *node)
{
    uint16_t reg = node->input_count ? argument(b, node->inputs[0])
                                     : emit(b, instruction(REMAT_INSTRUCTION_column));
    if (node->input_count == 1) {
        struct remat_instruction one = instruction(REMAT_INSTRUCTION_neg);
        one.args[0] = reg;
        return emit(b, one);
    }
    for (uint32_t k = 1; k < node->input_count; k++) {
        struct remat_instruction two = instruction(REMAT_INSTRUCTION_add);
        two.args[0] = reg;
        two.args[1] = argument(b, node->inputs[k]);
        reg = emit(b, two);
    }
    return reg;
}

/* A new version, the f32 of a rounded value and a column sum to be rounded are in the register of
 * their input. */
static void node_instruction(struct body *b, const struct remat_node_info *node)
{
    remat_value out = node->outputs[0];
    remat_dtype dtype = b->graph->values[out.i].dtype;
    bool rounds = remat_dtype_is_rounded(dtype);
    struct remat_instruction i = instruction(remat_op_info(node->op)->executor);
    switch (node->op) {
    case REMAT_OP_constant:
    case REMAT_OP_column:
        i.immediate = (float)remat_node_float(node, "value", 0);
        bind(b, out, emit(b, i));
        return;
    case REMAT_OP_foreign_pointwise:
        bind(b, out, foreign_result(b, node));
        return;
    case REMAT_OP_assign:
        bind(b, out, argument(b, node->inputs[1]));
        if (node->input_count < 4)
            return;
        i = instruction(REMAT_INSTRUCTION_flag);
        i.args[0] = argument(b, node->inputs[3]);
        i.operand = whole_operand(b, node->inputs[2], REMAT_ACCESS_FLAG);
        emit(b, i);
        return;
    case REMAT_OP_random:
        i.immediate = (float)remat_node_int(node, "site", 0);
        i.operand = whole_operand(b, node->inputs[0], REMAT_ACCESS_READ);
        bind(b, out, emit(b, i));
        return;
    case REMAT_OP_cast:
        if (!rounds || is_column_sum(b, node->inputs[0])) {
            bind(b, out, argument(b, node->inputs[0]));
            return;
        }
        i.opcode = remat_dtype_rounding(dtype);
    }
    for (uint32_t a = 0; a < node->input_count; a++)
        i.args[a] = argument(b, node->inputs[a]);
    uint16_t reg = emit(b, i);
    if (node->op != REMAT_OP_cast && rounds) {
        struct remat_instruction round = instruction(remat_dtype_rounding(dtype));
        round.args[0] = reg;
        reg = emit(b, round);
    }
    bind(b, out, reg);
}

static void store(struct body *b, const struct remat_node_info *node)
{
    remat_value v = node->outputs[0];
    bool update = node->op == REMAT_OP_assign;
    struct remat_instruction i = instruction(REMAT_INSTRUCTION_store);
    i.args[0] = bound(b, v);
    i.operand =
        add_operand(b, v, update ? REMAT_ACCESS_UPDATE : REMAT_ACCESS_WRITE, view_over_space(b, v));
    if (update)
        b->operands.items[i.operand].previous = remat_storage_root(b->graph, node->inputs[0]);
    emit(b, i);
}

static void write_fused(struct remat_kernel_writer *w, const bool *stored,
                        struct remat_kernel_info *kernel)
{
    const struct remat_graph *graph = w->graph;
    struct body b = {.w = w, .graph = graph, .kernel = kernel};
    for (uint32_t n = 0; n < kernel->node_count; n++)
        node_instruction(&b, &graph->nodes[kernel->nodes[n].i]);
    for (uint32_t n = 0; n < kernel->node_count; n++) {
        const struct remat_node_info *node = &graph->nodes[kernel->nodes[n].i];
        if (stored[n] || node->op == REMAT_OP_assign)
            store(&b, node);
    }
    kernel->operands =
        remat_copy(w->arena, b.operands.items, b.operands.count, sizeof *b.operands.items);
    kernel->operand_count = (uint32_t)b.operands.count;
    kernel->body = (struct remat_kernel_body){
        .instruction_count = (uint32_t)b.instructions.count,
        .instructions = remat_copy(w->arena, b.instructions.items, b.instructions.count,
                                   sizeof *b.instructions.items),
        .operand_count = kernel->operand_count,
    };
}

/* A built-in kernel's parameters are attributes of its op, by the names of its row. */
static void find_parameters(struct remat_arena *arena, const struct remat_node_info *node,
                            struct remat_kernel_info *kernel)
{
    const char *names = remat_kernel_row(kernel->kind)->parameters, *name;
    char key[32];
    int length;
    uint32_t count = 0;
    while (remat_kernel_row_name(names, count, &length))
        count++;
    REMAT_NEW(arena, kernel->parameters, count);
    while ((name = remat_kernel_row_name(names, kernel->parameter_count, &length))) {
        snprintf(key, sizeof key, "%.*s", length, name);
        kernel->parameters[kernel->parameter_count++] =
            strcmp(key, "accumulate") == 0 ? remat_op_has(node->op, REMAT_FACT_IN_PLACE)
                                           : remat_node_number(node, key);
    }
}

static void swap_last_axes(struct remat_view *view)
{
    uint32_t a = view->rank - 2, b = view->rank - 1;
    int64_t length = view->shape[a], stride = view->strides[a];
    view->shape[a] = view->shape[b], view->strides[a] = view->strides[b];
    view->shape[b] = length, view->strides[b] = stride;
}

/* A product's operand has all its leading axes, those of length 1 with stride 0. */
static void repeat_leading_axes(struct remat_view *view, const struct remat_shape *product)
{
    for (uint32_t d = 0; d + 2 < view->rank; d++)
        if (view->shape[d] == 1 && product->dims[d] > 1) {
            view->shape[d] = product->dims[d];
            view->strides[d] = 0;
        }
}

static void write_builtin(struct remat_kernel_writer *w, struct remat_kernel_info *kernel)
{
    const struct remat_graph *graph = w->graph;
    struct body b = {.w = w, .graph = graph};
    const struct remat_node_info *node = &graph->nodes[kernel->nodes[0].i];
    bool in_place = remat_op_has(node->op, REMAT_FACT_IN_PLACE);
    bool multiplies = remat_op_info(node->op)->executor == REMAT_KERNEL_matmul;
    uint32_t count = remat_op_inputs_before_results(node);
    b.operands.capacity = (size_t)node->input_count + node->output_count;
    REMAT_NEW_UNINITIALIZED(w->arena, b.operands.items, b.operands.capacity); /* all of them */
    for (uint32_t i = in_place; i < count; i++) {
        struct remat_view view = remat_view_of(graph, node->inputs[i]);
        if (multiplies) {
            if (remat_node_int(node, i > in_place ? "transpose_b" : "transpose_a", 0))
                swap_last_axes(&view);
            repeat_leading_axes(&view, &graph->values[node->outputs[0].i].shape);
        }
        add_operand(&b, view.root, REMAT_ACCESS_READ, view);
    }
    for (uint32_t o = 0; o < node->output_count; o++)
        whole_operand(&b, node->outputs[o], in_place ? REMAT_ACCESS_UPDATE : REMAT_ACCESS_WRITE);
    if (in_place)
        b.operands.items[b.operands.count - 1].previous =
            remat_storage_root(graph, node->inputs[0]);
    for (uint32_t i = count; i < node->input_count; i++)
        whole_operand(&b, node->inputs[i], REMAT_ACCESS_READ);
    find_parameters(w->arena, node, kernel);
    kernel->operands = b.operands.items;
    kernel->operand_count = (uint32_t)b.operands.count;
    kernel->absent = remat_op_kernel_absent(node);
}

/* --- sharing memory between an operand that is read and one that is written ---
 *
 * Executors run a program in stages, one per depth of row reductions, over tiles of a row; an
 * element that a later stage needs is recomputed from its loads. So the written operand may lie
 * over the read one when (a) each instruction that depends on the load, other than through the
 * stored register, comes no later (by stage, then position) than the instruction that makes the
 * stored register, and (b) nothing that depends on the load is needed per element in a later stage.
 */

struct stages { /* of each instruction: its own, and the latest that computes it per element */
    uint16_t own[REMAT_FUSED_INSTRUCTIONS_MAX], needed[REMAT_FUSED_INSTRUCTIONS_MAX];
};

static void find_stages(const struct remat_kernel_body *p, struct stages *out)
{
    uint16_t *stages = out->own, *needed = out->needed;
    assert(p->instruction_count <= REMAT_FUSED_INSTRUCTIONS_MAX);
    for (uint32_t i = 0; i < p->instruction_count; i++) {
        const struct remat_instruction *in = &p->instructions[i];
        stages[i] = 0;
        for (uint32_t a = 0; a < remat_opcode_arity(in->opcode); a++) {
            uint16_t arg = in->args[a];
            uint16_t stage = (uint16_t)(stages[arg] +
                                        remat_opcode_is_row_reduction(p->instructions[arg].opcode));
            stages[i] = stage > stages[i] ? stage : stages[i];
        }
        needed[i] = stages[i];
    }
    for (uint32_t i = p->instruction_count; i-- > 0;)
        for (uint32_t a = 0; a < remat_opcode_arity(p->instructions[i].opcode); a++) {
            uint16_t arg = p->instructions[i].args[a];
            if (!remat_opcode_is_reduction(p->instructions[arg].opcode) && needed[arg] < needed[i])
                needed[arg] = needed[i];
        }
}

static bool depends(const struct remat_kernel_body *p, uint32_t i, const uint8_t *reached,
                    uint16_t except)
{
    for (uint32_t a = 0; a < remat_opcode_arity(p->instructions[i].opcode); a++) {
        uint16_t arg = p->instructions[i].args[a];
        if (reached[arg] && arg != except &&
            !remat_opcode_is_reduction(p->instructions[arg].opcode))
            return true;
    }
    return false;
}

static bool read_before_written(const struct remat_kernel_body *p, const struct stages *stages,
                                uint32_t read, uint32_t written)
{
    uint8_t reached[REMAT_FUSED_INSTRUCTIONS_MAX], aside[REMAT_FUSED_INSTRUCTIONS_MAX];
    uint16_t def = REMAT_NO_REGISTER;
    for (uint32_t i = 0; i < p->instruction_count; i++)
        if (p->instructions[i].opcode == REMAT_INSTRUCTION_store &&
            p->instructions[i].operand == written)
            def = p->instructions[i].args[0];
    if (def == REMAT_NO_REGISTER)
        return false;
    for (uint32_t i = 0; i < p->instruction_count; i++) {
        uint16_t opcode = p->instructions[i].opcode;
        if (opcode == REMAT_INSTRUCTION_load_row && p->instructions[i].operand == read)
            return false;
        bool loads = opcode == REMAT_INSTRUCTION_load && p->instructions[i].operand == read;
        reached[i] = loads || depends(p, i, reached, REMAT_NO_REGISTER);
        aside[i] = loads || depends(p, i, aside, def);
        if (reached[i] && !remat_opcode_is_reduction(opcode) &&
            stages->needed[i] > stages->own[def])
            return false;
        if (aside[i] && !loads && i > def && stages->own[i] == stages->own[def])
            return false;
    }
    return true;
}

/* Row-major over all of its root, from element 0 on, without gaps but those of the root's pitch. */
static bool is_whole(const struct remat_view *view, const struct remat_value_info *root)
{
    int64_t stride = 1, row = root->pitch ? root->shape.dims[root->shape.rank - 1] : 0;
    for (uint32_t axis = view->rank; axis-- > 0;) {
        if (view->shape[axis] != 1 && view->strides[axis] != stride)
            return false;
        stride *= view->shape[axis];
        stride = stride == row ? root->pitch : stride;
    }
    return view->offset_elements == 0;
}

/* Memory may be shared but for when it is read and written. */
static bool are_alike(const struct remat_graph *graph, const struct remat_kernel_info *kernel,
                      uint32_t read, uint32_t written)
{
    const struct remat_kernel_operand *in = &kernel->operands[read];
    const struct remat_kernel_operand *out = &kernel->operands[written];
    if (kernel->kind != REMAT_KERNEL_fused || in->access != REMAT_ACCESS_READ ||
        out->access != REMAT_ACCESS_WRITE || in->bytes != out->bytes ||
        graph->values[in->value.i].dtype != graph->values[out->value.i].dtype)
        return false;
    if (!is_whole(in->view, &graph->values[in->value.i]) ||
        !is_whole(out->view, &graph->values[out->value.i]))
        return false;
    for (uint32_t o = 0; o < kernel->operand_count; o++)
        if (o != read && kernel->operands[o].value.i == in->value.i)
            return false; /* also read in another way */
    return true;
}

/* Whoever compiles foreign nodes may loop over a row twice, to reduce it and to write it, and then
 * nothing is written in place. */
static bool loops_again(const struct remat_graph *graph, const struct remat_kernel_info *kernel)
{
    bool foreign = false, reduces = false;
    for (uint32_t k = 0; k < kernel->node_count; k++) {
        uint16_t op = graph->nodes[kernel->nodes[k].i].op;
        foreign |= remat_op_has(op, REMAT_FACT_FOREIGN);
        reduces |= remat_op_has(op, REMAT_FACT_ROW_REDUCE);
    }
    return foreign && reduces;
}

static void list_shared(struct remat_arena *arena, const struct remat_graph *graph,
                        struct remat_kernel_info *kernel)
{
    struct REMAT_LIST(struct remat_shared_operands) list = {0};
    struct stages stages;
    bool found = false;
    for (uint16_t w = 0; w < kernel->operand_count; w++)
        for (uint16_t r = 0; r < kernel->operand_count; r++) {
            if (!are_alike(graph, kernel, r, w))
                continue;
            if (!found)
                find_stages(&kernel->body, &stages);
            found = true;
            if (read_before_written(&kernel->body, &stages, r, w))
                REMAT_PUSH(arena, &list, ((struct remat_shared_operands){r, w}));
        }
    kernel->shared = list.items;
    kernel->shared_count = (uint32_t)list.count;
}

/* --- identity --- */

/* Opcodes enter by name, so it outlives changes of their table. */
uint64_t remat_kernel_hash(uint32_t kind, const struct remat_kernel_body *body)
{
    uint64_t hash = remat_hash_string(remat_kernel_row(kind)->name, 0);
    for (uint32_t i = 0; body && i < body->instruction_count; i++) {
        const struct remat_instruction *instruction = &body->instructions[i];
        hash = remat_hash_string(remat_opcode_name(instruction->opcode), hash);
        hash = remat_hash(&instruction->operand, sizeof instruction->operand, hash);
        hash = remat_hash(instruction->args, sizeof instruction->args, hash);
        hash = remat_hash(&instruction->immediate, sizeof instruction->immediate, hash);
    }
    return hash;
}

uint32_t remat_kernel_key_hash(const struct remat_kernel_info *kernel)
{
    uint64_t hash = remat_kernel_hash(kernel->kind, &kernel->body);
    return (uint32_t)(hash ^ hash >> 32);
}

/* --- the whole kernel --- */

static bool is_inlined(const struct remat_node_info *node)
{
    uint32_t round = remat_clone_round(node->instance);
    return round && node->instance == remat_clone_instance(round, true);
}

/* The first node that is not inlined for others in the kernel. */
static const struct remat_node_info *name_of(const struct remat_graph *g, const remat_node *nodes,
                                             uint32_t count)
{
    uint32_t n = 0;
    while (n + 1 < count && is_inlined(&g->nodes[nodes[n].i]))
        n++;
    return &g->nodes[nodes[n].i];
}

/* The largest of the nodes' index spaces; the others are over its rows. */
static const struct remat_shape *space_of(const struct remat_graph *g, const remat_node *nodes,
                                          uint32_t count)
{
    const struct remat_shape *largest = remat_fuse_space(g, &g->nodes[nodes[0].i]);
    for (uint32_t n = 1; n < count; n++) {
        const struct remat_shape *space = remat_fuse_space(g, &g->nodes[nodes[n].i]);
        if (remat_shape_elements(space) > remat_shape_elements(largest))
            largest = space;
    }
    return largest;
}

struct remat_kernel_info remat_kernel_write(struct remat_kernel_writer *w,
                                            const struct remat_graph *graph,
                                            const uint32_t *kernel_of, remat_node *nodes,
                                            uint32_t count, const bool *stored)
{
    assert(count > 0);
    w->graph = graph;
    w->kernel_of = kernel_of;
    const struct remat_node_info *first = name_of(graph, nodes, count);
    bool builtin = remat_op_has(first->op, REMAT_FACT_BUILTIN);
    struct remat_kernel_info kernel = {
        .kind = builtin ? remat_op_info(first->op)->executor : (uint32_t)REMAT_KERNEL_fused,
        .phase = first->phase,
        .instance = first->instance,
        .scope = first->scope,
        .nodes = nodes,
        .node_count = count,
        .name = first->outputs[0],
    };
    if (builtin) {
        write_builtin(w, &kernel);
    } else {
        kernel.space = *space_of(graph, nodes, count);
        write_fused(w, stored, &kernel);
        remat_arena_reset(w->scratch);
        if (!loops_again(graph, &kernel))
            list_shared(w->arena, graph, &kernel);
    }
    return kernel;
}

struct remat_kernel_info remat_kernel_part(struct remat_arena *arena,
                                           const struct remat_graph *graph,
                                           const uint32_t *kernel_of,
                                           const struct remat_kernel_info *whole, remat_node *nodes,
                                           uint32_t count, const bool *stored)
{
    struct remat_kernel_writer w = {
        .arena = arena, .scratch = arena, .graph = graph, .kernel_of = kernel_of};
    struct remat_kernel_info out = *whole;
    out.nodes = nodes;
    out.node_count = count;
    write_fused(&w, stored, &out);
    return out;
}
