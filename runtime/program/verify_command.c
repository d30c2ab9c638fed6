/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels, and commands against kernels, values and buffers: after this no view leads out of its
 * buffer, whatever the executor trusts. */
#include "verify.h"

#include <assert.h>

#define COLUMN_ROWS_MAX (UINT32_MAX - 255) /* remat_column_block_rows's */

/* --- kernels --- */

static remat_status fill_uses(struct remat_verifier *v, uint32_t index)
{
    remat_status st = REMAT_OK;
    const struct remat_kernel *kernel = &v->program->kernels[index];
    const struct remat_kernel_body *body = &kernel->body;
    enum remat_register_class *classes;
    const char *where;
    if (body->operand_count > body->instruction_count)
        return remat_verify_error(v, "kernels", index, kernel->key,
                                  "%u operands, but only %u instructions", body->operand_count,
                                  body->instruction_count);
    REMAT_TRY_NEW(&v->scratch, classes, body->instruction_count);
    where = remat_arena_format(&v->scratch, "kernels[%u] \"%.200s\"", index, kernel->key);
    if (!where)
        return REMAT_ERROR_MEMORY;
    REMAT_TRY(remat_kernel_body_check(v->ctx, body, where, classes));
    REMAT_TRY_NEW(&v->scratch, v->uses[index], body->operand_count);
    for (uint32_t i = 0; i < body->instruction_count; i++) {
        const struct remat_instruction *instruction = &body->instructions[i];
        v->sums_columns[index] |= remat_opcode_is_column_reduction(instruction->opcode);
        bool store = instruction->opcode == REMAT_INSTRUCTION_store;
        bool row = instruction->opcode == REMAT_INSTRUCTION_load_row;
        bool random = instruction->opcode == REMAT_INSTRUCTION_random;
        bool flag = instruction->opcode == REMAT_INSTRUCTION_flag;
        if (!store && !row && !random && !flag && instruction->opcode != REMAT_INSTRUCTION_load)
            continue;
        struct remat_operand_use *use = &v->uses[index][instruction->operand];
        use->random |= random;
        use->flagged |= flag;
        if (random || flag)
            continue;
        enum remat_register_class class = classes[store ? instruction->args[0] : i];
        use->loaded |= !store;
        use->stored |= store;
        use->by_row |= class == REMAT_CLASS_ROW;
        use->by_column |= class == REMAT_CLASS_COLUMN;
        use->by_element |= class != REMAT_CLASS_ROW && class != REMAT_CLASS_COLUMN;
    }
    for (uint32_t k = 0; k < body->operand_count; k++) {
        const struct remat_operand_use *use = &v->uses[index][k];
        if (!use->loaded && !use->stored && !use->random && !use->flagged)
            return remat_verify_error(v, "kernels", index, kernel->key, "operand %u is never used",
                                      k);
    }
fail:
    return st;
}

remat_status remat_verify_kernels(struct remat_verifier *v)
{
    remat_status st = REMAT_OK;
    const struct remat_program *p = v->program;
    REMAT_TRY_NEW(&v->scratch, v->uses, p->kernel_count);
    REMAT_TRY_NEW(&v->scratch, v->sums_columns, p->kernel_count);
    for (uint32_t i = 0; i < p->kernel_count; i++) {
        const struct remat_kernel *kernel = &p->kernels[i];
        if (!kernel->key)
            return remat_verify_error(v, "kernels", i, NULL, "no key");
        if (kernel->kind >= REMAT_KERNEL_KIND_COUNT)
            return remat_verify_error(v, "kernels", i, kernel->key, "unknown kind %u",
                                      kernel->kind);
        if (kernel->kind == REMAT_KERNEL_fused)
            REMAT_TRY(fill_uses(v, i));
        else if (kernel->body.instruction_count || kernel->body.operand_count)
            return remat_verify_error(v, "kernels", i, kernel->key,
                                      "a built-in kernel with instructions");
    }
fail:
    return st;
}

/* --- views --- */

/* One past the highest element that the view touches; false on overflow. */
static bool view_end(const struct remat_operand *operand, const int64_t *dims, uint32_t rank,
                     bool skip_last, bool only_last, uint64_t *out)
{
    uint64_t last = operand->offset_elements;
    for (uint32_t d = only_last && rank ? rank - 1 : 0; d < rank - (skip_last && rank); d++) {
        uint64_t span;
        if (!remat_mul_u64((uint64_t)dims[d] - 1, (uint64_t)operand->strides[d], &span) ||
            !remat_add_u64(last, span, &last))
            return false;
    }
    return remat_add_u64(last, 1, out);
}

/* --- commands --- */

static const char *operand_name(const struct remat_program *p, const struct remat_operand *operand)
{
    return p->values[operand->value].name;
}

static remat_status verify_operand(struct remat_verifier *v, uint32_t index, uint32_t k)
{
    const struct remat_program *p = v->program;
    const struct remat_command *c = &p->commands[index];
    const struct remat_operand *o = &p->operands[c->operand_begin + k];
    uint64_t elements, end, bytes;
    if (o->value >= p->value_count)
        return remat_verify_error(v, "commands", index, c->name,
                                  "operand %u: value %u is out of range (%u values)", k, o->value,
                                  p->value_count);
    const struct remat_program_value *value = &p->values[o->value];
    if ((o->access < REMAT_ACCESS_READ || o->access > REMAT_ACCESS_UPDATE) &&
        o->access != REMAT_ACCESS_FLAG)
        return remat_verify_error(v, "commands", index, c->name, "operand %u: unknown access %u", k,
                                  o->access);
    if ((o->access == REMAT_ACCESS_UPDATE) != (o->previous != REMAT_NONE))
        return remat_verify_error(v, "commands", index, c->name,
                                  "operand %u: a previous version belongs to an update", k);
    if (o->previous != REMAT_NONE && (o->previous >= p->value_count || o->previous == o->value ||
                                      p->values[o->previous].buffer != value->buffer ||
                                      p->values[o->previous].dtype != value->dtype))
        return remat_verify_error(v, "commands", index, c->name,
                                  "operand %u: value %u is no previous version of \"%s\"", k,
                                  o->previous, value->name);
    if (o->dtype != value->dtype)
        return remat_verify_error(v, "commands", index, c->name,
                                  "operand %u: dtype %u, but \"%s\" has dtype %u", k, o->dtype,
                                  value->name, value->dtype);
    if (o->rank > REMAT_RANK_MAX || !remat_dims_elements(o->shape, o->rank, &elements))
        return remat_verify_error(v, "commands", index, c->name,
                                  "operand %u: its shape of rank %u is not valid", k, o->rank);
    for (uint32_t d = 0; d < o->rank; d++)
        if ((uint64_t)o->strides[d] > REMAT_ELEMENTS_MAX)
            return remat_verify_error(v, "commands", index, c->name,
                                      "operand %u: stride %lld is negative or too large", k,
                                      (long long)o->strides[d]);
    if (!view_end(o, o->shape, o->rank, false, false, &end) ||
        !remat_mul_u64(end, remat_dtype_bytes((remat_dtype)o->dtype), &bytes) ||
        bytes > p->buffers[value->buffer].bytes)
        return remat_verify_error(v, "commands", index, c->name,
                                  "operand %u: its view leads out of buffer %u (%llu bytes) of "
                                  "\"%s\"",
                                  k, value->buffer, (ull)p->buffers[value->buffer].bytes,
                                  value->name);
    if (p->kernels[c->kernel].kind != REMAT_KERNEL_fused)
        remat_verify_reach(v, k, bytes);
    return REMAT_OK;
}

/* The view over the axes of the command's space, as loads and stores address it. */
static remat_status verify_use(struct remat_verifier *v, uint32_t index, uint32_t k, bool skip_last,
                               bool only_last)
{
    const struct remat_program *p = v->program;
    const struct remat_command *c = &p->commands[index];
    const struct remat_operand *o = &p->operands[c->operand_begin + k];
    const struct remat_buffer *buffer = &p->buffers[p->values[o->value].buffer];
    uint32_t begin = only_last && c->rank ? c->rank - 1u : 0;
    uint32_t rank = c->rank - (skip_last && c->rank ? 1u : 0);
    uint64_t end, bytes;
    if (!view_end(o, c->space, c->rank, skip_last, only_last, &end) ||
        !remat_mul_u64(end, remat_dtype_bytes((remat_dtype)o->dtype), &bytes) ||
        bytes > buffer->bytes)
        return remat_verify_error(v, "commands", index, c->name,
                                  "operand %u: over the index space its view leads out of the "
                                  "buffer (%llu bytes) of \"%s\"",
                                  k, (ull)buffer->bytes, operand_name(p, o));
    remat_verify_reach(v, k, bytes);
    if (o->access != REMAT_ACCESS_READ && !remat_view_injective(o, c->space, begin, rank))
        return remat_verify_error(v, "commands", index, c->name,
                                  "operand %u: it writes elements of \"%s\" more than once", k,
                                  operand_name(p, o));
    return REMAT_OK;
}

/* How the kernel uses operand k, against its rank, dtype and access. */
static remat_status verify_access(struct remat_verifier *v, uint32_t index, uint32_t k)
{
    const struct remat_command *c = &v->program->commands[index];
    const struct remat_operand *o = &v->program->operands[c->operand_begin + k];
    const struct remat_operand_use *use = &v->uses[c->kernel][k];
    if (use->random + use->flagged + (use->loaded || use->stored) > 1)
        return remat_verify_error(v, "commands", index, c->name,
                                  "operand %u: %s and used in another way", k,
                                  use->random ? "random state" : "a flag");
    if (use->random)
        return remat_verify_random_state(v, index, k);
    if (use->flagged != (o->access == REMAT_ACCESS_FLAG) || (use->flagged && o->dtype != REMAT_I32))
        return remat_verify_error(v, "commands", index, c->name,
                                  "operand %u: a flag is i32, with an access of its own", k);
    if (use->flagged) { /* its first element, which every view has */
        remat_verify_reach(v, k, (o->offset_elements + 1) * remat_dtype_bytes(REMAT_I32));
        return REMAT_OK;
    }
    if (o->rank != c->rank)
        return remat_verify_error(v, "commands", index, c->name,
                                  "operand %u: rank %u, the index space has rank %u", k, o->rank,
                                  c->rank);
    if ((use->loaded && o->access == REMAT_ACCESS_WRITE) ||
        (use->stored && o->access == REMAT_ACCESS_READ) ||
        (!use->stored && o->access != REMAT_ACCESS_READ))
        return remat_verify_error(v, "commands", index, c->name,
                                  "operand %u: access %u, but its kernel %s it", k, o->access,
                                  use->loaded && use->stored ? "loads and stores"
                                  : use->loaded              ? "loads"
                                                             : "stores");
    if (use->stored && !remat_dtype_is_float(o->dtype))
        return remat_verify_error(v, "commands", index, c->name,
                                  "operand %u: its kernel stores i32", k);
    return REMAT_OK;
}

static remat_status verify_kernel_program(struct remat_verifier *v, uint32_t index)
{
    remat_status st = REMAT_OK;
    const struct remat_command *c = &v->program->commands[index];
    const struct remat_kernel_body *body = &v->program->kernels[c->kernel].body;
    if (c->operand_end - c->operand_begin != body->operand_count)
        return remat_verify_error(v, "commands", index, c->name, "%u operands, its kernel has %u",
                                  c->operand_end - c->operand_begin, body->operand_count);
    if (v->sums_columns[c->kernel] && remat_command_rows(c) > COLUMN_ROWS_MAX)
        return remat_verify_error(v, "commands", index, c->name,
                                  "sums over %llu rows, the limit is %u",
                                  (ull)remat_command_rows(c), COLUMN_ROWS_MAX);
    for (uint32_t k = 0; k < body->operand_count; k++) {
        const struct remat_operand_use *use = &v->uses[c->kernel][k];
        REMAT_TRY(verify_access(v, index, k));
        if (use->by_element)
            REMAT_TRY(verify_use(v, index, k, false, false));
        if (use->by_row)
            REMAT_TRY(verify_use(v, index, k, true, false));
        if (use->by_column)
            REMAT_TRY(verify_use(v, index, k, false, true));
    }
fail:
    return st;
}

static remat_status verify_builtin_kernel(struct remat_verifier *v, uint32_t index)
{
    const struct remat_command *c = &v->program->commands[index];
    uint32_t count = c->operand_end - c->operand_begin, least, most, parameters;
    remat_kernel_kind_arity(v->program->kernels[c->kernel].kind, &least, &most, &parameters);
    if (count < least || count > most)
        return remat_verify_error(v, "commands", index, c->name,
                                  "%u operands, its kernel takes %u to %u", count, least, most);
    if (c->parameter_end - c->parameter_begin != parameters)
        return remat_verify_error(v, "commands", index, c->name,
                                  "%u parameters, its kernel takes %u",
                                  c->parameter_end - c->parameter_begin, parameters);
    return remat_verify_builtin(v, index);
}

static remat_status verify_ranges(struct remat_verifier *v, uint32_t index)
{
    const struct remat_program *p = v->program;
    const struct remat_command *c = &p->commands[index];
    uint64_t elements;
    if (!c->name || !c->scope)
        return remat_verify_error(v, "commands", index, NULL, "no name or scope");
    if (c->kernel >= p->kernel_count)
        return remat_verify_error(v, "commands", index, c->name,
                                  "kernel %u is out of range (%u kernels)", c->kernel,
                                  p->kernel_count);
    if (c->absent && p->kernels[c->kernel].kind == REMAT_KERNEL_fused)
        return remat_verify_error(v, "commands", index, c->name,
                                  "absent operands of a fused kernel");
    if (c->operand_begin > c->operand_end || c->operand_end > p->operand_count ||
        c->operand_end - c->operand_begin > REMAT_OPERANDS_MAX)
        return remat_verify_error(
            v, "commands", index, c->name, "operands [%u, %u) of %u operands, at most %d at once",
            c->operand_begin, c->operand_end, p->operand_count, REMAT_OPERANDS_MAX);
    if (index && c->operand_begin < c[-1].operand_end)
        return remat_verify_error(v, "commands", index, c->name,
                                  "its operands begin at %u, among those of the command before, "
                                  "which end at %u",
                                  c->operand_begin, c[-1].operand_end);
    if (c->parameter_begin > c->parameter_end || c->parameter_end > p->parameter_count)
        return remat_verify_error(v, "commands", index, c->name,
                                  "parameters [%u, %u) of %u parameters", c->parameter_begin,
                                  c->parameter_end, p->parameter_count);
    if (c->cost_source >= REMAT_COST_SOURCES)
        return remat_verify_error(v, "commands", index, c->name, "cost source %u is unknown",
                                  c->cost_source);
    if (c->phase >= REMAT_PHASE_COUNT || c->layer < -1)
        return remat_verify_error(v, "commands", index, c->name,
                                  "phase %u or layer %d is out of range", c->phase, c->layer);
    if (c->rank > REMAT_RANK_MAX || !remat_dims_elements(c->space, c->rank, &elements))
        return remat_verify_error(v, "commands", index, c->name,
                                  "its index space of rank %u is not valid", c->rank);
    return REMAT_OK;
}

/* A transfer like the one before it, in every segment that has it. */
static remat_status verify_group(struct remat_verifier *v, uint32_t index)
{
    const struct remat_program *p = v->program;
    const struct remat_command *c = &p->commands[index], *before = c - 1;
    if (!c->continues_group)
        return REMAT_OK;
    for (uint32_t s = 0; s < p->segment_count; s++)
        if (p->segments[s].command_begin == index && index < p->segments[s].command_end)
            return remat_verify_error(v, "commands", index, c->name,
                                      "it continues a group, but segment \"%s\" begins with it",
                                      p->segments[s].name);
    if (index == 0 || !before->complete_before)
        return remat_verify_error(v, "commands", index, c->name,
                                  "it continues a group, but no transfer is before it");
    if (p->kernels[before->kernel].kind != p->kernels[c->kernel].kind ||
        p->parameters[before->parameter_begin] != p->parameters[c->parameter_begin])
        return remat_verify_error(v, "commands", index, c->name,
                                  "it continues a group of another kind or along another axis");
    if (before->complete_before != c->complete_before)
        return remat_verify_error(v, "commands", index, c->name,
                                  "complete before command %u, but the group that it continues "
                                  "before command %u",
                                  c->complete_before, before->complete_before);
    return REMAT_OK;
}

/* Only the first of a group waits, for a transfer on another link in every segment that has it. */
static remat_status verify_wait(struct remat_verifier *v, uint32_t index)
{
    const struct remat_program *p = v->program;
    const struct remat_command *c = &p->commands[index];
    uint32_t begin = 0, waits_for = c->waits_for - 1;
    if (!c->waits_for)
        return REMAT_OK;
    for (uint32_t s = 0; s < p->segment_count; s++)
        if (p->segments[s].command_begin <= index && index < p->segments[s].command_end &&
            p->segments[s].command_begin > begin)
            begin = p->segments[s].command_begin;
    if (waits_for < begin || waits_for >= index || !p->commands[waits_for].complete_before ||
        c->continues_group)
        return remat_verify_error(v, "commands", index, c->name,
                                  "it waits for command %u, which is no transfer of its segment "
                                  "before its group",
                                  waits_for);
    if (remat_command_link(p, waits_for) == remat_command_link(p, index))
        return remat_verify_error(v, "commands", index, c->name,
                                  "it waits for command %u, which is on the same link", waits_for);
    return REMAT_OK;
}

/* Set for transfers alone, after the transfer, and in every segment that has it. */
static remat_status verify_completion(struct remat_verifier *v, uint32_t index)
{
    const struct remat_program *p = v->program;
    const struct remat_command *c = &p->commands[index];
    uint32_t end = p->command_count;
    bool transfer = remat_kernel_kind_is_transfer(p->kernels[c->kernel].kind);
    uint32_t slowdown_most = transfer ? REMAT_SLOWDOWN_MAX : 0;
    if (c->slowdown_permille > slowdown_most)
        return remat_verify_error(v, "commands", index, c->name,
                                  "slowdown_permille is %u, accepted: 0 to %u",
                                  c->slowdown_permille, slowdown_most);
    if (!transfer)
        return c->complete_before || c->continues_group || c->waits_for
                   ? remat_verify_error(v, "commands", index, c->name,
                                        "complete before command %u, in a group or waiting for a "
                                        "transfer, but it is none",
                                        c->complete_before)
                   : REMAT_OK;
    for (uint32_t s = 0; s < p->segment_count; s++)
        if (p->segments[s].command_begin <= index && index < p->segments[s].command_end &&
            p->segments[s].command_end < end)
            end = p->segments[s].command_end;
    if (c->complete_before <= index || c->complete_before > end)
        return remat_verify_error(v, "commands", index, c->name,
                                  "complete before command %u, accepted: %u to %u",
                                  c->complete_before, index + 1, end);
    return REMAT_OK;
}

remat_status remat_verify_command(struct remat_verifier *v, uint32_t index)
{
    assert(index < v->program->command_count);
    remat_status st = REMAT_OK;
    const struct remat_command *c = &v->program->commands[index];
    REMAT_TRY(verify_ranges(v, index));
    REMAT_TRY(verify_completion(v, index));
    memset(v->reach_bytes, 0, (c->operand_end - c->operand_begin) * sizeof *v->reach_bytes);
    for (uint32_t k = 0; k < c->operand_end - c->operand_begin; k++)
        REMAT_TRY(verify_operand(v, index, k));
    if (v->program->kernels[c->kernel].kind == REMAT_KERNEL_fused)
        REMAT_TRY(verify_kernel_program(v, index));
    else
        REMAT_TRY(verify_builtin_kernel(v, index));
    REMAT_TRY(verify_group(v, index));
    REMAT_TRY(verify_wait(v, index));
    REMAT_TRY(remat_verify_alias(v, index));
fail:
    return st;
}
