/* A task that reads an item computed again may make it in its own kernel. Where the item's program
 * readers cannot be in that kernel, since it is closed before they come, they have another clone or
 * read this one from memory. So the kernel reads something that the item is made of, beyond what is
 * read without it, or they read as much as the item. What may be read there anyway, or for another
 * task in the same kernel, does not count. */
#include "sources.h"

struct sources {
    struct remat_arena *arena;
    const struct remat_traffic_table *table;
    const struct remat_parts *parts;
    struct remat_border_graph *border;
    int64_t *made_ps[2];  /* by problem and item: the least that a kernel reads that makes it */
    uint32_t *charged;    /* by item: for which item's task it is read, item_count: for several */
    uint32_t *seen, walk; /* by item: the last walk that met it */
};

enum problem { LEAST, LIKELY };

static struct remat_border *problem_of(const struct sources *s, enum problem problem)
{
    return problem == LEAST ? &s->border->least : &s->border->likely;
}

static uint32_t root_of(const struct sources *s, uint32_t item)
{
    return s->border->item_value[item].i;
}

static bool is_program(const struct sources *s, uint32_t item)
{
    return remat_traffic_programmed(s->table, root_of(s, item));
}

static bool meets(struct sources *s, uint32_t item)
{
    bool again = s->seen[item] == s->walk;
    s->seen[item] = s->walk;
    return !again;
}

/* By this node the kernel that makes an item again is closed: where a named kernel reads it, or a
 * program that cannot be in that kernel, or what reads a program that can. */
static uint32_t closed_at(const struct remat_traffic_table *table, const struct remat_parts *parts,
                          uint32_t item, const struct remat_traffic *t)
{
    return t->named ? table->first_node[t->first_named] : parts->readers[item].closed;
}

bool remat_extract_has_host(const struct remat_traffic_table *table,
                            const struct remat_parts *parts,
                            const struct remat_border_graph *border, uint32_t item,
                            const struct remat_traffic *t, uint32_t read)
{
    return remat_traffic_first_late(table, border->item_value[read].i) <
           closed_at(table, parts, item, t);
}

/* The largest thing that a program makes the item of, or the item itself if that is less. */
static void find_made(const struct sources *s, enum problem problem)
{
    const struct remat_border *border = problem_of(s, problem);
    int64_t *made_ps = s->made_ps[problem];
    for (uint32_t i = 0; i < border->item_count; i++) {
        int64_t most = is_program(s, i) ? 0 : border->read_ps[i];
        const struct remat_border_task *task = remat_extract_task(s->border, i);
        for (uint32_t e = task->input_begin; e < task->input_end; e++)
            if (is_program(s, i) && remat_border_needs(border, e) &&
                made_ps[border->inputs[e]] > most)
                most = made_ps[border->inputs[e]];
        made_ps[i] = most < border->read_ps[i] ? most : border->read_ps[i];
    }
}

/* Programs that read `u` come behind the kernel of `item`, and count as if they did not read it. */
static bool is_made_twice(const struct sources *s, uint32_t item, const struct remat_traffic *t,
                          uint32_t u)
{
    const struct remat_part_readers *readers = &s->parts->readers[u];
    return !remat_traffic_of(s->table, root_of(s, u)).named && readers->joins &&
           readers->first_node >= closed_at(s->table, s->parts, item, t);
}

/* Where the task of `item` runs, `source` or something that it is made of may be read anyway. */
static bool is_read_anyway(struct sources *s, uint32_t item, const struct remat_traffic *t,
                           uint32_t source)
{
    const struct remat_border_task *task = remat_extract_task(s->border, source);
    if (!meets(s, source))
        return false;
    if (remat_extract_has_host(s->table, s->parts, s->border, item, t, source))
        return true;
    for (uint32_t e = task->input_begin; e < task->input_end; e++)
        if (is_program(s, source) && is_read_anyway(s, item, t, s->border->least.inputs[e]))
            return true;
    return false;
}

/* Another task than that of `of` is charged for `source`, or for something that it is made of. */
static bool is_contested(struct sources *s, uint32_t source, uint32_t of)
{
    const struct remat_border_task *task = remat_extract_task(s->border, source);
    uint32_t by = s->charged[source];
    if (!meets(s, source))
        return false;
    if (!remat_is_none(by) && by != of)
        return true;
    for (uint32_t e = task->input_begin; e < task->input_end; e++)
        if (is_program(s, source) && is_contested(s, s->border->least.inputs[e], of))
            return true;
    return false;
}

/* All that is_contested looks at is charged for `of` from now on. */
static void charge(struct sources *s, uint32_t source, uint32_t of)
{
    const struct remat_border_task *task = remat_extract_task(s->border, source);
    if (!meets(s, source))
        return;
    s->charged[source] = of;
    for (uint32_t e = task->input_begin; e < task->input_end; e++)
        if (is_program(s, source))
            charge(s, s->border->least.inputs[e], of);
}

/* What making `u` in the kernel of `item` reads at least of a single input; REMAT_NONE: nothing
 * that counts. */
static uint32_t find_source(struct sources *s, uint32_t item, const struct remat_traffic *t,
                            uint32_t u)
{
    const struct remat_border_task *task = remat_extract_task(s->border, u);
    uint32_t best = REMAT_NONE;
    for (uint32_t e = task->input_begin; e < task->input_end; e++) {
        uint32_t input = s->border->least.inputs[e];
        s->walk++;
        bool counts =
            remat_border_needs(&s->border->least, e) && !is_read_anyway(s, item, t, input);
        s->walk++;
        counts = counts && !is_contested(s, input, u);
        if (counts && (remat_is_none(best) || s->made_ps[LEAST][input] > s->made_ps[LEAST][best]))
            best = input;
    }
    return best;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void find_least(struct sources *s, uint32_t item, const struct remat_traffic *t)
{
    struct remat_border *least = &s->border->least;
    const struct remat_border_task *task = remat_extract_task(s->border, item);
    for (uint32_t r = task->read_begin; r < task->read_end; r++) {
        struct remat_border_read *read = &least->reads[r];
        int64_t *source_ps = &least->source_ps[read->item];
        uint32_t source = is_made_twice(s, item, t, read->item)
                              ? find_source(s, item, t, read->item)
                              : REMAT_NONE;
        if (remat_is_none(source))
            continue;
        read->reading = REMAT_READ_SOURCE;
        *source_ps = smaller(*source_ps, s->made_ps[LEAST][source]);
        s->walk++;
        charge(s, source, read->item);
    }
}

static void find_likely(struct sources *s, uint32_t item, const struct remat_traffic *t)
{
    const struct remat_border *likely = &s->border->likely;
    const struct remat_border_task *task = &likely->tasks[likely->items[item].task];
    struct remat_border_read *best = NULL;
    for (uint32_t r = task->read_begin; r < task->read_end; r++) {
        struct remat_border_read *read = &likely->reads[r];
        if (read->reading != REMAT_READ_ALWAYS && is_made_twice(s, item, t, read->item) &&
            (!best || s->made_ps[LIKELY][read->item] > s->made_ps[LIKELY][best->item]))
            best = read;
    }
    if (best)
        best->reading = REMAT_READ_SOURCE;
}

static void find_charged(struct sources *s)
{
    const struct remat_border *least = &s->border->least;
    memset(s->charged, 0xff, least->item_count * sizeof *s->charged);
    for (uint32_t i = 0; i < least->item_count; i++) {
        const struct remat_border_task *task = remat_extract_task(s->border, i);
        for (uint32_t r = task->read_begin; r < task->read_end; r++) {
            uint32_t *of = &s->charged[least->reads[r].item];
            *of = remat_is_none(*of) || *of == i ? i : least->item_count;
        }
    }
}

remat_status remat_extract_sources(struct remat_arena *arena,
                                   const struct remat_traffic_table *table,
                                   const struct remat_parts *parts,
                                   struct remat_border_graph *border)
{
    remat_status st = REMAT_OK;
    struct sources s = {.arena = arena, .table = table, .parts = parts, .border = border};
    REMAT_NEW(arena, s.charged, border->item_count);
    REMAT_NEW(arena, s.seen, border->item_count);
    for (enum problem problem = LEAST; problem <= LIKELY; problem++) {
        struct remat_border *b = problem_of(&s, problem);
        REMAT_NEW(arena, s.made_ps[problem], border->item_count);
        find_made(&s, problem);
        memcpy(b->source_ps, problem == LEAST ? b->read_ps : s.made_ps[problem],
               border->item_count * sizeof *b->source_ps);
    }
    find_charged(&s);
    for (uint32_t i = 0; i < border->item_count; i++) {
        struct remat_traffic t = remat_traffic_of(table, root_of(&s, i));
        if (is_program(&s, i)) {
            find_least(&s, i, &t);
            find_likely(&s, i, &t);
        }
    }
fail:
    return st;
}
