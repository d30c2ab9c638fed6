/* SPDX-License-Identifier: Apache-2.0 */
/* A layer's places, an op and its index in the layer each, are known in two ways: of linear, matmul
 * and attention from the commands of the forward pass, of other ops from the records of decisions.
 *
 * PyTorch replays every operator of a checkpoint that is not saved, up to the last one whose
 * outputs the backward pass reads; the plan recomputes only those that it needs. So a product is
 * saved unless the plan recomputes it, even where the plan has a later value instead, such
 * as its sum with the layer's input. After the last value that the backward pass needs nothing is
 * saved or replayed, even where the plan recomputes the layer's output: here it is saved, as the
 * next checkpoint's input. But PyTorch needs dropout's mask, which the plan draws again from
 * nothing: up to the last dropout it replays, and what the plan does without is not saved. */
#include "framework_policy.h"

#include "dump.h"

#include <inttypes.h>

/* Ops that one operator of PyTorch's, of aten, stands for. */
const char *const policy_ops[POLICY_OPS] = {
    "linear", "matmul", "attention", "layer_norm", "rms_norm", "gelu", "relu", "silu", "softmax"};
enum { PRODUCTS = 3 /* the first ones */ };

static uint32_t say(const char *op)
{
    for (uint32_t s = 0; op && s < POLICY_OPS; s++)
        if (strcmp(policy_ops[s], op) == 0)
            return s;
    return REMAT_NONE;
}

size_t policy_layer_length(const char *path, int32_t layer)
{
    char number[16];
    size_t length = (size_t)snprintf(number, sizeof number, ".%" PRId32, layer);
    const char *at = layer < 0 ? NULL : strstr(path, number);
    while (at && at[length] >= '0' && at[length] <= '9')
        at = strstr(at + 1, number);
    return at ? (size_t)(at - path) + length : 0;
}

const struct remat_decision_record *policy_find_record(const struct remat_program *program,
                                                       const char *name, uint32_t *at)
{
    for (uint32_t i = 0; i < program->decision_count; i++) {
        *at = *at + 1 < program->decision_count ? *at + 1 : 0;
        if (strcmp(program->decisions[*at].name, name) == 0)
            return &program->decisions[*at];
    }
    return NULL;
}

static bool is_in(const struct policy_layer *layer, const char *path, int32_t number)
{
    return layer->number == number && strncmp(layer->path, path, layer->path_length) == 0 &&
           policy_layer_length(path, number) == layer->path_length;
}

/* Commands and values of a layer follow each other: `at`, the index of the last one found. */
static remat_status find_layer(struct remat_arena *arena, struct policy *p, const char *path,
                               int32_t number, size_t *at)
{
    remat_status st = REMAT_OK;
    for (size_t back = 0; back < 2 && *at >= back && *at < p->layers.count; back++)
        if (is_in(&p->layers.items[*at - back], path, number)) {
            *at -= back;
            return REMAT_OK;
        }
    for (*at = 0; *at < p->layers.count; ++*at)
        if (is_in(&p->layers.items[*at], path, number))
            return REMAT_OK;
    REMAT_TRY_PUSH(arena, &p->layers,
                   ((struct policy_layer){.path = path,
                                          .path_length = policy_layer_length(path, number),
                                          .number = number}));
fail:
    return st;
}

static struct policy_place *find_place(struct policy_layer *layer, const char *op, uint32_t index)
{
    for (size_t i = 0; i < layer->places.count; i++)
        if (layer->places.items[i].index == index && strcmp(layer->places.items[i].op, op) == 0)
            return &layer->places.items[i];
    return NULL;
}

static bool has(const struct policy_names *names, const char *name)
{
    for (size_t i = 0; i < names->count; i++)
        if (strcmp(names->items[i], name) == 0)
            return true;
    return false;
}

/* "linear" of a matrix, "matmul" of batches of them, as PyTorch has them; NULL: no product. */
static const char *product_of(const struct remat_program *program, const struct remat_command *c)
{
    uint32_t kind = program->kernels[c->kernel].kind;
    if (kind == REMAT_KERNEL_attention)
        return "attention";
    if (kind != REMAT_KERNEL_matmul)
        return NULL;
    for (uint32_t o = c->operand_begin; o < c->operand_end; o++) {
        const struct remat_operand *operand = &program->operands[o];
        if (operand->access == REMAT_ACCESS_READ && operand->rank == 2)
            return "linear";
    }
    return "matmul";
}

/* Attention is a command for each sequence where each draws random numbers of its own: decisions
 * about what they write have the place. REMAT_NONE: there is none. */
static uint32_t attention_index(const struct remat_program *program, const struct remat_command *c,
                                uint32_t *at)
{
    if (program->kernels[c->kernel].kind != REMAT_KERNEL_attention)
        return REMAT_NONE;
    for (uint32_t o = c->operand_begin; o < c->operand_end; o++) {
        const struct remat_operand *operand = &program->operands[o];
        const struct remat_decision_record *d =
            operand->access == REMAT_ACCESS_WRITE
                ? policy_find_record(program, program->values[operand->value].name, at)
                : NULL;
        if (d && strcmp(d->op, "attention") == 0)
            return d->op_index;
    }
    return REMAT_NONE;
}

static struct policy_place *find_named_place(struct policy_layer *layer, const char *name)
{
    for (size_t i = 0; i < layer->places.count; i++)
        if (strcmp(layer->places.items[i].name, name) == 0)
            return &layer->places.items[i];
    return NULL;
}

static remat_status add_product(struct remat_arena *arena, const struct remat_program *program,
                                uint32_t command, const char *op, uint32_t *record_at,
                                struct policy_layer *layer)
{
    remat_status st = REMAT_OK;
    const struct remat_command *c = &program->commands[command];
    uint32_t index = attention_index(program, c, record_at);
    struct policy_place *place =
        index == REMAT_NONE ? find_named_place(layer, c->name) : find_place(layer, op, index);
    bool forward = c->instance == 0 && c->phase == REMAT_PHASE_FORWARD;
    if (place)
        place->saved &= c->instance == 0;
    if (index == REMAT_NONE)
        for (index = 0; find_place(layer, op, index);)
            index++;
    if (forward && !place)
        REMAT_TRY_PUSH(arena, &layer->places,
                       ((struct policy_place){op, index, command, true, c->name, false}));
    if (forward)
        layer->final_product = command;
fail:
    return st;
}

static bool draws_random(const struct remat_program *program, const struct remat_command *c)
{
    const struct remat_kernel_body *body = &program->kernels[c->kernel].body;
    for (uint32_t i = 0; i < body->instruction_count; i++)
        if (body->instructions[i].opcode == REMAT_INSTRUCTION_random)
            return true;
    return false;
}

/* Values that the forward pass reads in another layer than theirs. Gathered ones are no layer's
 * output: a norm's parameters are read where it is computed, after the layer before. */
static remat_status add_outer(struct remat_arena *arena, struct policy *p, bool *gathered,
                              const struct remat_command *c, size_t *at)
{
    remat_status st = REMAT_OK;
    const struct remat_program *program = p->program;
    bool gathers = program->kernels[c->kernel].kind == REMAT_KERNEL_gather;
    for (uint32_t o = c->operand_begin; o < c->operand_end; o++) {
        uint32_t value = program->operands[o].value;
        const struct remat_program_value *v = &program->values[value];
        bool reads = program->operands[o].access == REMAT_ACCESS_READ;
        gathered[value] |= gathers && !reads;
        if (!reads || gathered[value] || v->layer < 0 || v->role != REMAT_ROLE_ACTIVATION)
            continue;
        REMAT_TRY(find_layer(arena, p, v->scope, v->layer, at));
        struct policy_layer *layer = &p->layers.items[*at];
        if (!is_in(layer, c->scope, c->layer))
            REMAT_TRY_PUSH(arena, &layer->outer, v->name);
    }
fail:
    return st;
}

static remat_status read_commands(struct remat_arena *arena, struct policy *p)
{
    remat_status st = REMAT_OK;
    const struct remat_program *program = p->program;
    uint32_t segment = dump_step_segment(program);
    size_t at = 0, from = 0;
    uint32_t record_at = 0;
    bool *gathered; /* by value */
    if (segment == REMAT_NONE)
        return REMAT_OK;
    REMAT_TRY_NEW(arena, gathered, program->value_count);
    for (uint32_t i = program->segments[segment].command_begin;
         i < program->segments[segment].command_end; i++) {
        const struct remat_command *c = &program->commands[i];
        const char *op = product_of(program, c);
        if (op && c->layer >= 0) {
            REMAT_TRY(find_layer(arena, p, c->scope, c->layer, &at));
            REMAT_TRY(add_product(arena, program, i, op, &record_at, &p->layers.items[at]));
        }
        if (c->instance == 0 && c->phase == REMAT_PHASE_FORWARD && c->layer >= 0 &&
            draws_random(program, c)) {
            REMAT_TRY(find_layer(arena, p, c->scope, c->layer, &at));
            p->layers.items[at].last_random = i;
        }
        if (c->instance == 0 && (c->phase == REMAT_PHASE_FORWARD || c->phase == REMAT_PHASE_LOSS))
            REMAT_TRY(add_outer(arena, p, gathered, c, &from));
    }
fail:
    return st;
}

/* A parameter, which frameworks gather for every pass through a checkpoint. */
static bool is_gathered(const struct remat_decision_record *d)
{
    return d->op && strcmp(d->op, "gather") == 0;
}

static bool is_outer(const struct policy_layer *layer, const struct remat_decision_record *d)
{
    return has(&layer->outer, d->name);
}

/* The last product, and what is made from it but norms and activations, which keep their inputs. */
static bool serves_output(const struct policy_layer *layer, const struct remat_decision_record *d)
{
    uint32_t said = say(d->op);
    return layer->output_again && d->saved_begin >= layer->final_product &&
           (said == REMAT_NONE || said < PRODUCTS);
}

/* As JAX names a value: without the layer. Of attention that is a command for each sequence, the
 * logs of sums are never joined: "attn.core.entry_0.1" is of "attn.core.1". NULL: no memory. */
static const char *tag_of(struct remat_arena *arena, const struct remat_program *program,
                          const struct remat_decision_record *d)
{
    static const char part[] = ".entry_";
    const char *name = d->name, *at = strcmp(d->op, "attention") == 0 ? strstr(name, part) : NULL;
    size_t length = policy_layer_length(name, d->layer);
    uint32_t record_at = 0;
    if (at) {
        const char *rest = at + sizeof part - 1;
        rest += strspn(rest, "0123456789");
        const char *whole = remat_arena_format(arena, "%.*s%s", (int)(at - name), name, rest);
        if (!whole)
            return NULL;
        name = policy_find_record(program, whole, &record_at) ? name : whole;
    }
    return name + length + (length && name[length] == '.');
}

/* What decisions say of their layers, and the places of ops other than products. */
static remat_status read_decision(struct remat_arena *arena, const struct remat_decision_record *d,
                                  const char *tag, struct policy_layer *layer)
{
    remat_status st = REMAT_OK;
    bool saved = remat_action_times(d->action) == 0;
    uint32_t said = say(d->op);
    struct policy_place *place = said == REMAT_NONE ? NULL : find_place(layer, d->op, d->op_index);
    layer->checkpoint |= !saved && d->action != REMAT_ACTION_INLINE && !is_gathered(d);
    if (is_outer(layer, d) || is_gathered(d))
        return REMAT_OK;
    if (d->saved_begin > layer->last && !serves_output(layer, d))
        layer->last = d->saved_begin;
    if (place && said >= PRODUCTS)
        place->saved &= saved;
    if (place)
        place->decided = true;
    else if (said != REMAT_NONE)
        REMAT_TRY_PUSH(
            arena, &layer->places,
            ((struct policy_place){d->op, d->op_index, d->saved_begin, saved, d->name, true}));
    REMAT_TRY_PUSH(arena, saved ? &layer->tagged : &layer->untagged, tag);
fail:
    return st;
}

/* Whether the framework saves it. */
static bool is_saved(const struct policy *p, struct policy_layer *layer,
                     const struct remat_decision_record *d)
{
    if (is_gathered(d))
        return !layer->checkpoint && remat_action_times(d->action) == 0;
    if (!layer->checkpoint || is_outer(layer, d))
        return true;
    if (p->framework == POLICY_JAX)
        return has(&layer->tagged, p->tags[d - p->program->decisions]);
    const struct policy_place *place =
        say(d->op) == REMAT_NONE ? NULL : find_place(layer, d->op, d->op_index);
    return place && place->saved;
}

static remat_status compare(struct remat_arena *arena, struct policy *p,
                            const struct remat_decision_record *d, struct policy_layer *layer)
{
    remat_status st = REMAT_OK;
    bool saved = layer ? is_saved(p, layer, d) : true;
    bool in_place = d->action == REMAT_ACTION_SAVE; /* frameworks have no other way */
    if (saved != (remat_action_times(d->action) == 0) || (saved && !in_place))
        REMAT_TRY_PUSH(arena, &p->differences, ((struct policy_value){d->name, d->layer, saved}));
    if (layer && saved && d->recomputable && !is_outer(layer, d))
        REMAT_TRY_PUSH(arena, &p->saved, d->name);
fail:
    return st;
}

/* Names are said once, and only where all parts are saved. */
static void end_tags(struct policy_layer *layer)
{
    struct policy_names found = layer->tagged;
    layer->tagged.count = 0;
    for (size_t i = 0; i < found.count; i++)
        if (!has(&layer->untagged, found.items[i]) && !has(&layer->tagged, found.items[i]))
            layer->tagged.items[layer->tagged.count++] = found.items[i];
}

/* Places after the last value needed are neither saved nor replayed; others without a decision are
 * saved in place of what is made from them. */
static remat_status end_layer(struct remat_arena *arena, struct policy *p,
                              struct policy_layer *layer)
{
    remat_status st = REMAT_OK;
    size_t count = 0;
    end_tags(layer);
    for (size_t i = 0; i < layer->places.count; i++) {
        struct policy_place place = layer->places.items[i];
        place.saved &= place.at <= layer->last;
        if (place.at <= layer->last || place.at <= layer->last_random)
            layer->places.items[count++] = place;
    }
    layer->places.count = count;
    for (size_t i = 0; i < count && layer->checkpoint && p->framework == POLICY_PYTORCH; i++) {
        const struct policy_place *place = &layer->places.items[i];
        if (!place->saved || place->decided)
            continue;
        REMAT_TRY_PUSH(arena, &p->saved, place->name);
        REMAT_TRY_PUSH(arena, &p->differences,
                       ((struct policy_value){place->name, layer->number, true}));
    }
fail:
    return st;
}

/* Where no other layer reads a value, the output is read only in the kernel that computes it, such
 * as by the norm after the last layer: it is the last value. */
static remat_status complete_outer(struct remat_arena *arena, struct policy *p)
{
    remat_status st = REMAT_OK;
    size_t at = 0;
    for (uint32_t i = 0; i < p->program->decision_count; i++) {
        const struct remat_decision_record *d = &p->program->decisions[i];
        if (d->layer < 0 || is_gathered(d))
            continue;
        REMAT_TRY(find_layer(arena, p, d->scope, d->layer, &at));
        struct policy_layer *layer = &p->layers.items[at];
        layer->final = d->name;
        layer->output_again |= is_outer(layer, d) && remat_action_times(d->action) > 0;
    }
    for (size_t l = 0; l < p->layers.count; l++)
        if (p->layers.items[l].outer.count == 0 && p->layers.items[l].final)
            REMAT_TRY_PUSH(arena, &p->layers.items[l].outer, p->layers.items[l].final);
fail:
    return st;
}

remat_status policy_find(struct remat_arena *arena, const struct remat_program *program,
                         enum policy_framework framework, struct policy *out)
{
    remat_status st = REMAT_OK;
    size_t at = 0;
    *out = (struct policy){.program = program, .framework = framework};
    REMAT_TRY_NEW(arena, out->tags, program->decision_count);
    REMAT_TRY(read_commands(arena, out));
    REMAT_TRY(complete_outer(arena, out));
    for (uint32_t i = 0; i < program->decision_count; i++) {
        const struct remat_decision_record *d = &program->decisions[i];
        if (d->layer < 0)
            continue;
        if (!(out->tags[i] = tag_of(arena, program, d)))
            return REMAT_ERROR_MEMORY;
        REMAT_TRY(find_layer(arena, out, d->scope, d->layer, &at));
        REMAT_TRY(read_decision(arena, d, out->tags[i], &out->layers.items[at]));
    }
    for (size_t l = 0; l < out->layers.count; l++)
        REMAT_TRY(end_layer(arena, out, &out->layers.items[l]));
    for (uint32_t i = 0; i < program->decision_count; i++) {
        const struct remat_decision_record *d = &program->decisions[i];
        if (d->layer >= 0)
            REMAT_TRY(find_layer(arena, out, d->scope, d->layer, &at));
        REMAT_TRY(compare(arena, out, d, d->layer < 0 ? NULL : &out->layers.items[at]));
    }
fail:
    return st;
}
