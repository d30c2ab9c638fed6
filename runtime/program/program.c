/* SPDX-License-Identifier: Apache-2.0 */
#include "program.h"

#include <assert.h>
#include <inttypes.h>

const char *remat_role_name(uint32_t role)
{
    static const char *const names[REMAT_ROLE_COUNT] = {
        [REMAT_ROLE_ACTIVATION] = "activation", [REMAT_ROLE_PARAMETER] = "parameter",
        [REMAT_ROLE_GRADIENT] = "gradient",     [REMAT_ROLE_OPTIMIZER_STATE] = "optimizer state",
        [REMAT_ROLE_INPUT] = "input",           [REMAT_ROLE_CONSTANT] = "constant",
        [REMAT_ROLE_OUTPUT] = "output",         [REMAT_ROLE_STEP_STATE] = "step state",
    };
    return role < REMAT_ROLE_COUNT ? names[role] : NULL;
}

const char *remat_phase_name(uint32_t phase)
{
    static const char *const names[REMAT_PHASE_COUNT] = {
        [REMAT_PHASE_FORWARD] = "forward",   [REMAT_PHASE_LOSS] = "loss",
        [REMAT_PHASE_BACKWARD] = "backward", [REMAT_PHASE_OPTIMIZER] = "optimizer",
        [REMAT_PHASE_INIT] = "init",
    };
    return phase < REMAT_PHASE_COUNT ? names[phase] : NULL;
}

uint32_t remat_program_recomputed(const struct remat_program *program)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < program->decision_count; i++)
        count += remat_action_times(program->decisions[i].action) > 0;
    return count;
}

const char *remat_action_name(uint32_t action)
{
    static const char *const names[REMAT_ACTION_COUNT] = {
        [REMAT_ACTION_RECOMPUTE] = "recompute",
        [REMAT_ACTION_INLINE] = "recompute inline",
        [REMAT_ACTION_TWICE] = "twice",
        [REMAT_ACTION_TWICE_INLINE] = "twice inline",
#define KEEP(id, number, name, ...) [REMAT_ACTION_##id] = name,
#include "keeps.def"
    };
    return action < REMAT_ACTION_COUNT ? names[action] : NULL;
}

const struct remat_keep_words remat_keep_words[REMAT_ACTION_COUNT] = {
#define KEEP(id, number, ...) [REMAT_ACTION_##id] = {__VA_ARGS__},
#include "keeps.def"
};

uint32_t remat_program_twice(const struct remat_program *program)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < program->decision_count; i++)
        count += remat_action_times(program->decisions[i].action) > 1;
    return count;
}

uint32_t remat_program_count(const struct remat_program *program, uint32_t action)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < program->decision_count; i++)
        count += program->decisions[i].action == action;
    return count;
}

bool remat_program_reads_number(const struct remat_program *program,
                                const struct remat_segment *segment)
{
    if (program->number_tensor == REMAT_NONE || segment->command_begin == segment->command_end)
        return false;
    uint32_t buffer = program->values[program->tensors[program->number_tensor].value].buffer;
    uint32_t o = program->commands[segment->command_begin].operand_begin;
    uint32_t end = program->commands[segment->command_end - 1].operand_end;
    while (o < end && program->values[program->operands[o].value].buffer != buffer)
        o++;
    return o < end;
}

void remat_program_layer_extents(const struct remat_program *program, uint8_t *extents)
{
    memset(extents, REMAT_LAYER_SAVED, program->layer_count);
    for (uint32_t i = 0; i < program->recomputed_layer_count; i++)
        extents[program->recomputed_layers[i]] = REMAT_LAYER_WHOLE;
    for (uint32_t i = 0; i < program->decision_count; i++) {
        const struct remat_decision_record *d = &program->decisions[i];
        bool kept = remat_action_times(d->action) == 0 && d->recomputable && !d->leaves_layer;
        if (kept && d->layer >= 0 && (uint32_t)d->layer < program->layer_count &&
            extents[d->layer] == REMAT_LAYER_WHOLE)
            extents[d->layer] = REMAT_LAYER_IN_PART;
    }
}

uint32_t remat_action_twice(uint32_t action)
{
    return action == REMAT_ACTION_RECOMPUTE ? REMAT_ACTION_TWICE
           : action == REMAT_ACTION_INLINE  ? REMAT_ACTION_TWICE_INLINE
                                            : action;
}

const char *remat_cost_source_name(uint32_t source)
{
    static const char *const names[REMAT_COST_SOURCES] = {
        [REMAT_COST_MODELLED] = "modelled",
        [REMAT_COST_INTERPOLATED] = "interpolated",
        [REMAT_COST_MEASURED] = "measured",
    };
    return source < REMAT_COST_SOURCES ? names[source] : NULL;
}

size_t remat_operand_print(const struct remat_operand *operand, char *out, size_t bytes)
{
    char text[REMAT_OPERAND_TEXT_BYTES];
    uint32_t rank = operand->rank;
    size_t length = (size_t)snprintf(text, sizeof text, "%s[", remat_dtype_name(operand->dtype));
    for (uint32_t axis = 0; axis < rank; axis++)
        length += (size_t)snprintf(
            text + length, sizeof text - length, "%s%s%" PRId64, axis ? "," : "",
            operand->strides[axis] || operand->shape[axis] == 1 ? "" : "*", operand->shape[axis]);
    bool strided = rank && operand->strides[rank - 1] > 1 && operand->shape[rank - 1] > 1;
    length += (size_t)snprintf(text + length, sizeof text - length, "]%s", strided ? "'" : "");
    if (bytes)
        snprintf(out, bytes, "%s", text);
    return length;
}

const struct remat_entry *remat_program_find_entry(const struct remat_program *program,
                                                   const char *name)
{
    for (uint32_t e = 0; e < program->entry_count; e++)
        if (strcmp(program->entries[e].name, name) == 0)
            return &program->entries[e];
    return NULL;
}

const struct remat_entry *remat_program_step(const struct remat_program *program)
{
    const struct remat_entry *train = remat_program_find_entry(program, "train");
    return train ? train : remat_program_find_entry(program, "eval");
}

const struct remat_call *remat_program_step_call(const struct remat_program *program)
{
    const struct remat_entry *entry = remat_program_step(program);
    const struct remat_call *most = NULL;
    for (uint32_t k = entry ? entry->call_begin : 0; k < (entry ? entry->call_end : 0); k++)
        if (!most || program->calls[k].times > most->times)
            most = &program->calls[k];
    return most;
}

void remat_program_cost_shares(const struct remat_program *program,
                               double shares[REMAT_COST_SOURCES])
{
    const struct remat_entry *entry = remat_program_step(program);
    double total = 0;
    memset(shares, 0, REMAT_COST_SOURCES * sizeof *shares);
    for (uint32_t i = entry ? entry->call_begin : 0; i < (entry ? entry->call_end : 0); i++) {
        const struct remat_segment *segment = &program->segments[program->calls[i].segment];
        for (uint32_t c = segment->command_begin; c < segment->command_end; c++) {
            const struct remat_command *command = &program->commands[c];
            double ns = (double)command->estimated_ns * program->calls[i].times;
            shares[command->cost_source] += ns;
            total += ns;
        }
    }
    for (uint32_t s = 0; s < REMAT_COST_SOURCES && total > 0; s++)
        shares[s] /= total;
}

/* --- ranks --- */

static uint64_t operand_bytes(const struct remat_operand *o)
{
    uint64_t bytes = remat_dtype_bytes((remat_dtype)o->dtype);
    for (uint32_t axis = 0; axis < o->rank; axis++)
        bytes *= (uint64_t)o->shape[axis];
    return bytes;
}

bool remat_command_transfer(const struct remat_program *program, uint32_t index,
                            struct remat_transfer_shape *out)
{
    assert(index < program->command_count);
    const struct remat_command *command = &program->commands[index];
    uint32_t kind = program->kernels[command->kernel].kind;
    if (!remat_kernel_kind_is_transfer(kind))
        return false;
    const struct remat_operand *from = &program->operands[command->operand_begin], *to = from + 1;
    uint32_t group = (uint32_t)program->parameters[command->parameter_begin];
    uint32_t ranks = program->mesh[group].size;
    bool exchange = kind == REMAT_KERNEL_exchange;
    bool rows = exchange && from->rank == 2 && (uint64_t)from->shape[0] == ranks;
    uint64_t part_bytes = exchange ? operand_bytes(to) / ranks : operand_bytes(from);
    *out = (struct remat_transfer_shape){
        .kind = kind,
        .group = group,
        .ranks = ranks,
        .part_bytes = part_bytes,
        .whole_bytes = operand_bytes(exchange ? from : to),
        .stride_bytes =
            rows ? (uint64_t)from->strides[0] * remat_dtype_bytes((remat_dtype)from->dtype)
                 : part_bytes,
        .from = from,
        .to = to,
    };
    return true;
}

uint32_t remat_command_link(const struct remat_program *program, uint32_t command)
{
    assert(program->commands[command].complete_before);
    return (uint32_t)program->parameters[program->commands[command].parameter_begin];
}

uint32_t remat_group_begin(const struct remat_program *program, uint32_t command)
{
    assert(command < program->command_count);
    while (program->commands[command].continues_group)
        command--;
    return command;
}

uint32_t remat_group_end(const struct remat_program *program, uint32_t command)
{
    assert(command < program->command_count);
    uint32_t end = command + 1;
    while (end < program->command_count && program->commands[end].continues_group)
        end++;
    return end;
}

uint64_t remat_transfer_part(const struct remat_transfer_shape *transfer, uint32_t rank)
{
    assert(rank < transfer->ranks);
    uint64_t begin = rank * transfer->part_bytes;
    uint64_t rest = transfer->whole_bytes > begin ? transfer->whole_bytes - begin : 0;
    return rest < transfer->part_bytes ? rest : transfer->part_bytes;
}

uint64_t remat_transfer_sent(const struct remat_transfer_shape *transfer, uint32_t rank)
{
    uint64_t part = remat_transfer_part(transfer, rank);
    return transfer->kind == REMAT_KERNEL_exchange ? transfer->whole_bytes - part
                                                   : (transfer->ranks - 1) * part;
}

uint32_t remat_program_ranks(const struct remat_program *program)
{
    uint32_t ranks = 1;
    for (uint32_t axis = 0; axis < program->mesh_count; axis++)
        ranks *= program->mesh[axis].size;
    return ranks;
}

struct remat_communication remat_program_communication(const struct remat_program *program)
{
    struct remat_communication all = {0};
    struct remat_transfer_shape transfer;
    uint64_t computed_ns = 0;
    const struct remat_entry *entry = remat_program_step(program);
    for (uint32_t k = entry ? entry->call_begin : 0; k < (entry ? entry->call_end : 0); k++) {
        const struct remat_segment *segment = &program->segments[program->calls[k].segment];
        for (uint32_t c = segment->command_begin; c < segment->command_end; c++) {
            if (!remat_command_transfer(program, c, &transfer)) {
                computed_ns += program->calls[k].times * program->commands[c].estimated_ns;
                continue;
            }
            all.sent_bytes += program->calls[k].times * remat_transfer_sent(&transfer, 0);
            all.ns += program->calls[k].times * program->commands[c].estimated_ns;
        }
    }
    all.exposed_ns = program->step_ns > computed_ns ? program->step_ns - computed_ns : 0;
    all.exposed_ns = all.exposed_ns < all.ns ? all.exposed_ns : all.ns;
    return all;
}

void remat_program_mesh_print(const struct remat_program *program, char out[REMAT_MESH_TEXT_BYTES])
{
    size_t length = 0;
    *out = 0;
    for (uint32_t axis = 0; axis < program->mesh_count && length < REMAT_MESH_TEXT_BYTES; axis++)
        length +=
            (size_t)snprintf(out + length, REMAT_MESH_TEXT_BYTES - length, "%s%.40s=%" PRIu32,
                             axis ? "," : "", program->mesh[axis].name, program->mesh[axis].size);
}
