/* SPDX-License-Identifier: Apache-2.0 */
#include "divider.h"

/* A constant, i32 [1]. */
static remat_value entry(struct divider *d, uint32_t number)
{
    if (!remat_is_none(d->entries[number].i))
        return d->entries[number];
    const char *name = REMAT_FORMAT(d->r.arena, "mesh." REMAT_DIVIDE_AXIS ".%u", number);
    const struct remat_shape one = {1, {1}};
    remat_value x = remat_add_input(&d->b, name, REMAT_I32, one, REMAT_ROLE_CONSTANT);
    d->r.to->values[x.i].initializer = REMAT_INIT_CONSTANT;
    d->r.to->values[x.i].init_mean = number;
    return d->entries[number] = x;
}

static remat_value part_number(struct divider *d, remat_value x, int64_t count, remat_value y)
{
    const struct remat_attribute attribute = remat_attribute_int("count", count);
    const remat_value inputs[] = {x, y};
    return remat_build(&d->b, REMAT_OP_part_number, inputs, 2, &attribute, 1, NULL);
}

/* The state with which an entry's heads of this rank draw what they do in the whole: they are a
 * microbatch of one entry, of which each rank has one part. */
static remat_value make_state(struct divider *d, remat_value rng, int64_t entries, uint32_t number)
{
    const struct remat_attribute axis = remat_attribute_int("axis", 0);
    remat_value part = remat_build_slice(&d->b, rng, 0, 3, 4);
    if (entries > 1)
        part = part_number(d, part, entries, entry(d, number));
    part = part_number(d, part, d->ranks, remat_divide_coordinate(d));
    const remat_value words[] = {remat_build_slice(&d->b, rng, 0, 0, 3), part};
    return remat_build(&d->b, REMAT_OP_concat, words, 2, &axis, 1, NULL);
}

/* The first layer makes it for all, so it has the top scope. */
static remat_value random_state(struct divider *d, remat_value rng, int64_t entries,
                                uint32_t number)
{
    const remat_scope_id scope = d->b.scope;
    remat_value *state = &d->states[entries][number];
    if (d->rng.i != rng.i)
        memset(d->states, 0xff, sizeof d->states);
    d->rng = rng;
    if (!remat_is_none(state->i))
        return *state;
    d->b.scope = REMAT_TOP;
    *state = make_state(d, rng, entries, number);
    d->b.scope = scope;
    return *state;
}

/* The logs of sums, which only the backward pass reads, are never joined. */
static remat_value entry_of(struct divider *d, remat_value old, remat_value x, int64_t entries,
                            uint32_t number)
{
    if (d->parts[old.i])
        return d->parts[old.i][number];
    return entries > 1 ? remat_build_slice(&d->b, x, 0, number, number + 1) : x;
}

/* A node that belongs to the op of the old one. */
static void build_part(struct divider *d, const struct remat_node_info *node, uint16_t op,
                       const remat_value *inputs, uint32_t input_count, remat_value *outputs)
{
    struct remat_builder *b = &d->b;
    const struct remat_attribute axis = remat_attribute_int("axis", 0);
    bool joins = op == REMAT_OP_concat;
    b->keep_origin = true;
    b->origin = node->origin;
    b->origin_group = remat_rebuild_group(&d->r, node->origin_group);
    remat_build(b, op, inputs, input_count, joins ? &axis : node->attributes,
                joins ? 1 : node->attribute_count, outputs);
    b->keep_origin = false;
}

/* The entries of a batch one by one. */
void remat_divide_attention(struct divider *d, const struct remat_node_info *node,
                            const remat_value *inputs)
{
    struct remat_builder *b = &d->b;
    int64_t entries = b->graph->values[inputs[0].i].shape.dims[0];
    uint32_t rng = remat_node_operand(node, "rng"), count = remat_op_info(node->op)->inputs_max;
    remat_value own[9], made[3], *parts[3];
    for (uint32_t k = 0; k < node->output_count; k++)
        parts[k] = remat_array(d->r.arena, (size_t)entries, sizeof **parts);
    for (uint32_t e = 0; e < entries; e++) {
        b->prefix =
            REMAT_FORMAT(d->r.arena, "%s.entry_%u", d->r.from->values[node->outputs[0].i].name, e);
        b->counter = 0;
        for (uint32_t k = 0; k < count; k++)
            own[k] = REMAT_NO_VALUE;
        for (uint32_t k = 0; k < node->input_count; k++)
            own[remat_operand_number(node->absent, k)] =
                k == rng ? random_state(d, inputs[k], entries, e)
                         : entry_of(d, node->inputs[k], inputs[k], entries, e);
        b->name = b->prefix;
        build_part(d, node, node->op, own, count, made);
        for (uint32_t k = 0; k < node->output_count; k++)
            parts[k][e] = made[k];
    }
    if (node->op == REMAT_OP_attention)
        d->parts[node->outputs[1].i] = parts[1];
    for (uint32_t k = 0; k < node->output_count; k++) {
        remat_value joined = parts[k][0];
        if (entries > 1)
            build_part(d, node, REMAT_OP_concat, parts[k], (uint32_t)entries, &joined);
        remat_divide_stand_for(d, node->outputs[k], joined);
    }
}

/* Runs one by one: they are what several microbatches of one run draw. */
void remat_divide_random(struct divider *d, const struct remat_node_info *node, remat_value rng)
{
    struct remat_builder *b = &d->b;
    remat_value y = node->outputs[0], made[REMAT_LAYOUT_ENTRIES_MAX];
    struct remat_layout layout = d->layouts.made[y.i];
    struct remat_shape part = remat_divide_shape(d, y);
    int64_t runs = remat_shape_elements(&part) / layout.run;
    b->prefix = REMAT_FORMAT(d->r.arena, "%s.own", d->r.from->values[y.i].name);
    b->counter = 0;
    for (uint32_t e = 0; e < runs; e++) {
        const struct remat_attribute attributes[] = {
            remat_attribute_int("site", remat_node_int(node, "site", 0)),
            runs > 1 ? remat_attribute_ints("shape", &layout.run, 1)
                     : remat_attribute_ints("shape", part.dims, part.rank)};
        remat_value state = random_state(d, rng, runs, e);
        made[e] = remat_build(b, REMAT_OP_random, &state, 1, attributes, 2, NULL);
    }
    remat_value all = runs > 1 ? remat_divide_concat(d, made, (uint32_t)runs) : made[0];
    remat_divide_stand_for(d, y, remat_build_reshape(b, all, part.dims, part.rank));
}
