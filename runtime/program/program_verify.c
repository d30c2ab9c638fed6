/* SPDX-License-Identifier: Apache-2.0 */
/* What holds of every program by itself, table by table. Commands: verify_command.c. */
#include "program.h"

#include "verify.h"

static bool names_stream(const struct remat_program *p, const char *name)
{
    bool named = !name || !*name || strcmp(name, "computation") == 0;
    for (uint32_t k = 0; k < p->mesh_count && !named; k++)
        named = strcmp(name, p->mesh[k].name) == 0;
    return named;
}

static remat_status verify_head(struct remat_verifier *v)
{
    const struct remat_program *p = v->program;
    uint64_t total;
    if (!p->producer || !p->graph_name || !p->target || !p->policy)
        return remat_error(v->ctx, REMAT_ERROR_INVALID, "a text of the plan's head is missing");
    if (p->arena_bytes % REMAT_ALIGNMENT)
        return remat_error(v->ctx, REMAT_ERROR_INVALID, "arena_bytes %llu is no multiple of %u",
                           (ull)p->arena_bytes, REMAT_ALIGNMENT);
    if (p->arena_bytes > REMAT_BYTES_MAX)
        return remat_error(v->ctx, REMAT_ERROR_INVALID, "arena_bytes %llu, the limit is %llu",
                           (ull)p->arena_bytes, (ull)REMAT_BYTES_MAX);
    const struct {
        const char *name;
        uint64_t bytes;
    } parts[] = {{"peak_bytes", p->peak_bytes},
                 {"static_bytes", p->static_bytes},
                 {"touched_bytes", p->touched_bytes}};
    for (size_t k = 0; k < sizeof parts / sizeof *parts; k++)
        if (parts[k].bytes > p->arena_bytes)
            return remat_error(v->ctx, REMAT_ERROR_INVALID, "%s %llu is more than arena_bytes %llu",
                               parts[k].name, (ull)parts[k].bytes, (ull)p->arena_bytes);
    if (p->workspace_bytes % REMAT_ALIGNMENT || p->workspace_bytes > p->static_bytes)
        return remat_error(v->ctx, REMAT_ERROR_INVALID,
                           "workspace_bytes %llu is no multiple of %u within static_bytes %llu",
                           (ull)p->workspace_bytes, REMAT_ALIGNMENT, (ull)p->static_bytes);
    if (!remat_add_u64(p->arena_bytes, p->reserve_bytes, &total) ||
        (p->budget_bytes && total > p->budget_bytes))
        return remat_error(
            v->ctx, REMAT_ERROR_INVALID,
            "arena_bytes %llu and reserve_bytes %llu are more than budget_bytes %llu",
            (ull)p->arena_bytes, (ull)p->reserve_bytes, (ull)p->budget_bytes);
    const uint64_t times_ns[] = {p->step_ns, p->base_step_ns};
    for (size_t k = 0; k < sizeof times_ns / sizeof *times_ns; k++)
        if (times_ns[k] > INT64_MAX)
            return remat_error(v->ctx, REMAT_ERROR_INVALID, "a step of %llu ns", (ull)times_ns[k]);
    if (p->bound_step_ns > p->step_ns)
        return remat_error(v->ctx, REMAT_ERROR_INVALID, "bound_step_ns %llu is above step_ns %llu",
                           (ull)p->bound_step_ns, (ull)p->step_ns);
    if (!names_stream(p, p->limited_by))
        return remat_error(v->ctx, REMAT_ERROR_INVALID,
                           "limited_by \"%s\" is neither computation nor an axis", p->limited_by);
    if (p->peak_command >= p->command_count && p->command_count)
        return remat_error(v->ctx, REMAT_ERROR_INVALID,
                           "peak_command %u is out of range (%u commands)", p->peak_command,
                           p->command_count);
    return REMAT_OK;
}

static remat_status verify_segments(struct remat_verifier *v)
{
    const struct remat_program *p = v->program;
    if (p->segment_count > REMAT_SEGMENTS_MAX)
        return remat_error(v->ctx, REMAT_ERROR_INVALID, "%u segments, the limit is %d",
                           p->segment_count, REMAT_SEGMENTS_MAX);
    for (uint32_t i = 0; i < p->segment_count; i++) {
        const struct remat_segment *s = &p->segments[i];
        if (!s->name)
            return remat_verify_error(v, "segments", i, NULL, "no name");
        if (s->command_begin > s->command_end || s->command_end > p->command_count)
            return remat_verify_error(v, "segments", i, s->name, "commands [%u, %u) of %u commands",
                                      s->command_begin, s->command_end, p->command_count);
    }
    return REMAT_OK;
}

static remat_status verify_entry(struct remat_verifier *v, uint32_t i)
{
    const struct remat_program *p = v->program;
    const struct remat_entry *e = &p->entries[i];
    uint64_t commands = 0;
    if (!e->name)
        return remat_verify_error(v, "entries", i, NULL, "no name");
    if (e->call_begin >= e->call_end || e->call_end > p->call_count)
        return remat_verify_error(v, "entries", i, e->name, "calls [%u, %u) of %u calls",
                                  e->call_begin, e->call_end, p->call_count);
    for (uint32_t c = e->call_begin; c < e->call_end; c++) {
        const struct remat_segment *s = &p->segments[p->calls[c].segment];
        commands += (uint64_t)p->calls[c].times * (s->command_end - s->command_begin);
        if (commands > REMAT_ENTRY_COMMANDS_MAX)
            return remat_verify_error(v, "entries", i, e->name, "it executes more than %u commands",
                                      REMAT_ENTRY_COMMANDS_MAX);
    }
    return REMAT_OK;
}

static remat_status verify_scripts(struct remat_verifier *v)
{
    remat_status st = REMAT_OK;
    const struct remat_program *p = v->program;
    if (p->entry_count > REMAT_ENTRIES_MAX)
        REMAT_FAIL(v->ctx, REMAT_ERROR_INVALID, "%u entry points, the limit is %d", p->entry_count,
                   REMAT_ENTRIES_MAX);
    for (uint32_t i = 0; i < p->call_count; i++) {
        const struct remat_call *c = &p->calls[i];
        if (c->segment >= p->segment_count)
            return remat_verify_error(v, "calls", i, NULL,
                                      "segment %u is out of range (%u segments)", c->segment,
                                      p->segment_count);
        if (c->times == 0 || c->times > REMAT_CALL_TIMES_MAX)
            return remat_verify_error(v, "calls", i, p->segments[c->segment].name,
                                      "%u times, accepted: 1 to %u", c->times,
                                      REMAT_CALL_TIMES_MAX);
        if (c->first > REMAT_CALL_TIMES_MAX - c->times)
            return remat_verify_error(v, "calls", i, p->segments[c->segment].name,
                                      "%u runs from number %u on, accepted: numbers below %u",
                                      c->times, c->first, REMAT_CALL_TIMES_MAX);
        if (c->first && p->number_tensor == REMAT_NONE)
            return remat_verify_error(v, "calls", i, p->segments[c->segment].name,
                                      "runs from number %u on, and no tensor for the number",
                                      c->first);
    }
    for (uint32_t i = 0; i < p->entry_count; i++)
        REMAT_TRY(verify_entry(v, i));
fail:
    return st;
}

/* Sums of what commands are estimated to take: all of them, and those that an entry point runs. */
static remat_status verify_times(struct remat_verifier *v)
{
    const struct remat_program *p = v->program;
    uint64_t total_ns = 0, segment_ns[REMAT_SEGMENTS_MAX] = {0}, call_ns;
    for (uint32_t c = 0; c < p->command_count; c++)
        if (!remat_add_u64(total_ns, p->commands[c].estimated_ns, &total_ns) ||
            total_ns > INT64_MAX)
            return remat_verify_error(v, "commands", c, p->commands[c].name,
                                      "with its %llu ns commands take more than 2^63 ns",
                                      (ull)p->commands[c].estimated_ns);
    for (uint32_t s = 0; s < p->segment_count; s++)
        for (uint32_t c = p->segments[s].command_begin; c < p->segments[s].command_end; c++)
            segment_ns[s] += p->commands[c].estimated_ns;
    for (uint32_t i = 0; i < p->entry_count; i++) {
        uint64_t entry_ns = 0;
        for (uint32_t c = p->entries[i].call_begin; c < p->entries[i].call_end; c++)
            if (!remat_mul_u64(segment_ns[p->calls[c].segment], p->calls[c].times, &call_ns) ||
                !remat_add_u64(entry_ns, call_ns, &entry_ns) || entry_ns > INT64_MAX)
                return remat_verify_error(v, "entries", i, p->entries[i].name,
                                          "it takes more than 2^63 ns");
    }
    return REMAT_OK;
}

static bool in_one_segment(const struct remat_program *p, const struct remat_buffer *b)
{
    for (uint32_t s = 0; s < p->segment_count; s++)
        if (b->begin >= p->segments[s].command_begin && b->end <= p->segments[s].command_end)
            return true;
    return false;
}

static remat_status verify_buffer(struct remat_verifier *v, uint32_t i, uint64_t *touched)
{
    const struct remat_program *p = v->program;
    const struct remat_buffer *b = &p->buffers[i];
    uint64_t end;
    if (b->offset_bytes % REMAT_ALIGNMENT)
        return remat_verify_error(v, "buffers", i, NULL, "offset %llu is no multiple of %u",
                                  (ull)b->offset_bytes, REMAT_ALIGNMENT);
    if (!remat_add_u64(b->offset_bytes, b->bytes, &end) || end > p->arena_bytes || !b->bytes)
        return remat_verify_error(v, "buffers", i, NULL,
                                  "%llu bytes at offset %llu in an arena of %llu bytes",
                                  (ull)b->bytes, (ull)b->offset_bytes, (ull)p->arena_bytes);
    *touched = end > *touched ? end : *touched;
    if (b->persistent && end > p->static_bytes - p->workspace_bytes)
        return remat_verify_error(
            v, "buffers", i, NULL,
            "%llu bytes at offset %llu are persistent, but that is for the first %llu bytes only",
            (ull)b->bytes, (ull)b->offset_bytes, (ull)(p->static_bytes - p->workspace_bytes));
    if (b->persistent && (b->begin != 0 || b->end != p->command_count))
        return remat_verify_error(v, "buffers", i, NULL,
                                  "persistent, but lives in [%u, %u) of %u commands", b->begin,
                                  b->end, p->command_count);
    if (!b->persistent && b->offset_bytes < p->static_bytes)
        return remat_verify_error(
            v, "buffers", i, NULL,
            "offset %llu is among the static %llu bytes, but it is not persistent",
            (ull)b->offset_bytes, (ull)p->static_bytes);
    if (!b->persistent && (b->begin >= b->end || !in_one_segment(p, b)))
        return remat_verify_error(v, "buffers", i, NULL,
                                  "it lives in [%u, %u), which is not inside one segment", b->begin,
                                  b->end);
    return REMAT_OK;
}

static remat_status verify_buffers(struct remat_verifier *v)
{
    uint64_t touched = 0;
    for (uint32_t i = 0; i < v->program->buffer_count; i++) {
        remat_status st = verify_buffer(v, i, &touched);
        if (st != REMAT_OK)
            return st;
    }
    if (touched != v->program->touched_bytes)
        return remat_error(v->ctx, REMAT_ERROR_INVALID,
                           "touched_bytes is %llu, but the highest buffer ends at %llu",
                           (ull)v->program->touched_bytes, (ull)touched);
    return REMAT_OK;
}

static remat_status verify_value(struct remat_verifier *v, uint32_t i)
{
    const struct remat_program *p = v->program;
    const struct remat_program_value *value = &p->values[i];
    uint64_t elements, bytes;
    if (!value->name || !value->scope)
        return remat_verify_error(v, "values", i, NULL, "no name or scope");
    const struct remat_dtype_row *dtype = remat_dtype_row((remat_dtype)value->dtype);
    if (!dtype->name || dtype->is_foreign)
        return remat_verify_error(v, "values", i, value->name, "unknown dtype %u", value->dtype);
    if (value->role >= REMAT_ROLE_COUNT || value->phase >= REMAT_PHASE_COUNT || value->layer < -1)
        return remat_verify_error(v, "values", i, value->name,
                                  "role %u, phase %u or layer %d is out of range", value->role,
                                  value->phase, value->layer);
    if (value->rank > REMAT_RANK_MAX)
        return remat_verify_error(v, "values", i, value->name, "%u axes, the limit is %d",
                                  value->rank, REMAT_RANK_MAX);
    if (!remat_dims_elements(value->shape, value->rank, &elements))
        return remat_verify_error(v, "values", i, value->name,
                                  "a dim is not positive or the shape is too large");
    if (!remat_mul_u64(elements, remat_dtype_bytes((remat_dtype)value->dtype), &bytes) ||
        bytes != value->bytes)
        return remat_verify_error(v, "values", i, value->name,
                                  "%llu elements of %s, but %llu bytes", (ull)elements,
                                  remat_dtype_name((remat_dtype)value->dtype), (ull)value->bytes);
    if (value->buffer >= p->buffer_count)
        return remat_verify_error(v, "values", i, value->name,
                                  "buffer %u is out of range (%u buffers)", value->buffer,
                                  p->buffer_count);
    if (bytes > p->buffers[value->buffer].bytes)
        return remat_verify_error(v, "values", i, value->name,
                                  "%llu bytes in buffer %u of %llu bytes", (ull)bytes,
                                  value->buffer, (ull)p->buffers[value->buffer].bytes);
    return REMAT_OK;
}

/* Ranks have equal parts of the whole, or equal blocks of such parts. */
static remat_status verify_part(struct remat_verifier *v, uint32_t i)
{
    const struct remat_program *p = v->program;
    const struct remat_program_value *value = &p->values[i];
    uint64_t whole, elements, blocks = 1;
    bool in_blocks = value->block_axis != REMAT_NONE;
    if (value->whole_rank == 0)
        return REMAT_OK;
    bool good = value->part_axis < p->mesh_count && value->whole_rank <= REMAT_RANK_MAX &&
                remat_dims_elements(value->whole, value->whole_rank, &whole) &&
                remat_dims_elements(value->shape, value->rank, &elements);
    if (good && in_blocks) {
        good = value->block_axis < p->mesh_count && value->block_axis != value->part_axis;
        blocks = good ? p->mesh[value->block_axis].size : 1;
    }
    good = good && whole == elements * blocks * p->mesh[value->part_axis].size && value->part_run &&
           elements * blocks % value->part_run == 0;
    return good ? REMAT_OK
                : remat_verify_error(v, "values", i, value->name,
                                     "it is no equal part of a tensor for each rank of the mesh");
}

static remat_status verify_tensors(struct remat_verifier *v)
{
    const struct remat_program *p = v->program;
    for (uint32_t i = 0; i < p->tensor_count; i++) {
        const struct remat_tensor *t = &p->tensors[i];
        if (!t->name || !*t->name)
            return remat_verify_error(v, "tensors", i, NULL, "no name");
        if (t->value >= p->value_count)
            return remat_verify_error(v, "tensors", i, t->name,
                                      "value %u is out of range (%u values)", t->value,
                                      p->value_count);
        if (t->initializer > REMAT_INIT_NORMAL)
            return remat_verify_error(v, "tensors", i, t->name, "unknown initializer %u",
                                      t->initializer);
        const struct remat_program_value *value = &p->values[t->value];
        if (t->index_bound > REMAT_INDEX_BOUND_MAX || (t->index_ignored && !t->index_bound))
            return remat_verify_error(v, "tensors", i, t->name,
                                      "indices below %u, %d ignored: out of range", t->index_bound,
                                      t->index_ignored);
        int64_t rows = value->whole_rank ? value->whole[0] : value->rank ? value->shape[0] : 1;
        if (t->unpadded_rows < 0 || t->unpadded_rows >= rows)
            return remat_verify_error(v, "tensors", i, t->name,
                                      "%lld unpadded rows of %lld: out of range",
                                      (long long)t->unpadded_rows, (long long)rows);
        if (t->index_bound && (value->role != REMAT_ROLE_INPUT || value->dtype != REMAT_I32))
            return remat_verify_error(v, "tensors", i, t->name,
                                      "indices below %u, but it is no i32 input", t->index_bound);
    }
    return REMAT_OK;
}

/* That the session writes. */
static bool is_number(const struct remat_program *p, uint32_t tensor)
{
    if (tensor >= p->tensor_count || p->tensors[tensor].value >= p->value_count)
        return false;
    const struct remat_program_value *value = &p->values[p->tensors[tensor].value];
    return value->dtype == REMAT_I32 && value->bytes == sizeof(int32_t) &&
           p->buffers[value->buffer].persistent;
}

static remat_status verify_mesh(struct remat_verifier *v)
{
    const struct remat_program *p = v->program;
    if (p->mesh_count > REMAT_MESH_AXES_MAX)
        return remat_error(v->ctx, REMAT_ERROR_INVALID, "a mesh of %u axes, the limit is %d",
                           p->mesh_count, REMAT_MESH_AXES_MAX);
    for (uint32_t i = 0; i < p->mesh_count; i++) {
        const struct remat_mesh_axis *axis = &p->mesh[i];
        if (!axis->name || !*axis->name)
            return remat_verify_error(v, "mesh", i, NULL, "no name");
        if (axis->size < 2 || axis->size > REMAT_RANKS_MAX)
            return remat_verify_error(v, "mesh", i, axis->name, "%u ranks, accepted: 2 to %d",
                                      axis->size, REMAT_RANKS_MAX);
        if (!is_number(p, axis->tensor))
            return remat_verify_error(v, "mesh", i, axis->name,
                                      "tensor %u is no persistent i32 [1] for the coordinate",
                                      axis->tensor);
    }
    return REMAT_OK;
}

/* The session alone writes it. */
static remat_status verify_number(struct remat_verifier *v)
{
    const struct remat_program *p = v->program;
    if (p->number_tensor == REMAT_NONE)
        return REMAT_OK;
    if (!is_number(p, p->number_tensor))
        return remat_error(v->ctx, REMAT_ERROR_INVALID,
                           "number_tensor: tensor %u is no persistent i32 [1] for the number of "
                           "the microbatch",
                           p->number_tensor);
    const struct remat_tensor *number = &p->tensors[p->number_tensor];
    uint32_t buffer = p->values[number->value].buffer;
    for (uint32_t i = 0; i < p->mesh_count; i++)
        if (p->values[p->tensors[p->mesh[i].tensor].value].buffer == buffer)
            return remat_verify_error(v, "mesh", i, p->mesh[i].name,
                                      "its coordinate lies in \"%s\", the number of the microbatch",
                                      number->name);
    for (uint32_t i = 0; i < p->command_count; i++)
        for (uint32_t o = p->commands[i].operand_begin; o < p->commands[i].operand_end; o++)
            if ((p->operands[o].access & REMAT_ACCESS_WRITE) &&
                p->values[p->operands[o].value].buffer == buffer)
                return remat_verify_error(v, "commands", i, p->commands[i].name,
                                          "it writes \"%s\", the number of the microbatch, which "
                                          "the session writes",
                                          number->name);
    return REMAT_OK;
}

static remat_status verify_report(struct remat_verifier *v)
{
    const struct remat_program *p = v->program;
    for (uint32_t i = 0; i < p->decision_count; i++) {
        const struct remat_decision_record *d = &p->decisions[i];
        if (!d->name || !d->scope || !d->reason)
            return remat_verify_error(v, "decisions", i, NULL, "no name, scope or reason");
        if (d->action >= REMAT_ACTION_COUNT || d->layer < -1)
            return remat_verify_error(v, "decisions", i, d->name,
                                      "action %u or layer %d is out of range", d->action, d->layer);
        uint64_t elements;
        if ((d->dtype && !remat_dtype_name((remat_dtype)d->dtype)) || d->rank > REMAT_RANK_MAX ||
            !remat_dims_elements(d->shape, d->rank, &elements))
            return remat_verify_error(v, "decisions", i, d->name,
                                      "dtype %u or a shape of %u axes is out of range", d->dtype,
                                      d->rank);
        if (d->saved_begin > d->saved_end || d->saved_end > p->command_count)
            return remat_verify_error(v, "decisions", i, d->name,
                                      "commands %u to %u are out of range (%u commands)",
                                      d->saved_begin, d->saved_end, p->command_count);
        if (d->recompute_ns && (d->action == REMAT_ACTION_SAVE || d->action == REMAT_ACTION_INLINE))
            return remat_verify_error(v, "decisions", i, d->name,
                                      "commands of its own, and action %u", d->action);
        if (d->recompute_extra_ns && !d->recomputable)
            return remat_verify_error(v, "decisions", i, d->name,
                                      "a cost of recomputing a value that cannot be recomputed");
    }
    for (uint32_t i = 0; i < p->keep_count; i++) {
        const struct remat_keep_record *k = &p->keeps[i];
        if (k->decision >= p->decision_count || (i && k->decision < k[-1].decision) ||
            k->action >= REMAT_ACTION_COUNT || !remat_keep_words[k->action].done)
            return remat_verify_error(v, "keeps", i, NULL,
                                      "decision %u or action %u is out of range or order",
                                      k->decision, k->action);
    }
    for (uint32_t i = 0; i < p->setting_count; i++)
        if (!p->settings[i].name || !p->settings[i].value)
            return remat_verify_error(v, "settings", i, NULL, "no name or value");
    for (uint32_t i = 0; i < p->manual_count; i++) {
        const struct remat_manual *m = &p->manuals[i];
        if (!m->system || !m->policy || !m->flags || m->step_ns > INT64_MAX)
            return remat_verify_error(v, "manuals", i, m->system,
                                      "no system, policy or flags, or a step of %llu ns",
                                      (ull)m->step_ns);
    }
    for (uint32_t i = 0; i < p->note_count; i++)
        if (!p->notes[i])
            return remat_verify_error(v, "notes", i, NULL, "no text");
    for (uint32_t i = 0; i < p->recomputed_layer_count; i++)
        if (p->recomputed_layers[i] >= p->layer_count)
            return remat_verify_error(v, "recomputed_layers", i, NULL,
                                      "layer %u is out of range (%u layers)",
                                      p->recomputed_layers[i], p->layer_count);
    return REMAT_OK;
}

remat_status remat_program_verify(remat_context *ctx, const struct remat_program *program)
{
    remat_status st = REMAT_OK;
    struct remat_verifier verifier = {.ctx = ctx, .program = program};
    remat_arena_init(&verifier.scratch, ctx);
    REMAT_TRY(verify_head(&verifier));
    REMAT_TRY(verify_segments(&verifier));
    REMAT_TRY(verify_scripts(&verifier));
    REMAT_TRY(verify_buffers(&verifier));
    for (uint32_t i = 0; i < program->value_count; i++)
        REMAT_TRY(verify_value(&verifier, i));
    REMAT_TRY(verify_mesh(&verifier));
    for (uint32_t i = 0; i < program->value_count; i++)
        REMAT_TRY(verify_part(&verifier, i));
    REMAT_TRY(remat_verify_kernels(&verifier));
    REMAT_TRY(remat_verify_flights_begin(&verifier));
    for (uint32_t i = 0; i < program->command_count; i++) {
        REMAT_TRY(remat_verify_command(&verifier, i));
        REMAT_TRY(remat_verify_flights(&verifier, i));
    }
    REMAT_TRY(verify_times(&verifier));
    REMAT_TRY(remat_verify_cuda(&verifier));
    REMAT_TRY(verify_tensors(&verifier));
    REMAT_TRY(remat_verify_constants(&verifier));
    REMAT_TRY(verify_number(&verifier));
    REMAT_TRY(remat_verify_names(&verifier));
    REMAT_TRY(verify_report(&verifier));
fail:
    remat_arena_release(&verifier.scratch);
    return st;
}
