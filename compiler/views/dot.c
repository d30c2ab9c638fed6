/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes are commands of the step and the values that are decided about, so that every decision is
 * seen. Where no decision is about a value, its writer leads to its readers. */
#include "formats.h"
#include "show.h"
#include "size.h"
#include "views.h"

#include <inttypes.h>
#include <stdlib.h>

/* Shape and line tell as much as the colour. */
static const struct dot_style {
    const char *shape, *line, *colour;
} styles[REMAT_ACTION_COUNT] = {
    [REMAT_ACTION_SAVE] = {"box", "solid", "#9ecae1"},
    [REMAT_ACTION_RECOMPUTE] = {"ellipse", "dashed", "#fdae6b"},
    [REMAT_ACTION_INLINE] = {"hexagon", "dotted", "#a1d99b"},
    [REMAT_ACTION_TWICE] = {"doublecircle", "dashed", "#fdae6b"},
    [REMAT_ACTION_TWICE_INLINE] = {"doubleoctagon", "dotted", "#a1d99b"},
};
static const struct dot_style kept_apart = {"box3d", "solid", "#bcbddc"};

struct dot {
    const struct remat_program *program;
    struct remat_text *out;
    uint32_t *decision;   /* by value, of recomputed ones too */
    uint32_t *writer;     /* by value: the command of the step; REMAT_NONE */
    bool *chosen, *shown; /* commands; values */
};

void dump_append_quoted(struct remat_text *out, const char *text)
{
    struct remat_text shown = {.arena = out->arena};
    remat_text_show(&shown, text);
    out->failed |= shown.failed;
    for (size_t i = 0; i < shown.count; i++)
        remat_text_append(out, "%s%c", strchr("\"\\", shown.items[i]) ? "\\" : "", shown.items[i]);
}

/* `kind` and `index`: the node's name. */
static void append_decided(const struct dot *d, char kind, uint32_t index,
                           const struct remat_decision_record *record, const char *name,
                           uint32_t instance, uint64_t bytes)
{
    const struct dot_style *style =
        styles[record->action].shape ? &styles[record->action] : &kept_apart;
    remat_text_append(d->out, "  %c%" PRIu32 " [label=\"", kind, index);
    dump_append_quoted(d->out, name);
    if (instance)
        remat_text_append(d->out, " #%" PRIu32, instance);
    remat_text_append(d->out, "\\n%s, %s\", shape=%s, style=\"filled,%s\", fillcolor=\"%s\"];\n",
                      remat_action_name(record->action), remat_short_text(bytes).text, style->shape,
                      style->line, style->colour);
}

static void append_command(const struct dot *d, uint32_t c)
{
    const struct remat_command *command = &d->program->commands[c];
    remat_text_append(d->out, "  c%" PRIu32 " [label=\"%" PRIu32 " ", c, c);
    dump_append_quoted(d->out, command->name);
    if (command->instance)
        remat_text_append(d->out, " #%" PRIu32, command->instance);
    remat_text_append(d->out, "\\n%s, %s%s\", shape=plain];\n",
                      remat_kernel_kind_name(d->program->kernels[command->kernel].kind),
                      remat_time_text(command->estimated_ns).text,
                      command->instance ? ", recomputed" : "");
}

static void append_edges(const struct dot *d, uint32_t c)
{
    const struct remat_command *command = &d->program->commands[c];
    for (uint32_t o = command->operand_begin; o < command->operand_end; o++) {
        const struct remat_operand *operand = &d->program->operands[o];
        bool update = operand->access == REMAT_ACCESS_UPDATE;
        uint32_t read = update ? operand->previous : operand->value;
        if (!(operand->access & REMAT_ACCESS_READ))
            ;
        else if (d->shown[read])
            remat_text_append(d->out, "  v%" PRIu32 " -> c%" PRIu32 ";\n", read, c);
        else if (d->decision[read] == REMAT_NONE && d->writer[read] != REMAT_NONE &&
                 d->chosen[d->writer[read]])
            remat_text_append(d->out, "  c%" PRIu32 " -> c%" PRIu32 ";\n", d->writer[read], c);
        if ((operand->access & REMAT_ACCESS_WRITE) && d->shown[operand->value])
            remat_text_append(d->out, "  c%" PRIu32 " -> v%" PRIu32 ";\n", c, operand->value);
    }
}

static void mark_command(struct dot *d, uint32_t c, int64_t layer)
{
    const struct remat_command *command = &d->program->commands[c];
    d->chosen[c] = layer < 0 || command->layer == layer;
    for (uint32_t o = command->operand_begin; o < command->operand_end; o++) {
        const struct remat_operand *operand = &d->program->operands[o];
        const uint32_t values[] = {operand->value, operand->access == REMAT_ACCESS_UPDATE
                                                       ? operand->previous
                                                       : operand->value};
        if (operand->access & REMAT_ACCESS_WRITE)
            d->writer[operand->value] = c;
        for (uint32_t i = 0; i < 2; i++)
            d->shown[values[i]] |= d->decision[values[i]] != REMAT_NONE &&
                                   (d->chosen[c] || d->program->values[values[i]].layer == layer);
    }
}

/* Decisions by value, of recomputed ones by name. */
static remat_status find_decisions(struct remat_arena *arena, struct dot *d)
{
    remat_status st = REMAT_OK;
    const struct remat_program *p = d->program;
    struct dump_decided decided;
    struct dump_index by_name;
    REMAT_TRY(dump_decided(arena, p, p->peak_command, &decided));
    REMAT_TRY(dump_index_new(arena, p->decision_count, &by_name));
    for (uint32_t i = p->decision_count; i-- > 0;)
        dump_index_add(&by_name, remat_hash_string(p->decisions[i].name, 0), i);
    d->decision = decided.decision;
    for (uint32_t v = 0; v < p->value_count; v++) {
        const char *name = p->values[v].name;
        uint32_t i = dump_index_first(&by_name, remat_hash_string(name, 0));
        while (i != REMAT_NONE && strcmp(p->decisions[i].name, name) != 0)
            i = by_name.next[i];
        if (p->values[v].instance > 0 && p->values[v].role == REMAT_ROLE_ACTIVATION)
            d->decision[v] = i;
    }
    REMAT_TRY(dump_indices(arena, p->value_count, &d->writer));
    REMAT_TRY_NEW(arena, d->chosen, p->command_count);
    REMAT_TRY_NEW(arena, d->shown, p->value_count);
fail:
    return st;
}

/* Of values, then of what only kernels have. */
static remat_status append_decisions(struct remat_arena *arena, const struct dot *d, int64_t layer)
{
    remat_status st = REMAT_OK;
    bool *has_value;
    REMAT_TRY_NEW(arena, has_value, d->program->decision_count);
    for (uint32_t v = 0; v < d->program->value_count; v++)
        if (d->shown[v]) {
            const struct remat_program_value *value = &d->program->values[v];
            append_decided(d, 'v', v, &d->program->decisions[d->decision[v]], value->name,
                           value->instance, value->bytes);
            has_value[d->decision[v]] = true;
        }
    for (uint32_t i = 0; i < d->program->decision_count; i++)
        if (!has_value[i] && (layer < 0 || d->program->decisions[i].layer == layer))
            append_decided(d, 'd', i, &d->program->decisions[i], d->program->decisions[i].name, 0,
                           d->program->decisions[i].bytes);
fail:
    return st;
}

remat_status dump_dot(remat_context *ctx, struct remat_arena *arena,
                      const struct remat_program *program, const struct dump_asked *asked,
                      struct remat_text *out)
{
    remat_status st = REMAT_OK;
    struct dot d = {.program = program, .out = out};
    const struct remat_entry *step = remat_program_step(program);
    int64_t layer = asked->layer ? strtoll(asked->layer, NULL, 10) : -1;
    bool any = layer < 0;
    REMAT_TRY(find_decisions(arena, &d));
    for (uint32_t k = step ? step->call_begin : 0; step && k < step->call_end; k++) {
        const struct remat_segment *segment = &program->segments[program->calls[k].segment];
        for (uint32_t c = segment->command_begin; c < segment->command_end; c++) {
            mark_command(&d, c, layer);
            any |= d.chosen[c];
        }
    }
    if (!any)
        REMAT_FAIL(ctx, REMAT_ERROR_USAGE, "--layer %" PRId64 ": the plan has no such layer",
                   layer);
    remat_text_append(out, "digraph \"");
    dump_append_quoted(out, program->graph_name);
    remat_text_append(out, "\" {\n  node [fontname=\"Helvetica\"];\n");
    REMAT_TRY(append_decisions(arena, &d, layer));
    for (uint32_t c = 0; c < program->command_count; c++)
        if (d.chosen[c]) {
            append_command(&d, c);
            append_edges(&d, c);
        }
    remat_text_append(out, "}\n");
fail:
    return st;
}
