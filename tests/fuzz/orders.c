/* SPDX-License-Identifier: Apache-2.0 */
/* The arena is divided at both ends of whatever commands use. Each cell has a hash. */
#include "orders.h"

#include "check.h"

#include <inttypes.h>
#include <stdlib.h>

enum { LINKS = REMAT_MESH_AXES_MAX };
/* Of a run: link 0, or 1, is as late as it may be; all are as early; anything comes next. */
enum { EARLY = LINKS, AT_RANDOM, WAYS };

struct range { /* of bytes */
    uint64_t begin, end;
};

struct cells {
    uint32_t begin, end;
};

struct link {
    uint32_t *groups, count; /* their first commands, in order */
    uint32_t next;           /* group to begin, or the one that is under way */
    bool under_way;
};

struct orders {
    const struct remat_program *p;
    uint32_t begin, end; /* of the segment */
    uint64_t *points;
    uint32_t point_count;
    struct cells *cells; /* [operand] */
    uint64_t *memory, *expected_memory;
    uint64_t *result, *expected; /* [command]: what it makes */
    uint64_t *source;            /* [command]: what a transfer under way began to read */
    bool *done;                  /* [command] */
    struct link links[LINKS];
    uint32_t computed; /* commands before it have started, and those of computation are done */
    char message[400];
};

static void *allocate(size_t count, size_t bytes)
{
    void *memory = calloc(count + 1, bytes);
    MUST(memory);
    return memory;
}

struct orders *orders_create(const struct remat_program *p)
{
    struct orders *o = allocate(1, sizeof *o);
    size_t points = 2 * (size_t)p->operand_count, commands = p->command_count;
    o->points = allocate(points, sizeof *o->points);
    o->memory = allocate(points, sizeof *o->memory);
    o->expected_memory = allocate(points, sizeof *o->memory);
    o->cells = allocate(p->operand_count, sizeof *o->cells);
    o->result = allocate(commands, sizeof *o->result);
    o->expected = allocate(commands, sizeof *o->expected);
    o->source = allocate(commands, sizeof *o->source);
    o->done = allocate(commands, sizeof *o->done);
    for (uint32_t l = 0; l < LINKS; l++)
        o->links[l].groups = allocate(commands, sizeof *o->links[l].groups);
    return o;
}

void orders_destroy(struct orders **orders)
{
    struct orders *o = *orders;
    for (uint32_t l = 0; l < LINKS; l++)
        free(o->links[l].groups);
    free(o->points);
    free(o->memory);
    free(o->expected_memory);
    free(o->cells);
    free(o->result);
    free(o->expected);
    free(o->source);
    free(o->done);
    free(o);
    *orders = NULL;
}

/* --- the arena --- */

/* Of a transfer, the whole buffer. */
static struct range bytes_of(const struct remat_program *p, uint32_t command,
                             const struct remat_operand *o)
{
    const struct remat_buffer *b = &p->buffers[p->values[o->value].buffer];
    uint64_t size = remat_dtype_bytes((remat_dtype)o->dtype), last = o->offset_elements;
    if (p->commands[command].complete_before)
        return (struct range){b->offset_bytes, b->offset_bytes + b->bytes};
    for (uint32_t d = 0; d < o->rank; d++)
        last += (uint64_t)(o->shape[d] - 1) * (uint64_t)o->strides[d];
    return (struct range){b->offset_bytes + o->offset_elements * size,
                          b->offset_bytes + (last + 1) * size};
}

static int compare_points(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static uint32_t cell_at(const struct orders *o, uint64_t offset)
{
    uint32_t low = 0, high = o->point_count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (o->points[middle] < offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void divide_arena(struct orders *o)
{
    const struct remat_program *p = o->p;
    uint32_t count = 0;
    o->point_count = 0;
    for (uint32_t c = o->begin; c < o->end; c++)
        for (uint32_t k = p->commands[c].operand_begin; k < p->commands[c].operand_end; k++) {
            struct range bytes = bytes_of(p, c, &p->operands[k]);
            o->points[count++] = bytes.begin;
            o->points[count++] = bytes.end;
        }
    qsort(o->points, count, sizeof *o->points, compare_points);
    for (uint32_t i = 0; i < count; i++)
        if (!o->point_count || o->points[o->point_count - 1] != o->points[i])
            o->points[o->point_count++] = o->points[i];
    for (uint32_t c = o->begin; c < o->end; c++)
        for (uint32_t k = p->commands[c].operand_begin; k < p->commands[c].operand_end; k++) {
            struct range bytes = bytes_of(p, c, &p->operands[k]);
            o->cells[k] = (struct cells){cell_at(o, bytes.begin), cell_at(o, bytes.end)};
        }
}

static uint64_t mix(uint64_t a, uint64_t b)
{
    struct random random = {a ^ (b * UINT64_C(0xd6e8feb86659fd93))};
    return random_u64(&random);
}

static void erase(struct orders *o)
{
    for (uint32_t i = 0; i < o->point_count; i++)
        o->memory[i] = mix(i, UINT64_MAX);
}

/* --- commands --- */

/* Of what it reads; of computation, also of what it writes, so that no write is lost. */
static uint64_t read_operands(const struct orders *o, uint32_t command)
{
    const struct remat_command *c = &o->p->commands[command];
    uint64_t hash = command;
    for (uint32_t k = c->operand_begin; k < c->operand_end; k++)
        for (uint32_t i = o->cells[k].begin; i < o->cells[k].end; i++)
            if (!c->complete_before || o->p->operands[k].access == REMAT_ACCESS_READ)
                hash = mix(hash, o->memory[i]);
    return hash;
}

static void write_operands(struct orders *o, uint32_t command, uint64_t hash)
{
    const struct remat_command *c = &o->p->commands[command];
    for (uint32_t k = c->operand_begin; k < c->operand_end; k++)
        for (uint32_t i = o->cells[k].begin; i < o->cells[k].end; i++)
            if (o->p->operands[k].access != REMAT_ACCESS_READ)
                o->memory[i] = mix(hash, i);
}

static bool still_holds(const struct orders *o, uint32_t command, uint64_t hash)
{
    const struct remat_command *c = &o->p->commands[command];
    bool holds = true;
    for (uint32_t k = c->operand_begin; k < c->operand_end; k++)
        for (uint32_t i = o->cells[k].begin; i < o->cells[k].end; i++)
            if (o->p->operands[k].access != REMAT_ACCESS_READ)
                holds &= o->memory[i] == mix(hash, i);
    return holds;
}

static void complain(struct orders *o, uint32_t command, const char *what)
{
    if (!*o->message)
        snprintf(o->message, sizeof o->message, "commands[%u] \"%.200s\" %s", command,
                 o->p->commands[command].name, what);
}

static void execute(struct orders *o, uint32_t command)
{
    o->result[command] = read_operands(o, command);
    write_operands(o, command, o->result[command]);
    o->done[command] = true;
}

/* --- streams --- */

static bool is_transfer(const struct orders *o, uint32_t command)
{
    return o->p->commands[command].complete_before != 0;
}

static uint32_t link_of(const struct orders *o, uint32_t command)
{
    return (uint32_t)o->p->parameters[o->p->commands[command].parameter_begin];
}

static uint32_t group_end(const struct orders *o, uint32_t group)
{
    uint32_t end = group + 1;
    while (end < o->end && o->p->commands[end].continues_group)
        end++;
    return end;
}

static void list_groups(struct orders *o)
{
    for (uint32_t l = 0; l < LINKS; l++)
        o->links[l].count = 0;
    for (uint32_t c = o->begin; c < o->end; c++) {
        struct link *link = is_transfer(o, c) ? &o->links[link_of(o, c)] : NULL;
        if (link && (c == o->begin || !o->p->commands[c].continues_group))
            link->groups[link->count++] = c;
    }
}

/* Whether computation may go past its next command, or past the end. */
static bool may_compute(const struct orders *o)
{
    bool may = true;
    for (uint32_t c = o->begin; c < o->computed; c++)
        may &= !is_transfer(o, c) || o->done[c] || o->p->commands[c].complete_before > o->computed;
    return may;
}

static bool may_begin(const struct orders *o, const struct link *link)
{
    if (link->under_way || link->next == link->count)
        return false;
    uint32_t group = link->groups[link->next], waits_for = o->p->commands[group].waits_for;
    return group < o->computed && (!waits_for || o->done[waits_for - 1]);
}

/* All of a group at once: none has what another one makes. */
static void begin_group(struct orders *o, struct link *link)
{
    uint32_t group = link->groups[link->next], end = group_end(o, group);
    for (uint32_t c = group; c < end; c++)
        o->source[c] = read_operands(o, c);
    for (uint32_t c = group; c < end; c++)
        write_operands(o, c, mix(c, UINT64_MAX));
    link->under_way = true;
}

static void end_group(struct orders *o, struct link *link)
{
    uint32_t group = link->groups[link->next++], end = group_end(o, group);
    for (uint32_t c = group; c < end; c++) {
        if (read_operands(o, c) != o->source[c])
            complain(o, c, "sends what changes meanwhile");
        if (!still_holds(o, c, mix(c, UINT64_MAX)))
            complain(o, c, "receives where others write meanwhile");
    }
    for (uint32_t c = group; c < end; c++)
        execute(o, c);
    link->under_way = false;
}

static void compute(struct orders *o)
{
    if (!is_transfer(o, o->computed))
        execute(o, o->computed);
    o->computed++;
}

/* --- orders --- */

/* Those whose next group may begin, or end, but for the one of number `delayed`. */
static uint32_t find_ready(struct orders *o, uint32_t delayed, struct link *ready[LINKS])
{
    uint32_t count = 0;
    for (uint32_t l = 0; l < LINKS; l++)
        if (l != delayed && (o->links[l].under_way || may_begin(o, &o->links[l])))
            ready[count++] = &o->links[l];
    return count;
}

/* One thing that may come next, by the way of the run; false: nothing may, or all is done. */
static bool go_on(struct orders *o, struct random *random, uint32_t way)
{
    struct link *ready[LINKS];
    bool computes = o->computed < o->end && may_compute(o);
    uint32_t count = find_ready(o, way, ready);
    if (way < LINKS && !computes && !count)
        count = find_ready(o, LINKS, ready);
    if (computes &&
        (way < LINKS || !count || (way == AT_RANDOM && random_below(random, count + 1) == 0))) {
        compute(o);
    } else if (count) {
        struct link *link = ready[random_below(random, count)];
        (link->under_way ? end_group : begin_group)(o, link);
    }
    return computes || count;
}

static void run_once(struct orders *o, struct random *random, uint32_t way)
{
    erase(o);
    o->computed = o->begin;
    for (uint32_t l = 0; l < LINKS; l++) {
        o->links[l].next = 0;
        o->links[l].under_way = false;
    }
    memset(&o->done[o->begin], 0, (o->end - o->begin) * sizeof *o->done);
    while (go_on(o, random, way))
        ;
    for (uint32_t c = o->begin; c < o->end; c++)
        if (!o->done[c])
            complain(o, c, "never runs");
        else if (o->result[c] != o->expected[c])
            complain(o, c, "has other bits");
    if (memcmp(o->memory, o->expected_memory, o->point_count * sizeof *o->memory) != 0)
        complain(o, o->end - 1, "ends with other bits in the arena");
}

static void expect(struct orders *o)
{
    erase(o);
    for (uint32_t c = o->begin; c < o->end; c++)
        execute(o, c);
    memcpy(o->expected, o->result, o->p->command_count * sizeof *o->expected);
    memcpy(o->expected_memory, o->memory, o->point_count * sizeof *o->memory);
}

const char *orders_try(struct orders *o, const struct remat_program *program, struct random *random,
                       uint32_t runs)
{
    o->p = program;
    *o->message = 0;
    for (uint32_t s = 0; s < program->segment_count; s++) {
        o->begin = program->segments[s].command_begin;
        o->end = program->segments[s].command_end;
        if (o->begin == o->end)
            continue;
        divide_arena(o);
        list_groups(o);
        expect(o);
        for (uint32_t run = 0; run < runs && !*o->message; run++)
            run_once(o, random, run % WAYS);
    }
    return o->message;
}
