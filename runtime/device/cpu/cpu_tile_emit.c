/* SPDX-License-Identifier: Apache-2.0 */
/* Steps of each stage, and where every value lies while it is needed. */
#include "cpu_tile_builder.h"

#include <math.h>

/* --- refs --- */

static uint16_t new_slot(struct cpu_tile_builder *b)
{
    return (uint16_t)(b->tile->access_count + b->tile->stripe_count + b->slots++);
}

static uint16_t take_slot(struct cpu_tile_builder *b)
{
    return b->free_count ? b->free_slots[--b->free_count] : new_slot(b);
}

static void assign_homes(struct cpu_tile_builder *b)
{
    struct cpu_tile *tile = b->tile;
    for (uint32_t i = 0; i < b->count; i++) {
        struct node *node = &b->nodes[i];
        if (node->live && node->variation == BY_COLUMN && !is_store(node))
            node->home = (uint16_t)(tile->access_count + tile->stripe_count++);
    }
    for (uint32_t i = 0; i < b->count; i++)
        if (b->nodes[i].live && remat_opcode_is_column_reduction(b->nodes[i].opcode))
            b->nodes[i].ref = (uint16_t)(tile->access_count + tile->stripe_count++);
    for (uint32_t i = 0; i < b->count; i++) {
        struct node *node = &b->nodes[i];
        if (node->live && !is_store(node) && node->variation <= BY_ROW)
            node->home = new_slot(b);
    }
}

static uint16_t ref_of(const struct cpu_tile_builder *b, uint16_t reg)
{
    const struct node *node = &b->nodes[reg];
    return node->variation == BY_ELEMENT ? node->ref : node->home;
}

static struct cpu_tile_step make_step(const struct cpu_tile_builder *b, const struct node *node,
                                      uint16_t d)
{
    struct cpu_tile_step step = {.kind = STEP_OP, .d = d, .spread = node->wide};
    uint16_t *refs[3] = {&step.a, &step.b, &step.c};
    for (uint32_t k = 0; k < arity_of(node); k++)
        *refs[k] = ref_of(b, node->args[k]);
    if (is_load(node)) {
        step.kind = STEP_LOAD;
        step.access = node->access;
        step.u.load = b->tile->table->loads[b->tile->accesses[node->access].type];
    } else if (node->opcode == REMAT_INSTRUCTION_constant) {
        step.kind = STEP_CONSTANT;
        step.u.immediate = node->immediate;
    } else if (node->opcode == REMAT_INSTRUCTION_column) {
        step.kind = STEP_COLUMN;
    } else if (is_random(node)) {
        step.kind = STEP_RANDOM;
        step.access = node->access;
        step.u.site = (uint32_t)node->immediate;
    } else {
        step.u.op = b->tile->table->ops[node->opcode];
    }
    return step;
}

static bool contiguous(const struct access *access)
{
    return access->type == REMAT_F32 && access->column_stride == 1;
}

static bool streamed(const struct cpu_tile_builder *b, const struct access *access)
{
    return b->options->stream_bytes && contiguous(access) &&
           access->end_bytes - access->begin_bytes >= b->options->stream_bytes &&
           !cpu_tile_aliases_load(b, access);
}

static struct cpu_tile_step make_store(struct cpu_tile_builder *b, const struct node *node)
{
    const struct access *access = &b->tile->accesses[node->access];
    struct cpu_tile_step step = {.kind = STEP_OP, .d = node->access, .a = ref_of(b, node->args[0])};
    if (is_flag(node)) {
        step.u.op = b->tile->table->ops[REMAT_INSTRUCTION_flag];
    } else if (streamed(b, access)) {
        step.u.op = b->tile->table->ops[CPU_TILE_stream];
        b->tile->streams = true;
    } else if (contiguous(access)) {
        step.u.op = b->tile->table->ops[CPU_TILE_copy];
    } else {
        step.kind = STEP_STORE;
        step.access = node->access;
        step.u.store = b->tile->table->stores[access->type];
    }
    return step;
}

/* --- one stage --- */

static void mark_needed(struct cpu_tile_builder *b, uint32_t stage)
{
    bool last = stage + 1 == b->tile->stage_count;
    for (uint32_t i = 0; i < b->count; i++) {
        struct node *node = &b->nodes[i];
        node->copied = false;
        node->last_use = 0;
        node->written = UINT32_MAX;
        node->needed = node->live && is_reduction(node) && node->depth == stage + 1;
        if (is_store(node))
            node->needed = cpu_tile_by_element(b, node)
                               ? node->stage == stage
                               : b->tile->by_columns && last &&
                                     b->nodes[node->args[0]].class == REMAT_CLASS_ROW;
    }
    for (uint32_t i = b->count; i-- > 0;) {
        struct node *node = &b->nodes[i];
        if (!node->needed)
            continue;
        for (uint32_t k = 0; k < arity_of(node); k++) {
            struct node *arg = &b->nodes[node->args[k]];
            if (i > arg->last_use)
                arg->last_use = i;
            bool again =
                arg->variation == BY_ELEMENT || (b->tile->by_columns && arg->variation == BY_ROW);
            arg->needed |= again;
        }
    }
}

/* Results that can be computed where they are stored. */
static void place_stores(struct cpu_tile_builder *b)
{
    for (uint32_t i = 0; i < b->count; i++) {
        struct node *node = &b->nodes[i];
        if (!node->needed || !is_store(node) || is_flag(node) || !cpu_tile_by_element(b, node))
            continue;
        const struct access *access = &b->tile->accesses[node->access];
        struct node *arg = &b->nodes[node->args[0]];
        node->written = i;
        if (arg->variation == BY_ELEMENT && !is_load(arg) && arg->written == UINT32_MAX &&
            contiguous(access) && !streamed(b, access)) {
            arg->written = i;
            arg->ref = node->access;
            node->written = node->args[0];
            node->needed = false;
        }
    }
}

/* Loads whose memory is overwritten while they are still used are copied first. */
static remat_status copy_loads(struct cpu_tile_builder *b, struct cpu_tile_steps *steps)
{
    remat_status st = REMAT_OK;
    for (uint32_t i = 0; i < b->count; i++) {
        struct node *load = &b->nodes[i];
        if (!load->needed || !is_load(load) || load->variation != BY_ELEMENT)
            continue;
        const struct access *from = &b->tile->accesses[load->access];
        for (uint32_t k = 0; k < b->count; k++) {
            const struct node *store = &b->nodes[k];
            const struct access *to = &b->tile->accesses[store->access];
            load->copied |= is_store(store) && store->written < load->last_use &&
                            to->begin_bytes < from->end_bytes && from->begin_bytes < to->end_bytes;
        }
        if (load->copied) {
            load->ref = take_slot(b);
            REMAT_TRY_PUSH(b->arena, steps, make_step(b, load, load->ref));
        }
    }
fail:
    return st;
}

/* Returns to the pool the slots of arguments that instruction `index` uses last. */
static void release_arguments(struct cpu_tile_builder *b, uint32_t index)
{
    uint32_t first_slot = b->tile->access_count + b->tile->stripe_count;
    for (uint32_t k = 0; k < arity_of(&b->nodes[index]); k++) {
        struct node *arg = &b->nodes[b->nodes[index].args[k]];
        if (arg->variation == BY_ELEMENT && arg->last_use == index && arg->ref != NO_REF &&
            arg->ref >= first_slot) {
            b->free_slots[b->free_count++] = arg->ref;
            arg->last_use = UINT32_MAX; /* once, when an instruction names it twice */
        }
    }
}

static remat_status emit_reduction(struct cpu_tile_builder *b, struct stage *stage,
                                   struct node *node, uint32_t index)
{
    remat_status st = REMAT_OK;
    struct reduction reduction = {.total = node->home, .spread = node->wide};
    if (remat_opcode_is_column_reduction(node->opcode)) {
        reduction.lanes = node->ref;
    } else {
        bool maximum = node->opcode == REMAT_INSTRUCTION_row_max;
        reduction.lanes = new_slot(b);
        reduction.identity = maximum ? -INFINITY : 0.0f;
        reduction.combine =
            b->tile->table->ops[maximum ? REMAT_INSTRUCTION_maximum : REMAT_INSTRUCTION_add];
    }
    REMAT_TRY_PUSH(b->arena, &stage->reductions, reduction);
    REMAT_TRY_PUSH(b->arena, &stage->element, make_step(b, node, reduction.lanes));
    release_arguments(b, index);
fail:
    return st;
}

static remat_status emit_element(struct cpu_tile_builder *b, struct stage *stage, uint32_t index)
{
    remat_status st = REMAT_OK;
    struct node *node = &b->nodes[index];
    if (is_reduction(node))
        return emit_reduction(b, stage, node, index);
    if (is_store(node)) {
        REMAT_TRY_PUSH(b->arena, &stage->element, make_store(b, node));
        release_arguments(b, index);
        return REMAT_OK;
    }
    if (is_load(node) && contiguous(&b->tile->accesses[node->access])) {
        node->ref = node->access;
        return REMAT_OK;
    }
    struct cpu_tile_step step = make_step(b, node, 0);
    release_arguments(b, index);
    if (node->written == UINT32_MAX)
        node->ref = take_slot(b);
    step.d = node->ref;
    REMAT_TRY_PUSH(b->arena, &stage->element, step);
fail:
    return st;
}

/* Values by row and by column, and their stores, which no element waits for in this stage. */
static remat_status emit_others(struct cpu_tile_builder *b, uint32_t number, uint32_t index)
{
    remat_status st = REMAT_OK;
    struct node *node = &b->nodes[index];
    struct stage *stage = &b->tile->stages[number];
    bool last = number + 1 == b->tile->stage_count;
    enum remat_register_class stored =
        is_store(node) ? b->nodes[node->args[0]].class : REMAT_CLASS_NONE;
    if (!node->live || (is_reduction(node)))
        return REMAT_OK;
    if (stored == REMAT_CLASS_ROW && last) {
        REMAT_TRY_PUSH(b->arena, &b->tile->row_end, make_store(b, node));
    } else if (stored == REMAT_CLASS_COLUMN && node->stage == number) {
        REMAT_TRY_PUSH(b->arena, &stage->column, make_store(b, node));
    } else if (!is_store(node) && node->variation == BY_COLUMN && node->depth == number + 1) {
        REMAT_TRY_PUSH(b->arena, &stage->column, make_step(b, node, node->home));
    } else if (!is_store(node) && node->variation == BY_ROW &&
               (b->tile->by_columns ? node->needed : node->depth == number)) {
        REMAT_TRY_PUSH(b->arena, &stage->row, make_step(b, node, node->home));
    }
fail:
    return st;
}

static remat_status emit_stage(struct cpu_tile_builder *b, uint32_t number)
{
    remat_status st = REMAT_OK;
    struct stage *stage = &b->tile->stages[number];
    mark_needed(b, number);
    place_stores(b);
    REMAT_TRY(copy_loads(b, &stage->element));
    for (uint32_t i = 0; i < b->count; i++) {
        struct node *node = &b->nodes[i];
        REMAT_TRY(emit_others(b, number, i));
        if (node->needed && !node->copied && cpu_tile_by_element(b, node))
            REMAT_TRY(emit_element(b, stage, i));
    }
fail:
    return st;
}

remat_status cpu_tile_emit(struct cpu_tile_builder *b)
{
    remat_status st = REMAT_OK;
    REMAT_TRY_NEW(b->arena, b->tile->stages, b->tile->stage_count);
    REMAT_TRY_NEW(&b->scratch, b->free_slots, 4 * b->count + 4);
    assign_homes(b);
    for (uint32_t i = 0; i < b->count; i++) {
        const struct node *node = &b->nodes[i];
        if (node->live && !is_store(node) && node->variation == UNIFORM)
            REMAT_TRY_PUSH(b->arena, &b->tile->uniform, make_step(b, node, node->home));
    }
    for (uint32_t s = 0; s < b->tile->stage_count; s++)
        REMAT_TRY(emit_stage(b, s));
    b->tile->slot_count = b->slots;
fail:
    return st;
}
