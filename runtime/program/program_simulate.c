/* The naive replay: for each buffer the value that it holds, command by command. It believes only
 * lifespans, offsets and accesses, and recomputes everything that the plan claims from them. */
#include "program.h"

typedef unsigned long long ull;

struct replay {
    remat_context *ctx;
    const struct remat_program *p;
    const struct remat_segment *segment;
    uint32_t *held;     /* [buffer]: value, REMAT_NONE when nothing was written in its lifespan */
    uint32_t *writer;   /* [buffer]: command that wrote it last, REMAT_NONE: before the segment */
    uint32_t *previous; /* [value]: what it was updated from in this segment */
    bool *written;      /* [value]: by some command of this segment, without UPDATE */
    uint32_t *born;     /* [command]: first buffer of a list that is born there, REMAT_NONE */
    uint32_t *sibling;  /* [buffer]: the next in that list */
    uint32_t *live;     /* the buffers that live now, persistent ones first */
    uint32_t live_count, persistent_count;
};

static bool is_live(const struct remat_buffer *b, uint32_t command)
{
    return b->persistent || (b->begin <= command && command < b->end);
}

static uint64_t padded(const struct remat_buffer *b)
{
    return remat_align_up(b->bytes, REMAT_ALIGNMENT);
}

/* Whether `newer` came from `older` by updates. */
static bool descends(const struct replay *r, uint32_t newer, uint32_t older)
{
    for (uint32_t steps = 0; newer != REMAT_NONE && steps <= r->p->value_count; steps++) {
        if (newer == older)
            return true;
        newer = r->previous[newer];
    }
    return false;
}

/* --- the beginning and the end of a segment --- */

/* Persistent buffers hold their tensors' first versions, but for those that the segment writes. */
static remat_status begin_segment(struct replay *r)
{
    const struct remat_program *p = r->p;
    memset(r->written, 0, p->value_count * sizeof *r->written);
    memset(r->held, 0xff, p->buffer_count * sizeof *r->held);
    memset(r->writer, 0xff, p->buffer_count * sizeof *r->writer);
    memset(r->previous, 0xff, p->value_count * sizeof *r->previous);
    for (uint32_t c = r->segment->command_begin; c < r->segment->command_end; c++)
        for (uint32_t k = p->commands[c].operand_begin; k < p->commands[c].operand_end; k++)
            if (p->operands[k].access == REMAT_ACCESS_WRITE)
                r->written[p->operands[k].value] = true;
    for (uint32_t t = 0; t < p->tensor_count; t++) {
        uint32_t value = p->tensors[t].value, buffer = p->values[value].buffer;
        if (!p->buffers[buffer].persistent || r->written[value])
            continue;
        if (r->held[buffer] != REMAT_NONE && r->held[buffer] != value)
            return remat_error(r->ctx, REMAT_ERROR_INTERNAL,
                               "tensors[%u] \"%s\": its buffer %u is that of \"%s\", too", t,
                               p->tensors[t].name, buffer, p->values[r->held[buffer]].name);
        r->held[buffer] = value;
    }
    return REMAT_OK;
}

/* State is there for the next step, outputs are there for the host. */
static remat_status end_segment(const struct replay *r)
{
    const struct remat_program *p = r->p;
    for (uint32_t t = 0; t < p->tensor_count; t++) {
        uint32_t value = p->tensors[t].value, buffer = p->values[value].buffer;
        uint8_t role = p->values[value].role;
        bool state = role == REMAT_ROLE_PARAMETER || role == REMAT_ROLE_OPTIMIZER_STATE ||
                     role == REMAT_ROLE_CONSTANT || role == REMAT_ROLE_GRADIENT;
        if (state && p->buffers[buffer].persistent && r->held[buffer] != REMAT_NONE &&
            !descends(r, r->held[buffer], value))
            return remat_error(r->ctx, REMAT_ERROR_INTERNAL,
                               "segment \"%s\": at its end the buffer %u of \"%s\" holds \"%s\", "
                               "written by commands[%u]",
                               r->segment->name, buffer, p->tensors[t].name,
                               p->values[r->held[buffer]].name, r->writer[buffer]);
    }
    for (uint32_t v = 0; v < p->value_count; v++) {
        const struct remat_program_value *value = &p->values[v];
        const struct remat_buffer *b = &p->buffers[value->buffer];
        if (value->role != REMAT_ROLE_OUTPUT || (!r->written[v] && r->previous[v] == REMAT_NONE))
            continue;
        if (!descends(r, r->held[value->buffer], v) ||
            (!b->persistent && b->end < r->segment->command_end))
            return remat_error(r->ctx, REMAT_ERROR_INTERNAL,
                               "segment \"%s\": its output \"%s\" is gone at its end",
                               r->segment->name, value->name);
    }
    return REMAT_OK;
}

/* --- one command --- */

static remat_status overlap(const struct replay *r, uint32_t command, uint32_t i, uint32_t j)
{
    const struct remat_buffer *a = &r->p->buffers[i], *b = &r->p->buffers[j];
    return remat_error(r->ctx, REMAT_ERROR_INTERNAL,
                       "commands[%u] \"%s\": buffers %u [%llu, %llu) and %u [%llu, %llu) live at "
                       "once and overlap",
                       command, r->p->commands[command].name, i, (ull)a->offset_bytes,
                       (ull)(a->offset_bytes + a->bytes), j, (ull)b->offset_bytes,
                       (ull)(b->offset_bytes + b->bytes));
}

/* The buffer joins those that live, beside all of which it must lie; beside the persistent ones it
 * does (program_verify.c). */
static remat_status add_live(struct replay *r, uint32_t command, uint32_t i)
{
    const struct remat_buffer *a = &r->p->buffers[i];
    for (uint32_t k = r->persistent_count; k < r->live_count; k++) {
        const struct remat_buffer *b = &r->p->buffers[r->live[k]];
        if (a->offset_bytes < b->offset_bytes + b->bytes &&
            b->offset_bytes < a->offset_bytes + a->bytes)
            return overlap(r, command, r->live[k], i);
    }
    r->live[r->live_count++] = i;
    return REMAT_OK;
}

static void drop_dead(struct replay *r, uint32_t command)
{
    uint32_t kept = r->persistent_count;
    for (uint32_t k = kept; k < r->live_count; k++)
        if (is_live(&r->p->buffers[r->live[k]], command))
            r->live[kept++] = r->live[k];
    r->live_count = kept;
}

/* Buffers that are born now hold nothing; those that live now are as many bytes as claimed. */
static remat_status birth(struct replay *r, uint32_t command)
{
    remat_status st = REMAT_OK;
    const struct remat_program *p = r->p;
    uint64_t live_bytes = p->static_bytes;
    drop_dead(r, command);
    for (uint32_t i = r->born[command]; i != REMAT_NONE; i = r->sibling[i]) {
        REMAT_TRY(add_live(r, command, i));
        r->held[i] = r->writer[i] = REMAT_NONE;
    }
    for (uint32_t k = r->persistent_count; k < r->live_count; k++)
        live_bytes += padded(&p->buffers[r->live[k]]);
    if (live_bytes != p->commands[command].live_bytes)
        REMAT_FAIL(r->ctx, REMAT_ERROR_INTERNAL,
                   "commands[%u] \"%s\": live_bytes is %llu, but %llu bytes are live", command,
                   p->commands[command].name, (ull)p->commands[command].live_bytes,
                   (ull)live_bytes);
fail:
    return st;
}

static remat_status wrong_read(const struct replay *r, uint32_t command, uint32_t k, uint32_t v)
{
    const struct remat_program *p = r->p;
    const struct remat_command *c = &p->commands[command];
    const char *name = p->values[v].name;
    uint32_t buffer = p->values[v].buffer, held = r->held[buffer], writer = r->writer[buffer];
    const struct remat_buffer *b = &p->buffers[buffer];
    if (!is_live(b, command))
        return remat_error(r->ctx, REMAT_ERROR_INTERNAL,
                           "commands[%u] \"%s\": operand %u uses \"%s\", but its buffer %u lives "
                           "only in [%u, %u)",
                           command, c->name, k, name, buffer, b->begin, b->end);
    if (held == REMAT_NONE)
        return remat_error(r->ctx, REMAT_ERROR_INTERNAL,
                           "commands[%u] \"%s\": operand %u reads \"%s\", which nothing has "
                           "written yet",
                           command, c->name, k, name);
    if (writer == REMAT_NONE)
        return remat_error(r->ctx, REMAT_ERROR_INTERNAL,
                           "commands[%u] \"%s\": operand %u reads \"%s\", but its buffer %u holds "
                           "the tensor \"%s\"",
                           command, c->name, k, name, buffer, p->values[held].name);
    return remat_error(r->ctx, REMAT_ERROR_INTERNAL,
                       "commands[%u] \"%s\": operand %u reads \"%s\", but its buffer %u holds "
                       "%s\"%s\" (values[%u], instance %u), written by commands[%u] \"%s\"",
                       command, c->name, k, name, buffer,
                       descends(r, held, v) ? "the newer version " : "", p->values[held].name, held,
                       p->values[held].instance, writer, p->commands[writer].name);
}

/* Strides of axes of one element say nothing. */
static bool is_same_view(const struct remat_operand *x, const struct remat_operand *y)
{
    bool same =
        x->offset_elements == y->offset_elements && x->rank == y->rank && x->dtype == y->dtype;
    for (uint8_t k = 0; same && k < x->rank; k++)
        same = x->shape[k] == y->shape[k] && (x->shape[k] == 1 || x->strides[k] == y->strides[k]);
    return same;
}

/* Two operands of one command in one buffer: a kernel program may store where it loads, element for
 * element; nothing else may. */
static remat_status check_sharing(const struct replay *r, uint32_t command, uint32_t k)
{
    const struct remat_program *p = r->p;
    const struct remat_command *c = &p->commands[command];
    const struct remat_operand *o = &p->operands[c->operand_begin + k];
    for (uint32_t j = 0; j < c->operand_end - c->operand_begin; j++) {
        const struct remat_operand *other = &p->operands[c->operand_begin + j];
        if (j == k || p->values[other->value].buffer != p->values[o->value].buffer)
            continue;
        if (other->access == REMAT_ACCESS_READ && is_same_view(other, o) &&
            p->kernels[c->kernel].kind == REMAT_KERNEL_program)
            continue;
        return remat_error(r->ctx, REMAT_ERROR_INTERNAL,
                           "commands[%u] \"%s\": operand %u writes \"%s\" in buffer %u, which "
                           "operand %u uses, too",
                           command, c->name, k, p->values[o->value].name,
                           p->values[o->value].buffer, j);
    }
    return REMAT_OK;
}

static remat_status replay_command(struct replay *r, uint32_t command)
{
    remat_status st = REMAT_OK;
    const struct remat_program *p = r->p;
    const struct remat_command *c = &p->commands[command];
    REMAT_TRY(birth(r, command));
    for (uint32_t k = 0; k < c->operand_end - c->operand_begin; k++) {
        const struct remat_operand *o = &p->operands[c->operand_begin + k];
        uint32_t read = o->access == REMAT_ACCESS_READ ? o->value : o->previous;
        uint32_t buffer = p->values[o->value].buffer;
        if (!is_live(&p->buffers[buffer], command) ||
            (o->access != REMAT_ACCESS_WRITE && r->held[buffer] != read))
            return wrong_read(r, command, k, o->access == REMAT_ACCESS_WRITE ? o->value : read);
        if (o->access != REMAT_ACCESS_READ)
            REMAT_TRY(check_sharing(r, command, k));
    }
    for (uint32_t k = c->operand_begin; k < c->operand_end; k++) {
        const struct remat_operand *o = &p->operands[k];
        uint32_t buffer = p->values[o->value].buffer;
        if (o->access == REMAT_ACCESS_READ)
            continue;
        if (o->access == REMAT_ACCESS_UPDATE)
            r->previous[o->value] = o->previous;
        r->held[buffer] = o->value;
        r->writer[buffer] = command;
    }
fail:
    return st;
}

/* --- the whole --- */

static remat_status check_peak(remat_context *ctx, const struct remat_program *p)
{
    uint64_t peak = p->command_count ? 0 : p->static_bytes;
    for (uint32_t c = 0; c < p->command_count; c++)
        peak = p->commands[c].live_bytes > peak ? p->commands[c].live_bytes : peak;
    if (p->peak_bytes != peak)
        return remat_error(ctx, REMAT_ERROR_INTERNAL,
                           "peak_bytes is %llu, but the live peak is %llu", (ull)p->peak_bytes,
                           (ull)peak);
    if (p->command_count && p->commands[p->peak_command].live_bytes != peak)
        return remat_error(ctx, REMAT_ERROR_INTERNAL,
                           "peak_command %u: %llu bytes are live there, the peak is %llu",
                           p->peak_command, (ull)p->commands[p->peak_command].live_bytes,
                           (ull)peak);
    return REMAT_OK;
}

static remat_status list_births(struct replay *r)
{
    remat_status st = REMAT_OK;
    const struct remat_program *p = r->p;
    memset(r->born, 0xff, p->command_count * sizeof *r->born);
    for (uint32_t i = p->buffer_count; i-- > 0;)
        if (!p->buffers[i].persistent) {
            r->sibling[i] = r->born[p->buffers[i].begin];
            r->born[p->buffers[i].begin] = i;
        }
    for (uint32_t i = 0; i < p->buffer_count; i++)
        if (p->buffers[i].persistent && p->command_count)
            REMAT_TRY(add_live(r, 0, i));
    r->persistent_count = r->live_count;
fail:
    return st;
}

remat_status remat_program_simulate(remat_context *ctx, const struct remat_program *program)
{
    remat_status st = REMAT_OK;
    struct remat_arena scratch;
    struct replay replay = {.ctx = ctx, .p = program};
    remat_arena_init(&scratch, ctx);
    REMAT_NEW(&scratch, replay.held, program->buffer_count);
    REMAT_NEW(&scratch, replay.writer, program->buffer_count);
    REMAT_NEW(&scratch, replay.previous, program->value_count);
    REMAT_NEW(&scratch, replay.written, program->value_count);
    REMAT_NEW(&scratch, replay.born, program->command_count);
    REMAT_NEW(&scratch, replay.sibling, program->buffer_count);
    REMAT_NEW(&scratch, replay.live, program->buffer_count);
    REMAT_TRY(list_births(&replay));
    for (uint32_t s = 0; s < program->segment_count; s++) {
        replay.segment = &program->segments[s];
        REMAT_TRY(begin_segment(&replay));
        for (uint32_t c = replay.segment->command_begin; c < replay.segment->command_end; c++)
            REMAT_TRY(replay_command(&replay, c));
        REMAT_TRY(end_segment(&replay));
    }
    REMAT_TRY(check_peak(ctx, program));
fail:
    remat_arena_release(&scratch);
    return st;
}
