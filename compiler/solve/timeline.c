/* Live bytes by slot are a segment tree with range add and maximum, bottom up, as in Imanishi et
 * al., "A fast heuristic to optimize time-space tradeoff for large models" (2022). A run changes
 * the interval of its own value and of its inputs' values only. */
#include "timeline.h"

enum { SLOTS_PER_RUN = 16, SHIFT_MAX = 48 };

/* --- the tree --- */

static void range_add(struct remat_timeline *t, uint32_t first, uint32_t last, int64_t bytes)
{
    struct remat_timeline_node *tree = t->tree;
    uint32_t l = first + t->slot_count, r = last + t->slot_count + 1;
    uint32_t l0 = l, r0 = r - 1;
    for (; l < r; l >>= 1, r >>= 1) {
        if (l & 1) {
            tree[l].max += bytes;
            tree[l++].add += bytes;
        }
        if (r & 1) {
            tree[--r].max += bytes;
            tree[r].add += bytes;
        }
    }
    while (l0 > 1) {
        l0 >>= 1;
        r0 >>= 1;
        int64_t a = tree[2 * l0].max, b = tree[2 * l0 + 1].max;
        tree[l0].max = (a > b ? a : b) + tree[l0].add;
        if (l0 != r0) {
            a = tree[2 * r0].max;
            b = tree[2 * r0 + 1].max;
            tree[r0].max = (a > b ? a : b) + tree[r0].add;
        }
    }
}

int64_t remat_timeline_max(const struct remat_timeline *t, uint32_t first, uint32_t last)
{
    const struct remat_timeline_node *tree = t->tree;
    uint32_t l = first + t->slot_count, r = last + t->slot_count;
    int64_t left = tree[l].max, right = tree[r].max;
    if (l == r)
        right = left;
    while (l >> 1 != r >> 1) {
        if (!(l & 1) && tree[l + 1].max > left)
            left = tree[l + 1].max;
        if ((r & 1) && tree[r - 1].max > right)
            right = tree[r - 1].max;
        l >>= 1;
        r >>= 1;
        left += tree[l].add;
        right += tree[r].add;
    }
    int64_t result = left > right ? left : right;
    if (l == r) /* a single leaf: its ancestors */
        result = tree[l].max;
    for (l >>= 1; l >= 1; l >>= 1)
        result += tree[l].add;
    return result;
}

uint32_t remat_timeline_peak_slot(const struct remat_timeline *t, uint64_t choice)
{
    uint32_t i = 1;
    while (i < t->slot_count) {
        int64_t a = t->tree[2 * i].max, b = t->tree[2 * i + 1].max;
        bool right = b > a || (b == a && (choice & 1));
        choice >>= 1;
        i = 2 * i + right;
    }
    return i - t->slot_count;
}

/* --- events --- */

size_t remat_events_below(const struct remat_events *events, uint32_t slot)
{
    size_t low = 0, high = events->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (events->items[middle] < slot)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void event_add(struct remat_timeline *t, struct remat_events *events, size_t at,
                      uint32_t slot)
{
    if (events->count == events->capacity) {
        void *grown = remat_arena_grow(t->arena, events->items, events->count, &events->capacity,
                                       sizeof *events->items);
        if (!grown) {
            t->failed = true;
            return;
        }
        events->items = grown;
    }
    memmove(events->items + at + 1, events->items + at,
            (events->count - at) * sizeof *events->items);
    events->items[at] = slot;
    events->count++;
}

static void event_delete(struct remat_events *events, size_t at)
{
    events->count--;
    memmove(events->items + at, events->items + at + 1,
            (events->count - at) * sizeof *events->items);
}

uint32_t remat_timeline_live_end(const struct remat_timeline *t, uint32_t node, size_t index)
{
    const struct remat_events *runs = &t->runs[node], *uses = &t->uses[node];
    uint32_t begin = runs->items[index];
    size_t below =
        index + 1 < runs->count ? remat_events_below(uses, runs->items[index + 1]) : uses->count;
    return below && uses->items[below - 1] > begin ? uses->items[below - 1] : begin;
}

bool remat_timeline_valid_at(const struct remat_timeline *t, uint32_t way, uint32_t slot)
{
    const struct remat_problem *p = t->problem;
    for (uint32_t e = p->input_begin[way]; e < p->input_begin[way + 1]; e++) {
        const struct remat_events *runs = &t->runs[p->inputs[e]];
        if (runs->count == 0 || runs->items[0] >= slot)
            return false;
    }
    return true;
}

bool remat_timeline_valid(const struct remat_timeline *t, uint32_t node)
{
    const struct remat_events *runs = &t->runs[node], *uses = &t->uses[node];
    return runs->count && (uses->count == 0 || runs->items[0] < uses->items[0]);
}

/* --- runs --- */

/* Adds `sign` times the bytes that are live because the value is read at `slot`. */
static void account_use(struct remat_timeline *t, uint32_t node, uint32_t slot, int sign)
{
    const struct remat_events *runs = &t->runs[node];
    size_t run = remat_events_below(runs, slot);
    if (run == 0)
        return;
    uint32_t end = remat_timeline_live_end(t, node, run - 1);
    if (slot > end)
        range_add(t, end + 1, slot, sign * (int64_t)t->problem->bytes[node]);
}

/* The same for a run at `slot`, which is not among the node's runs at this moment. */
static void account_run(struct remat_timeline *t, uint32_t node, uint32_t slot, int sign)
{
    const struct remat_events *runs = &t->runs[node], *uses = &t->uses[node];
    int64_t bytes = sign * (int64_t)t->problem->bytes[node];
    size_t run = remat_events_below(runs, slot);
    size_t below = run < runs->count ? remat_events_below(uses, runs->items[run]) : uses->count;
    uint32_t end = below && uses->items[below - 1] > slot ? uses->items[below - 1] : slot;
    if (run == 0 || end == slot) { /* nothing of an older copy is live after `slot` */
        range_add(t, slot, end, bytes);
        return;
    }
    size_t before = remat_events_below(uses, slot);
    uint32_t old_end = runs->items[run - 1];
    if (before && uses->items[before - 1] > old_end)
        old_end = uses->items[before - 1];
    if (slot > old_end + 1)
        range_add(t, old_end + 1, slot - 1, -bytes);
}

static void note_repeated(struct remat_timeline *t, uint32_t node)
{
    size_t count = t->runs[node].count;
    bool listed = t->repeated_at[node] != REMAT_SLOT_NONE;
    if (count > 1 && !listed) {
        t->repeated_at[node] = t->repeated_count;
        t->repeated[t->repeated_count++] = node;
    } else if (count <= 1 && listed) {
        uint32_t last = t->repeated[--t->repeated_count];
        t->repeated[t->repeated_at[node]] = last;
        t->repeated_at[last] = t->repeated_at[node];
        t->repeated_at[node] = REMAT_SLOT_NONE;
    }
}

/* Workspace of the run at `slot`, and what lasts from the first run on. */
static void account_beside(struct remat_timeline *t, uint32_t way, uint32_t slot, int sign)
{
    const struct remat_problem *p = t->problem;
    uint32_t node = p->node_of[way];
    if (p->workspace[way])
        range_add(t, slot, slot, sign * (int64_t)p->workspace[way]);
    if (p->lasting[node] == 0)
        return;
    const struct remat_events *runs = &t->runs[node]; /* without the one at `slot` */
    uint32_t next = runs->count ? runs->items[0] : t->slot_count;
    if (slot < next)
        range_add(t, slot, next - 1, sign * (int64_t)p->lasting[node]);
}

static void put(struct remat_timeline *t, uint32_t way, uint32_t slot)
{
    const struct remat_problem *p = t->problem;
    uint32_t node = p->node_of[way];
    account_run(t, node, slot, 1);
    account_beside(t, way, slot, 1);
    event_add(t, &t->runs[node], remat_events_below(&t->runs[node], slot), slot);
    t->at[slot] = way;
    t->occupied[slot / 64] |= UINT64_C(1) << slot % 64;
    t->ticks += p->ticks[way];
    t->run_count++;
    note_repeated(t, node);
    for (uint32_t e = p->input_begin[way]; e < p->input_begin[way + 1]; e++) {
        struct remat_events *uses = &t->uses[p->inputs[e]];
        account_use(t, p->inputs[e], slot, 1);
        event_add(t, uses, remat_events_below(uses, slot), slot);
    }
}

static void take(struct remat_timeline *t, uint32_t slot)
{
    const struct remat_problem *p = t->problem;
    uint32_t way = t->at[slot], node = p->node_of[way];
    for (uint32_t e = p->input_begin[way]; e < p->input_begin[way + 1]; e++) {
        struct remat_events *uses = &t->uses[p->inputs[e]];
        event_delete(uses, remat_events_below(uses, slot));
        account_use(t, p->inputs[e], slot, -1);
    }
    event_delete(&t->runs[node], remat_events_below(&t->runs[node], slot));
    account_run(t, node, slot, -1);
    account_beside(t, way, slot, -1);
    t->at[slot] = REMAT_SLOT_NONE;
    t->occupied[slot / 64] &= ~(UINT64_C(1) << slot % 64);
    t->ticks -= p->ticks[way];
    t->run_count--;
    note_repeated(t, node);
}

static void record(struct remat_timeline *t, uint32_t way, uint32_t slot, bool inserted)
{
    remat_status st = REMAT_OK;
    struct remat_timeline_change change = {way, slot, inserted};
    REMAT_PUSH(t->arena, &t->log, change);
    return;
fail:
    t->failed = st != REMAT_OK;
}

void remat_timeline_insert(struct remat_timeline *t, uint32_t way, uint32_t slot)
{
    if (t->failed)
        return;
    put(t, way, slot);
    record(t, way, slot, true);
}

void remat_timeline_remove(struct remat_timeline *t, uint32_t slot)
{
    uint32_t way = t->at[slot];
    if (t->failed)
        return;
    take(t, slot);
    record(t, way, slot, false);
}

void remat_timeline_rollback(struct remat_timeline *t, size_t mark)
{
    while (!t->failed && t->log.count > mark) {
        struct remat_timeline_change c = t->log.items[--t->log.count];
        if (c.inserted)
            take(t, c.slot);
        else
            put(t, c.way, c.slot);
    }
}

/* --- slots --- */

static uint32_t occupied_before(const struct remat_timeline *t, uint32_t slot)
{
    if (slot == 0)
        return REMAT_SLOT_NONE;
    uint32_t word = (slot - 1) / 64;
    uint64_t bits = t->occupied[word] & (~UINT64_C(0) >> (63 - (slot - 1) % 64));
    while (bits == 0) {
        if (word == 0)
            return REMAT_SLOT_NONE;
        bits = t->occupied[--word];
    }
    return word * 64 + 63 - (uint32_t)__builtin_clzll(bits);
}

uint32_t remat_timeline_make_room(struct remat_timeline *t, uint32_t slot)
{
    uint32_t before = occupied_before(t, slot), empty = before;
    uint32_t low = before == REMAT_SLOT_NONE ? 0 : before + 1;
    if (low < slot)
        return low + (slot - low) / 2;
    if (before == REMAT_SLOT_NONE)
        return REMAT_SLOT_NONE;
    while (t->at[empty] != REMAT_SLOT_NONE) {
        if (empty == 0 || slot - empty > SHIFT_MAX)
            return REMAT_SLOT_NONE;
        empty--;
    }
    for (; empty < before && !t->failed; empty++) {
        uint32_t way = t->at[empty + 1];
        remat_timeline_remove(t, empty + 1);
        remat_timeline_insert(t, way, empty);
    }
    return before;
}

/* --- whole sequences --- */

remat_status remat_timeline_create(struct remat_arena *arena, const struct remat_problem *problem,
                                   uint32_t runs_max, struct remat_timeline *out)
{
    remat_status st = REMAT_OK;
    *out = (struct remat_timeline){.problem = problem, .arena = arena, .slot_count = 64};
    while (out->slot_count < (uint64_t)runs_max * SLOTS_PER_RUN && out->slot_count < 1u << 30)
        out->slot_count *= 2;
    REMAT_NEW(arena, out->at, out->slot_count);
    REMAT_NEW(arena, out->occupied, out->slot_count / 64);
    REMAT_NEW(arena, out->tree, (size_t)out->slot_count * 2);
    REMAT_NEW(arena, out->runs, problem->node_count);
    REMAT_NEW(arena, out->uses, problem->node_count);
    REMAT_NEW(arena, out->repeated, problem->node_count);
    REMAT_NEW(arena, out->repeated_at, problem->node_count);
fail:
    return st;
}

void remat_timeline_load(struct remat_timeline *t, const struct remat_sequence *sequence)
{
    memset(t->at, 0xff, t->slot_count * sizeof *t->at);
    memset(t->occupied, 0, t->slot_count / 8);
    memset(t->tree, 0, (size_t)t->slot_count * 2 * sizeof *t->tree);
    memset(t->repeated_at, 0xff, t->problem->node_count * sizeof *t->repeated_at);
    for (uint32_t v = 0; v < t->problem->node_count; v++)
        t->runs[v].count = t->uses[v].count = 0;
    t->repeated_count = t->run_count = 0;
    t->ticks = 0;
    if (sequence->count >= t->slot_count) {
        t->failed = true;
        return;
    }
    uint64_t count = sequence->count;
    for (uint64_t i = 0; i < count && !t->failed; i++)
        put(t, sequence->items[i], (uint32_t)((2 * i + 1) * t->slot_count / (2 * count)));
    t->log.count = 0;
}

remat_status remat_timeline_store(const struct remat_timeline *t, struct remat_arena *arena,
                                  struct remat_sequence *out)
{
    remat_status st = REMAT_OK;
    *out = (struct remat_sequence){0};
    REMAT_NEW(arena, out->items, t->run_count);
    out->capacity = t->run_count;
    for (uint32_t s = 0; s < t->slot_count; s++)
        if (t->at[s] != REMAT_SLOT_NONE)
            out->items[out->count++] = t->at[s];
fail:
    return st;
}
