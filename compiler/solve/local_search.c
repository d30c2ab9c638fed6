/* SPDX-License-Identifier: Apache-2.0 */
/* Simulated annealing on a timeline. The move that matters is `recompute_before`: drop a value
 * before one of its uses, and with it whatever its recomputation needs and cannot be kept in the
 * budget. States above the budget are allowed at a price.
 * After Imanishi et al., "A fast heuristic to optimize time-space tradeoff for large models". */
#include "solvers.h"
#include "timeline.h"

#include <math.h>

enum {
    DEPTH_MAX = 64,
    POLL = 256,
    POLL_EVENTS = 1 << 15,
    SAMPLES = 24,
    REPAIRS = 6,
    SPREAD = 65536,
    RESPREAD = 4096,
    RUNS_LIMIT = 1 << 24
};

struct search {
    const struct remat_problem *problem;
    struct remat_timeline timeline;
    struct remat_arena *arena, *slots; /* slots: of the timeline */
    int64_t budget;
    uint64_t random;
    double pressure; /* price of a peak above the budget, relative */
    uint32_t runs_max;
    bool crowded;             /* some move failed for want of slots */
    size_t patience;          /* a move may change this many runs */
    remat_problem_node *used; /* nodes with users */
    uint32_t used_count;
    uint64_t *used_bytes;         /* running sum over `used` */
    remat_problem_node *choosers; /* nodes with several modes */
    uint32_t chooser_count;

    bool best_fits, best_stale; /* stale: the current state is the best and not stored yet */
    uint64_t best_ticks;
    int64_t best_peak;
    struct remat_sequence best;
    struct remat_arena *store; /* of the best */
};

static uint64_t draw(struct search *s)
{
    uint64_t z = s->random += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static uint32_t draw_below(struct search *s, uint32_t bound)
{
    return (uint32_t)((draw(s) >> 32) * bound >> 32);
}

static double draw_unit(struct search *s)
{
    return (double)(draw(s) >> 11) * 0x1p-53;
}

static bool draw_chance(struct search *s, uint32_t percent)
{
    return draw_below(s, 100) < percent;
}

/* --- moves: true when the timeline holds a valid sequence again --- */

static remat_mode_id draw_mode(struct search *s, remat_problem_node v)
{
    const struct remat_problem *p = s->problem;
    uint32_t first = p->mode_begin[v.i], count = p->mode_begin[v.i + 1] - first;
    return count == 1 ? remat_given_mode(v) : p->modes[first + draw_below(s, count)];
}

/* Puts a run of v just before `slot`, where a run reads v, and before it runs of what it reads and
 * what there is no room to keep. */
static bool recompute_before(struct search *s, remat_problem_node v, uint32_t slot, int depth)
{
    struct remat_timeline *t = &s->timeline;
    const struct remat_problem *p = s->problem;
    remat_mode_id mode = draw_mode(s, v);
    uint32_t ends[64];
    uint32_t first = p->input_begin[mode.i], count = remat_problem_input_count(p, mode);
    if (p->once[v.i] || depth > DEPTH_MAX || t->run_count >= s->runs_max ||
        t->log.count > s->patience)
        return false;
    uint32_t at = remat_timeline_make_room(t, slot);
    s->crowded |= at == REMAT_SLOT_NONE || t->run_count + 8 >= s->runs_max;
    if (at == REMAT_SLOT_NONE || !remat_timeline_valid_at(t, mode, at))
        return false;
    for (uint32_t k = 0; k < count && k < 64; k++) {
        remat_problem_node u = p->inputs[first + k];
        ends[k] = remat_timeline_live_end(t, u, remat_events_below(&t->runs[u.i], at) - 1);
    }
    remat_timeline_insert(t, mode, at);
    for (uint32_t k = 0; k < count && k < 64; k++) {
        remat_problem_node u = p->inputs[first + k];
        if (ends[k] >= at)
            continue;
        /* The use at `at` is in place and counted: keeping u is what the timeline says now. */
        bool keep = remat_timeline_max(t, ends[k] + 1, at) <= s->budget;
        if (draw_chance(s, 10))
            keep = !keep;
        if (!keep && !p->once[u.i] && !recompute_before(s, u, at, depth + 1))
            return false;
    }
    return true;
}

/* Where the value is used next, if it is live across `slot` and no event of it lies there; else no
 * slot. */
static uint32_t find_gap(const struct search *s, remat_problem_node v, uint32_t slot)
{
    const struct remat_timeline *t = &s->timeline;
    if (t->spans[v.i].first >= slot || t->spans[v.i].last < slot)
        return REMAT_SLOT_NONE;
    const struct remat_events *runs = &t->runs[v.i], *uses = &t->uses[v.i];
    size_t run = remat_events_below(runs, slot), next = remat_events_below(uses, slot);
    if (run == 0 || next == uses->count || uses->items[next] == slot ||
        (run < runs->count && runs->items[run] < uses->items[next]))
        return REMAT_SLOT_NONE;
    return uses->items[next];
}

static remat_problem_node draw_used(struct search *s)
{
    if (draw(s) & 1 || s->used_bytes[s->used_count - 1] == 0)
        return s->used[draw_below(s, s->used_count)];
    uint64_t at = draw(s) % s->used_bytes[s->used_count - 1];
    uint32_t low = 0, count = s->used_count;
    for (uint32_t half; count > 1; count -= half) { /* no branch: nothing predicts it */
        half = count / 2;
        low += half & -(uint32_t)(s->used_bytes[low + half - 1] <= at);
    }
    return s->used[low];
}

/* Drops some value that is live at a slot of the peak. */
static bool drop_at_peak(struct search *s)
{
    uint32_t slot = remat_timeline_peak_slot(&s->timeline, draw(s));
    for (int i = 0; i < SAMPLES; i++) {
        remat_problem_node v = draw_used(s);
        uint32_t use = find_gap(s, v, slot);
        if (use != REMAT_SLOT_NONE)
            return recompute_before(s, v, use, 0);
    }
    return false;
}

/* Peaks at several places are seen as one by the energy: lowers them together. */
static bool fit_again(struct search *s)
{
    for (int i = 0; i < REPAIRS && remat_timeline_peak(&s->timeline) > s->budget; i++)
        if (!drop_at_peak(s))
            return false;
    return true;
}

static bool drop_somewhere(struct search *s)
{
    const struct remat_timeline *t = &s->timeline;
    remat_problem_node v = draw_used(s);
    const struct remat_events *uses = &t->uses[v.i];
    if (uses->count == 0) /* all its users make it inside */
        return false;
    uint32_t use = uses->items[draw_below(s, (uint32_t)uses->count)];
    return recompute_before(s, v, use, 0);
}

/* Of each input of a run at `slot` that is gone: removes the run before it if nothing reads that
 * and there is another, and runs before that which served only it. */
static void remove_unread_inputs(struct search *s, remat_mode_id mode, uint32_t slot)
{
    struct remat_timeline *t = &s->timeline;
    const struct remat_problem *p = s->problem;
    for (uint32_t e = p->input_begin[mode.i]; e < p->input_begin[mode.i + 1]; e++) {
        remat_problem_node u = p->inputs[e];
        size_t run = remat_events_below(&t->runs[u.i], slot);
        if (t->runs[u.i].count < 2 || run == 0)
            continue;
        uint32_t begin = t->runs[u.i].items[run - 1];
        remat_mode_id unread = t->at[begin];
        if (remat_timeline_live_end(t, u, run - 1) != begin)
            continue;
        remat_timeline_remove(t, begin);
        remove_unread_inputs(s, unread, begin);
    }
}

/* Another mode for one run; the runs that served only the old one go. */
static bool change_mode(struct search *s)
{
    struct remat_timeline *t = &s->timeline;
    remat_problem_node v = s->choosers[draw_below(s, s->chooser_count)];
    remat_mode_id mode = draw_mode(s, v);
    const struct remat_events *runs = &t->runs[v.i];
    uint32_t slot = runs->items[draw_below(s, (uint32_t)runs->count)];
    remat_mode_id old = t->at[slot];
    if (mode.i == old.i || !remat_timeline_valid_at(t, mode, slot))
        return false;
    remat_timeline_remove(t, slot);
    remat_timeline_insert(t, mode, slot);
    remove_unread_inputs(s, old, slot);
    return true;
}

/* Removes a run and, if asked to, runs before it that served only it. */
static bool remove_repeat(struct search *s, bool cascade)
{
    struct remat_timeline *t = &s->timeline;
    if (t->repeated_count == 0)
        return false;
    remat_problem_node v = t->repeated[draw_below(s, t->repeated_count)];
    const struct remat_events *runs = &t->runs[v.i];
    uint32_t slot = runs->items[draw_below(s, (uint32_t)runs->count)];
    remat_mode_id mode = t->at[slot];
    remat_timeline_remove(t, slot);
    if (cascade)
        remove_unread_inputs(s, mode, slot);
    return remat_timeline_valid(t, v);
}

/* Removes a repeat, then makes the peak fit again by drops elsewhere. */
static bool exchange(struct search *s)
{
    return remove_repeat(s, draw_chance(s, 70)) && fit_again(s);
}

/* Moves one run: to just before its next use, to just after its inputs, or anywhere between. */
enum where { TO_USE, TO_INPUTS, BETWEEN, WHERES = 4 };

static bool move_run(struct search *s, remat_problem_node v, size_t run, uint32_t where)
{
    struct remat_timeline *t = &s->timeline;
    const struct remat_problem *p = s->problem;
    const struct remat_events *runs = &t->runs[v.i], *uses = &t->uses[v.i];
    uint32_t from = runs->items[run], low = 0, high = t->slot_count - 1, to;
    remat_mode_id mode = t->at[from];
    for (uint32_t e = p->input_begin[mode.i]; e < p->input_begin[mode.i + 1]; e++) {
        const struct remat_events *r = &t->runs[p->inputs[e].i];
        size_t before = run == 0 ? 1 : remat_events_below(r, from);
        if (r->items[before - 1] > low)
            low = r->items[before - 1];
    }
    size_t next = remat_events_below(uses, from);
    if (next < uses->count)
        high = uses->items[next];
    if (where == TO_USE)
        to = high;
    else if (where == TO_INPUTS)
        to = low + 1;
    else
        to = low + 1 + draw_below(s, high - low);
    remat_timeline_remove(t, from);
    if (t->at[to].i != UINT32_MAX)
        to = remat_timeline_make_room(t, to);
    if (to == REMAT_SLOT_NONE || !remat_timeline_valid_at(t, mode, to))
        return false;
    remat_timeline_insert(t, mode, to);
    return remat_timeline_valid(t, v);
}

static bool move_somewhere(struct search *s)
{
    remat_problem_node v = {draw_below(s, s->problem->node_count)};
    size_t run = draw_below(s, (uint32_t)s->timeline.runs[v.i].count);
    return move_run(s, v, run, draw_below(s, WHERES));
}

/* Some value that is live at a slot of the peak: it comes later, or what reads it next earlier. */
static bool move_at_peak(struct search *s)
{
    struct remat_timeline *t = &s->timeline;
    uint32_t slot = remat_timeline_peak_slot(t, draw(s));
    for (int i = 0; i < SAMPLES; i++) {
        remat_problem_node v = draw_used(s);
        uint32_t use = find_gap(s, v, slot);
        if (use == REMAT_SLOT_NONE)
            continue;
        if (draw(s) & 1)
            return move_run(s, v, remat_events_below(&t->runs[v.i], slot) - 1, TO_USE);
        remat_problem_node reader = s->problem->node_of[t->at[use].i];
        return move_run(s, reader, remat_events_below(&t->runs[reader.i], use), TO_INPUTS);
    }
    return false;
}

static bool insert_anywhere(struct search *s)
{
    struct remat_timeline *t = &s->timeline;
    remat_problem_node v = draw_used(s);
    remat_mode_id mode = remat_given_mode(v);
    uint32_t slot = draw_below(s, t->slot_count);
    if (s->problem->once[v.i] || t->run_count >= s->runs_max || t->at[slot].i != UINT32_MAX ||
        !remat_timeline_valid_at(t, mode, slot))
        return false;
    remat_timeline_insert(t, mode, slot);
    return true;
}

static bool change(struct search *s)
{
    if (s->chooser_count && draw_chance(s, 15))
        return change_mode(s);
    uint32_t kind = draw_below(s, 100);
    s->patience = (size_t)4 << draw_below(s, 5);
    bool over = remat_timeline_peak(&s->timeline) > s->budget;
    if (kind < 15)
        return over ? fit_again(s) : drop_somewhere(s);
    if (kind < 30)
        return drop_at_peak(s);
    if (kind < 50)
        return remove_repeat(s, kind < 42);
    if (kind < 65)
        return exchange(s);
    if (kind < 95)
        return kind < (over ? 80 : 70) ? move_at_peak(s) : move_somewhere(s);
    return insert_anywhere(s);
}

/* --- annealing --- */

static double energy(struct search *s)
{
    int64_t peak = remat_timeline_peak(&s->timeline);
    double excess = peak > s->budget ? (double)(peak - s->budget) / (double)(s->budget + 1) : 0;
    return (double)s->timeline.ticks + s->pressure * excess;
}

static bool is_best(struct search *s)
{
    int64_t peak = remat_timeline_peak(&s->timeline);
    bool fits = peak <= s->budget;
    if (fits != s->best_fits)
        return fits;
    if (!fits && peak != s->best_peak)
        return peak < s->best_peak;
    return s->timeline.ticks != s->best_ticks ? s->timeline.ticks < s->best_ticks
                                              : peak < s->best_peak;
}

static void store_best(struct search *s)
{
    s->best_stale = false;
    remat_arena_release(s->store);
    s->best = remat_timeline_store(&s->timeline, s->store);
}

static void note_best(struct search *s)
{
    if (!is_best(s))
        return;
    s->best_peak = remat_timeline_peak(&s->timeline);
    s->best_fits = s->best_peak <= s->budget;
    s->best_ticks = s->timeline.ticks;
    s->best_stale = true;
}

/* Lays the runs out evenly again, on more slots if there are many by now. False when the deadline
 * comes before that is done; the best is stored then. */
static bool spread(struct search *s, struct remat_deadline *deadline)
{
    struct remat_arena *arena = remat_scratch_open(s->arena->ctx);
    struct remat_sequence sequence = remat_timeline_store(&s->timeline, arena);
    if (2 * s->timeline.run_count > s->runs_max && s->runs_max < RUNS_LIMIT) {
        s->runs_max *= 2;
        remat_arena_release(s->slots);
        remat_timeline_create(s->slots, s->problem, s->runs_max, &s->timeline);
    }
    bool complete = remat_timeline_load(&s->timeline, &sequence, deadline);
    s->crowded = false;
    if (!complete && s->best_stale) {
        s->best = (struct remat_sequence){.count = sequence.count};
        s->best.items =
            remat_copy(s->store, sequence.items, sequence.count, sizeof *sequence.items);
    }
    remat_scratch_close(arena);
    return complete;
}

static void anneal(struct search *s, const struct remat_search_options *o)
{
    struct remat_timeline *t = &s->timeline;
    double scale = (double)s->problem->total_ticks + 1, temperature = 0;
    double current = energy(s), moves = (double)o->moves;
    uint64_t first = t->steps, counted = t->steps;
    for (uint64_t i = 0; i < o->moves; i++) {
        if (i % POLL == 0 || t->steps - counted > POLL_EVENTS) {
            double events = o->events ? (double)(t->steps - first) / o->events : 0;
            double done = fmax((double)i, events);
            temperature = scale * o->hot * pow(o->cold / o->hot, done / moves);
            if (done >= moves ||
                remat_deadline_count(o->deadline, POLL + (t->steps - counted) * REMAT_EVENT_STEPS))
                break;
            counted = t->steps;
        }
        if ((i % SPREAD == SPREAD - 1 || (s->crowded && i % RESPREAD == 0)) &&
            !spread(s, o->deadline))
            return;
        double next = change(s) ? energy(s) : INFINITY;
        bool accepted = next <= current || draw_unit(s) < exp((current - next) / temperature);
        bool leaves = accepted && s->best_stale && !is_best(s) &&
                      (t->ticks != s->best_ticks || remat_timeline_peak(t) != s->best_peak);
        if (!accepted || leaves) {
            remat_timeline_rollback(t);
            if (leaves) /* stays here for once, so that the best can be stored */
                store_best(s);
            continue;
        }
        remat_timeline_commit(t);
        current = next;
        note_best(s);
    }
    if (s->best_stale)
        store_best(s);
}

/* Sets up what moves draw from. */
static void list_values(struct search *s)
{
    const struct remat_problem *p = s->problem;
    uint64_t sum = 0;
    REMAT_NEW(s->arena, s->used, p->node_count);
    REMAT_NEW(s->arena, s->used_bytes, p->node_count);
    REMAT_NEW(s->arena, s->choosers, p->node_count);
    for (remat_problem_node v = {0}; v.i < p->node_count; v.i++) {
        if (p->mode_begin[v.i + 1] - p->mode_begin[v.i] > 1)
            s->choosers[s->chooser_count++] = v;
        if (p->user_begin[v.i] == p->user_begin[v.i + 1])
            continue;
        s->used[s->used_count] = v;
        s->used_bytes[s->used_count++] = sum += p->bytes[v.i];
    }
}

struct remat_sequence remat_search(struct remat_arena *arena, const struct remat_problem *p,
                                   const struct remat_sequence *start,
                                   const struct remat_search_options *options)
{
    size_t runs = start->count > p->node_count ? start->count : p->node_count;
    struct search s = {.problem = p,
                       .arena = remat_scratch_open(arena->ctx),
                       .slots = remat_scratch_open(arena->ctx),
                       .budget = (int64_t)options->budget,
                       .random = options->seed,
                       .pressure = options->pressure * (double)p->total_ticks + 1,
                       .runs_max = 2 * (uint32_t)runs + 64,
                       .best_ticks = UINT64_MAX,
                       .best_peak = INT64_MAX,
                       .best = *start,
                       .store = remat_scratch_open(arena->ctx)};
    list_values(&s);
    remat_timeline_create(s.slots, p, s.runs_max, &s.timeline);
    if (remat_timeline_load(&s.timeline, start, options->deadline)) {
        note_best(&s);
        if (s.used_count)
            anneal(&s, options);
        else
            store_best(&s);
    }
    struct remat_sequence out = {.count = s.best.count, .capacity = s.best.count};
    out.items = remat_copy(arena, s.best.items, out.count, sizeof *out.items);
    remat_scratch_close(s.arena);
    remat_scratch_close(s.slots);
    remat_scratch_close(s.store);
    return out;
}
