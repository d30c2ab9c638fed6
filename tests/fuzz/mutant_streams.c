/* SPDX-License-Identifier: Apache-2.0 */
#include "mutant.h"

#include <string.h>

static bool is_transfer(const struct remat_program *p, uint32_t command)
{
    return p->commands[command].complete_before != 0;
}

/* REMAT_NONE: none was found. */
static uint32_t some_transfer(struct mutant *m, uint32_t before)
{
    for (int tries = 0; tries < 40; tries++) {
        uint32_t c = (uint32_t)mutant_below(m, before);
        if (is_transfer(m->program, c))
            return c;
    }
    return REMAT_NONE;
}

static void set_index(struct mutant *m, uint32_t *at, uint32_t value)
{
    mutant_set(m, at, &value, sizeof value);
}

/* What the command uses lives from there, and until there. */
static void let_live(struct mutant *m, uint32_t command, uint32_t begin, uint32_t end)
{
    struct remat_program *p = m->program;
    const struct remat_command *c = &p->commands[command];
    for (uint32_t k = c->operand_begin; k < c->operand_end && k < p->operand_count; k++) {
        struct remat_buffer *b = &p->buffers[p->values[p->operands[k].value].buffer];
        if (!b->persistent && b->begin > begin)
            set_index(m, &b->begin, begin);
        if (!b->persistent && b->end < end)
            set_index(m, &b->end, end);
    }
}

static uint32_t group_begin(const struct remat_program *p, uint32_t command)
{
    while (command && p->commands[command].continues_group)
        command--;
    return command;
}

/* A little earlier or later, or anywhere. */
static uint32_t other_end(struct mutant *m, uint32_t transfer)
{
    uint32_t end = m->program->commands[transfer].complete_before;
    if (mutant_below(m, 4) == 0)
        return transfer + 1 + (uint32_t)mutant_below(m, m->program->command_count - transfer);
    return mutant_below(m, 2) ? end + 1 + (uint32_t)mutant_below(m, 3)
                              : end - 1 - (uint32_t)mutant_below(m, 3);
}

static void complete_group(struct mutant *m, uint32_t transfer, uint32_t before)
{
    struct remat_program *p = m->program;
    uint32_t begin = group_begin(p, transfer), end = remat_group_end(p, transfer);
    bool lives = mutant_below(m, 8) != 0;
    for (uint32_t c = begin; c < end; c++) {
        set_index(m, &p->commands[c].complete_before, before);
        if (lives)
            let_live(m, c, UINT32_MAX, before);
    }
}

static void join_or_leave_group(struct mutant *m, uint32_t transfer)
{
    struct remat_command *c = &m->program->commands[transfer];
    bool continues = !c->continues_group;
    mutant_set(m, &c->continues_group, &continues, sizeof continues);
    set_index(m, &c->waits_for, 0);
    if (continues && transfer)
        complete_group(m, transfer, c[-1].complete_before);
}

static void wait_for_another(struct mutant *m, uint32_t transfer)
{
    struct remat_command *c = &m->program->commands[transfer];
    uint32_t other = some_transfer(m, transfer);
    bool none = other == REMAT_NONE || mutant_below(m, 3) == 0;
    set_index(m, &c->waits_for, none ? 0 : other + 1);
}

/* A command before, or after; what both use lives meanwhile. */
static void start_elsewhere(struct mutant *m, uint32_t transfer)
{
    struct remat_program *p = m->program;
    uint32_t first = transfer - (transfer > 0 && mutant_below(m, 2));
    if (first + 1 >= p->command_count)
        return;
    struct remat_command *x = &p->commands[first], *y = x + 1, earlier = *x, later = *y;
    mutant_set(m, x, &later, sizeof later);
    mutant_set(m, y, &earlier, sizeof earlier);
    let_live(m, first, first, first + 2);
    let_live(m, first + 1, first, first + 2);
}

/* What another one brings, of as many bytes: only an order of the two makes that good. */
static void send_what_comes(struct mutant *m, uint32_t transfer)
{
    struct remat_program *p = m->program;
    uint32_t other = some_transfer(m, transfer);
    if (other == REMAT_NONE)
        return;
    struct remat_operand *o = &p->operands[p->commands[transfer].operand_begin];
    uint32_t brought = p->operands[p->commands[other].operand_begin + 1].value;
    if (p->values[brought].dtype != p->values[o->value].dtype ||
        p->values[brought].bytes < p->values[o->value].bytes)
        return;
    mutant_set(m, &o->value, &brought, sizeof brought);
    let_live(m, transfer, UINT32_MAX, p->commands[transfer].complete_before);
    if (mutant_below(m, 2))
        set_index(m, &p->commands[group_begin(p, transfer)].waits_for, other + 1);
}

void mutant_change_stream(struct mutant *m)
{
    struct remat_program *p = m->program;
    uint32_t transfer = some_transfer(m, p->command_count), before;
    if (transfer == REMAT_NONE)
        return;
    before = other_end(m, transfer);
    switch (mutant_below(m, 10)) {
    case 0:
        set_index(m, &p->commands[transfer].complete_before, before);
        break;
    case 1:
    case 2:
        join_or_leave_group(m, transfer);
        break;
    case 3:
    case 4:
        wait_for_another(m, transfer);
        break;
    case 5:
        start_elsewhere(m, transfer);
        break;
    case 6:
    case 7:
        send_what_comes(m, transfer);
        break;
    default:
        complete_group(m, transfer, before);
    }
}

void mutant_plant_race(struct mutant *m)
{
    struct remat_program *p = m->program;
    uint32_t transfer = some_transfer(m, p->command_count);
    if (transfer == REMAT_NONE)
        return;
    struct remat_command *first = &p->commands[group_begin(p, transfer)];
    uint32_t before = first->complete_before + 1 + (uint32_t)mutant_below(m, 20);
    if (first->waits_for && mutant_below(m, 2))
        set_index(m, &first->waits_for, 0);
    else
        complete_group(m, transfer, before < p->command_count ? before : p->command_count);
    mutant_repair(m);
}
