/* SPDX-License-Identifier: Apache-2.0 */
/* Border problems with work on two and three streams, against every choice there is and every
 * division of the work that may be done in either half: no bound is above the fastest of them, and
 * the weights that are found are as good as those of a grid. Prices and times follow from the
 * definitions. */
#include "border.h"
#include "support.h"

#include <math.h>

enum {
    PROBLEMS = 300,
    TASKS = 9,
    EDGES = 2 * TASKS,
    ARCS = 2 * TASKS,
    BUDGETS = 4,
    GRID = 4,
    COMPUTATION = 1, /* streams, by bit */
};

struct sample {
    uint32_t streams;
    struct remat_border border;
    struct remat_border_work work;
    struct remat_border_item items[TASKS]; /* each of the task of its number */
    struct remat_border_task tasks[TASKS];
    struct remat_border_way ways[TASKS];
    remat_item inputs[EDGES];
    struct remat_border_arc arcs[ARCS];
    int64_t charge_ps[TASKS];
    uint8_t task_kind[TASKS], charge_kind[TASKS], arc_kind[ARCS], put_kind[TASKS], get_kind[TASKS];
};

/* What a choice costs, by half (and what may be in either) and stream. */
struct times {
    double ps[REMAT_HALVES][REMAT_STREAMS_MAX];
    uint64_t bytes;
};

/* Of a transfer, which may block computation. */
static uint8_t link_kind(struct test *t, const struct sample *s)
{
    uint32_t link = 1u << draw(t, 1, s->streams - 1);
    return remat_work_kind(REMAT_HALF_SECOND, link | (draw(t, 0, 3) ? 0 : COMPUTATION));
}

/* A chain: values that computation makes of the two before, and gathered ones, which need none. */
static void make_task(struct test *t, struct sample *s, uint32_t k)
{
    struct remat_border *b = &s->border;
    struct remat_border_task *task = &s->tasks[k];
    bool gathers = draw(t, 0, 2) == 0;
    uint32_t inputs = k ? b->tasks[k - 1].input_end : 0;
    s->items[k] = (struct remat_border_item){.bytes = 256 * draw(t, 1, 9),
                                             .task = {k},
                                             .wanted = draw(t, 0, 3) > 0,
                                             .way_begin = b->way_count,
                                             .way_end = b->way_count};
    task->cost_ps = (int64_t)draw(t, 1, 60) - (gathers ? 0 : 10);
    task->input_begin = inputs;
    for (uint32_t i = k < 2 ? 0 : k - 2; i < k && !gathers; i++)
        if (draw(t, 0, 1))
            s->inputs[inputs++].i = i;
    task->input_end = inputs;
    s->task_kind[k] = gathers ? link_kind(t, s) : remat_work_kind(REMAT_HALF_SECOND, COMPUTATION);
    if (!gathers && draw(t, 0, 1)) {
        struct remat_border_way *way = &s->ways[b->way_count];
        way->bytes = s->items[k].bytes / 2;
        way->put_ps = draw(t, 0, 5);
        way->ps = way->put_ps + draw(t, 1, 30);
        way->action = 1;
        s->put_kind[b->way_count] = remat_work_kind(REMAT_HALF_FIRST, COMPUTATION);
        s->get_kind[b->way_count++] = link_kind(t, s);
        s->items[k].way_end++;
    }
    if (draw(t, 0, 2) == 0) { /* a load that the task implies */
        s->charge_ps[b->charge_count] = draw(t, 0, 20);
        s->charge_kind[b->charge_count] = remat_work_kind(REMAT_HALF_SECOND, COMPUTATION);
        s->arc_kind[b->arc_count] = 0;
        s->arcs[b->arc_count++] = (struct remat_border_arc){
            {TASKS + k}, {2 * TASKS + b->charge_count++}, REMAT_BORDER_RULE};
    }
    s->arc_kind[b->arc_count] = remat_work_kind(REMAT_HALF_FIRST, COMPUTATION);
    s->arcs[b->arc_count++] = (struct remat_border_arc){{k}, {TASKS + k}, draw(t, 1, 9)};
}

static void make_sample(struct test *t, struct sample *s)
{
    memset(s, 0, sizeof *s);
    s->streams = draw(t, 2, REMAT_STREAMS_MAX);
    s->border = (struct remat_border){.item_count = TASKS,
                                      .task_count = TASKS,
                                      .items = s->items,
                                      .tasks = s->tasks,
                                      .ways = s->ways,
                                      .inputs = s->inputs,
                                      .charge_ps = s->charge_ps,
                                      .arcs = s->arcs,
                                      .work = &s->work};
    for (uint32_t k = 0; k < TASKS; k++)
        make_task(t, s, k);
    s->work = (struct remat_border_work){.task = s->task_kind,
                                         .charge = s->charge_kind,
                                         .arc = s->arc_kind,
                                         .put = s->put_kind,
                                         .get = s->get_kind,
                                         .weights = {{{1}, {1}}}};
    for (uint32_t half = 0; half < REMAT_HALVES; half++)
        for (uint32_t stream = 0; stream < s->streams; stream++)
            s->work.constant_ps[remat_work_kind((enum remat_half)half, 1u << stream)] =
                draw(t, 0, half == REMAT_HALF_EITHER ? 40 : 200);
}

static void add(struct times *times, uint8_t kind, int64_t ps)
{
    for (uint32_t stream = 0; stream < REMAT_STREAMS_MAX; stream++)
        if (kind >> stream & 1)
            times->ps[kind >> REMAT_STREAMS_MAX][stream] += (double)ps;
}

/* The choice that runs these tasks and keeps these items as a part, where they are kept. */
static struct times price_choice(const struct sample *s, uint32_t run, uint32_t part)
{
    struct times out = {0};
    uint32_t holds = 0;
    for (uint32_t kind = 0; kind < REMAT_WORK_KINDS; kind++)
        add(&out, (uint8_t)kind, s->work.constant_ps[kind]);
    for (uint32_t k = 0; k < TASKS; k++) {
        holds |= (uint32_t)s->items[k].wanted << k;
        for (uint32_t e = s->tasks[k].input_begin; e < s->tasks[k].input_end && run >> k & 1; e++)
            holds |= 1u << s->inputs[e].i;
        if (run >> k & 1)
            add(&out, s->task_kind[k], s->tasks[k].cost_ps);
    }
    for (uint32_t k = 0; k < TASKS; k++) {
        const struct remat_border_item *item = &s->items[k];
        const struct remat_border_way *way = &s->ways[item->way_begin];
        if (!(holds >> k & 1) || run >> k & 1)
            continue;
        bool as_part = part >> k & 1 && item->way_end > item->way_begin;
        out.bytes += as_part ? way->bytes : item->bytes;
        if (as_part) {
            add(&out, s->put_kind[item->way_begin], way->put_ps);
            add(&out, s->get_kind[item->way_begin], way->ps - way->put_ps);
        }
    }
    for (uint32_t a = 0; a < s->border.arc_count; a++) {
        const struct remat_border_arc *arc = &s->arcs[a];
        if (arc->ps == REMAT_BORDER_RULE && run >> (arc->from.i - TASKS) & 1)
            add(&out, s->charge_kind[arc->to.i - 2 * TASKS], s->charge_ps[arc->to.i - 2 * TASKS]);
        if (arc->ps > 0 && holds >> arc->from.i & 1 && !(run >> arc->from.i & 1))
            add(&out, s->arc_kind[a], arc->ps);
    }
    return out;
}

/* The least time of any division. The first half takes as long as its own work on some stream; what
 * fits into that time beside it is done there. */
static double least_time(const struct times *t)
{
    double first = 0, second = 0;
    for (uint32_t stream = 0; stream < REMAT_STREAMS_MAX; stream++)
        first = fmax(first, t->ps[REMAT_HALF_FIRST][stream]);
    for (uint32_t stream = 0; stream < REMAT_STREAMS_MAX; stream++) {
        double room = first - t->ps[REMAT_HALF_FIRST][stream];
        second = fmax(second, t->ps[REMAT_HALF_SECOND][stream] +
                                  fmax(0, t->ps[REMAT_HALF_EITHER][stream] - room));
    }
    return first + second;
}

static double weighed(const struct times *t, const double *first, const double *second)
{
    double sum = 0;
    for (uint32_t stream = 0; stream < REMAT_STREAMS_MAX; stream++)
        sum += first[stream] * t->ps[REMAT_HALF_FIRST][stream] +
               second[stream] * t->ps[REMAT_HALF_SECOND][stream] +
               fmin(first[stream], second[stream]) * t->ps[REMAT_HALF_EITHER][stream];
    return sum;
}

/* Of every choice. */
struct all {
    uint32_t count;
    struct times times[1 << 2 * TASKS];
};

static void price_all(const struct sample *s, struct all *all)
{
    all->count = 0;
    for (uint32_t run = 0; run < 1u << TASKS; run++)
        for (uint32_t part = 0; part < 1u << TASKS; part++) {
            bool new = !(part & run); /* no part of what is not kept */
            for (uint32_t k = 0; k < TASKS; k++)
                new &= !(part >> k & 1) || s->items[k].way_end > s->items[k].way_begin;
            if (new)
                all->times[all->count++] = price_choice(s, run, part);
        }
}

static double least_of(const struct all *all, double price, uint64_t bytes)
{
    double least = INFINITY;
    for (uint32_t c = 0; c < all->count; c++)
        if (all->times[c].bytes <= bytes)
            least = fmin(least, least_time(&all->times[c]) + price * (double)all->times[c].bytes);
    return least;
}

/* The bound at a price with the best weights of a grid. */
static double best_of_grid(const struct all *all, double price)
{
    double best = 0;
    for (uint32_t w = 0; w < (GRID + 1) * (GRID + 1) * (GRID + 1) * (GRID + 1); w++) {
        double of[2][REMAT_STREAMS_MAX] = {0}, least = INFINITY;
        for (uint32_t k = 0, left = w; k < 4; k++, left /= GRID + 1)
            of[k / 2][1 + k % 2] = (double)(left % (GRID + 1)) / GRID;
        for (uint32_t half = 0; half < 2; half++)
            of[half][0] = 1 - of[half][1] - of[half][2];
        if (of[0][0] < 0 || of[1][0] < 0)
            continue;
        for (uint32_t c = 0; c < all->count && least > best; c++)
            least = fmin(least, weighed(&all->times[c], of[0], of[1]) +
                                    price * (double)all->times[c].bytes);
        best = fmax(best, least);
    }
    return best;
}

static void check_sample(struct test *t, const struct sample *s, const struct all *all,
                         double *ratio, uint32_t *cases)
{
    struct remat_border_network *network = remat_border_network(&t->arena, &s->border);
    uint64_t least_bytes = remat_border_least_bytes(network), most_bytes = 0;
    for (uint32_t k = 0; k < TASKS; k++)
        most_bytes += s->items[k].bytes;
    for (uint32_t k = 0; k < BUDGETS; k++) {
        uint64_t bytes = least_bytes + (most_bytes - least_bytes) * k / BUDGETS;
        struct remat_border_cut cut = remat_border_climb(network, bytes, NAN, -INFINITY);
        double bound = remat_border_proven(&cut, bytes), best = least_of(all, 0, bytes);
        CHECK(bound <= best + 1e-9, "bound %g above the optimum %g", bound, best);
        *ratio += bound / best;
        ++*cases;
    }
    for (uint32_t k = 0; k < 2; k++) {
        double price = draw(t, 1, 40) / 1024.0;
        struct remat_border_cut cut = remat_border_climb(network, 0, price, -INFINITY);
        double most = least_of(all, price, UINT64_MAX), grid = best_of_grid(all, price);
        CHECK(cut.price == price && cut.least_ps <= most + 1e-9, "%g above the optimum %g",
              cut.least_ps, most);
        CHECK(cut.least_ps >= grid - 0.01 * most, "%g, but %g with weights of a grid", cut.least_ps,
              grid);
    }
}

int main(void)
{
    static struct all all;
    struct test t;
    struct sample s;
    double ratio = 0;
    uint32_t cases = 0;
    test_begin(&t);
    for (int i = 0; i < PROBLEMS; i++) {
        make_sample(&t, &s);
        price_all(&s, &all);
        check_sample(&t, &s, &all, &ratio, &cases);
        test_next(&t);
    }
    check_figure(ratio / cases, "solve_work bound / optimum");
    return test_end(&t);
}
