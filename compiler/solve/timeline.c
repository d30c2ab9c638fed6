/* SPDX-License-Identifier: Apache-2.0 */
/* Live bytes by slot, with range add and maximum as in Imanishi et al., "A fast heuristic to
 * optimize time-space tradeoff for large models" (2022), but as differences: a range changes two
 * slots, and a tree knows of each of its blocks of slots the sum of the differences and the largest
 * sum of the first of them. A run changes the interval of its own value and of its inputs' values
 * only. The tree is brought up to date when it is asked. Most changes are taken back: what they
 * overwrite is kept. */
#include "timeline.h"

#include <assert.h>

enum { SLOTS_PER_RUN = 16, SHIFT_MAX = 48, BLOCK = 64 };
enum { WORDS_OF_SLOT = 2, WORDS_OF_LEAF = 2 * 25 }; /* overwritten at most, nodes above included */

/* --- the tree --- */

static void reserve(struct remat_timeline *t, size_t words)
{
    while (t->undo.capacity - t->undo.count < words)
        t->undo.items = remat_or_unwind(t->arena->ctx,
                                        remat_arena_grow(t->arena, t->undo.items, t->undo.count,
                                                         &t->undo.capacity, sizeof *t->undo.items));
}

static inline void set_word(struct remat_timeline *t, int64_t *at, int64_t value)
{
    t->undo.items[t->undo.count++] = (struct remat_timeline_word){at, *at};
    *at = value;
}

static inline void set_node(struct remat_timeline *t, uint32_t i, struct remat_timeline_node node)
{
    set_word(t, &t->tree[i].sum, node.sum);
    set_word(t, &t->tree[i].max, node.max);
}

/* `count` slots from `first` on, of one block. */
static struct remat_timeline_node scan(const struct remat_timeline *t, uint32_t first,
                                       uint32_t count)
{
    uint64_t bits = t->changed[first / 64] >> first % 64;
    bits &= count < 64 ? (UINT64_C(1) << count) - 1 : ~UINT64_C(0);
    struct remat_timeline_node node = {0, bits & 1 ? INT64_MIN : 0};
    for (; bits; bits &= bits - 1) {
        node.sum += t->change[first + (uint32_t)__builtin_ctzll(bits)];
        node.max = node.sum > node.max ? node.sum : node.max;
    }
    return node;
}

static inline struct remat_timeline_node joined(struct remat_timeline_node l,
                                                struct remat_timeline_node r)
{
    int64_t right = l.sum + r.max;
    return (struct remat_timeline_node){l.sum + r.sum, l.max > right ? l.max : right};
}

/* All nodes above leaves that are not up to date, level by level. */
static void update_stale(struct remat_timeline *t)
{
    uint32_t *list = t->stale, count = t->stale_count, leaves = t->slot_count / BLOCK;
    if (count == 0)
        return;
    reserve(t, count * WORDS_OF_LEAF);
    t->stale_count = 0;
    for (uint32_t i = 0; i < count; i++)
        set_node(t, list[i], scan(t, (list[i] - leaves) * BLOCK, BLOCK));
    for (uint32_t kept; count && list[0] > 1; count = kept) {
        kept = 0;
        for (uint32_t i = 0; i < count; i++) {
            uint32_t parent = list[i] / 2;
            if (kept && list[kept - 1] == parent)
                continue;
            const struct remat_timeline_node old = t->tree[parent];
            const struct remat_timeline_node now =
                joined(t->tree[2 * parent], t->tree[2 * parent + 1]);
            if (now.sum == old.sum && now.max == old.max)
                continue;
            set_node(t, parent, now);
            list[kept++] = parent;
        }
    }
}

static void note_stale(struct remat_timeline *t, uint32_t leaf)
{
    uint32_t i = t->stale_count;
    while (i && t->stale[i - 1] > leaf)
        i--;
    if (i && t->stale[i - 1] == leaf)
        return;
    for (uint32_t k = t->stale_count++; k > i; k--)
        t->stale[k] = t->stale[k - 1];
    t->stale[i] = leaf;
    if (t->stale_count == REMAT_STALE_MAX)
        update_stale(t);
}

static void change_at(struct remat_timeline *t, uint32_t slot, int64_t bytes)
{
    uint64_t bit = UINT64_C(1) << slot % 64, changed = t->changed[slot / 64];
    reserve(t, WORDS_OF_SLOT);
    set_word(t, &t->change[slot], t->change[slot] + bytes);
    changed = t->change[slot] ? changed | bit : changed & ~bit;
    if (changed != t->changed[slot / 64])
        set_word(t, (int64_t *)&t->changed[slot / 64], (int64_t)changed);
    note_stale(t, (t->slot_count + slot) / BLOCK);
}

static void range_add(struct remat_timeline *t, uint32_t first, uint32_t last, int64_t bytes)
{
    change_at(t, first, bytes);
    if (last + 1 < t->slot_count)
        change_at(t, last + 1, -bytes);
}

int64_t remat_timeline_peak(struct remat_timeline *t)
{
    update_stale(t);
    return t->tree[1].max;
}

int64_t remat_timeline_max(struct remat_timeline *t, uint32_t first, uint32_t last)
{
    update_stale(t);
    const struct remat_timeline_node *tree = t->tree;
    uint32_t l = first / BLOCK, r = last / BLOCK, leaves = t->slot_count / BLOCK;
    int64_t before = scan(t, l * BLOCK, first % BLOCK).sum;
    struct remat_timeline_node found;
    if (l == r) {
        found = scan(t, first, last - first + 1);
        l += leaves;
    } else {
        struct remat_timeline_node right = scan(t, r * BLOCK, last % BLOCK + 1);
        found = scan(t, first, BLOCK - first % BLOCK);
        for (l += leaves, r += leaves; l >> 1 != r >> 1; l >>= 1, r >>= 1) {
            if (l & 1)
                before += tree[l - 1].sum;
            else
                found = joined(found, tree[l + 1]);
            if (r & 1)
                right = joined(tree[r - 1], right);
        }
        found = joined(found, right);
    }
    for (; l > 1; l >>= 1)
        before += l & 1 ? tree[l - 1].sum : 0;
    return before + found.max;
}

uint32_t remat_timeline_peak_slot(struct remat_timeline *t, uint64_t choice)
{
    update_stale(t);
    uint32_t i = 1, leaves = t->slot_count / BLOCK, slot;
    for (; i < leaves; choice >>= 1) {
        int64_t a = t->tree[2 * i].max, b = t->tree[2 * i].sum + t->tree[2 * i + 1].max;
        i = 2 * i + (b > a || (b == a && (choice & 1)));
    }
    slot = (i - leaves) * BLOCK;
    for (uint32_t half = BLOCK / 2; half; half /= 2, choice >>= 1) {
        struct remat_timeline_node left = scan(t, slot, half);
        int64_t right = left.sum + scan(t, slot + half, half).max;
        if (right > left.max || (right == left.max && (choice & 1)))
            slot += half;
    }
    return slot;
}

/* --- events --- */

static void event_add(struct remat_timeline *t, struct remat_events *events, size_t at,
                      uint32_t slot)
{
    REMAT_PUSH(t->arena, events, slot);
    memmove(events->items + at + 1, events->items + at,
            (events->count - 1 - at) * sizeof *events->items);
    events->items[at] = slot;
}

static void event_delete(struct remat_events *events, size_t at)
{
    events->count--;
    memmove(events->items + at, events->items + at + 1,
            (events->count - at) * sizeof *events->items);
}

/* The last of the first `count` uses, if that comes after the run at `slot`, else the run. */
static inline uint32_t end_of(const struct remat_events *uses, size_t count, uint32_t slot)
{
    return count && uses->items[count - 1] > slot ? uses->items[count - 1] : slot;
}

uint32_t remat_timeline_live_end(const struct remat_timeline *t, remat_problem_node node,
                                 size_t index)
{
    const struct remat_events *runs = &t->runs[node.i], *uses = &t->uses[node.i];
    size_t below =
        index + 1 < runs->count ? remat_events_below(uses, runs->items[index + 1]) : uses->count;
    return end_of(uses, below, runs->items[index]);
}

bool remat_timeline_valid_at(const struct remat_timeline *t, remat_mode_id mode, uint32_t slot)
{
    const struct remat_problem *p = t->problem;
    for (uint32_t e = p->input_begin[mode.i]; e < p->input_begin[mode.i + 1]; e++) {
        const struct remat_events *runs = &t->runs[p->inputs[e].i];
        if (runs->count == 0 || runs->items[0] >= slot)
            return false;
    }
    return true;
}

bool remat_timeline_valid(const struct remat_timeline *t, remat_problem_node node)
{
    const struct remat_events *runs = &t->runs[node.i], *uses = &t->uses[node.i];
    return runs->count && (uses->count == 0 || runs->items[0] < uses->items[0]);
}

/* --- runs --- */

/* Adds `sign` times the bytes that are live because the value is read at `slot`, which is not among
 * its uses at this moment, and would be number `at`. */
static void account_use(struct remat_timeline *t, remat_problem_node node, uint32_t slot, size_t at,
                        int sign)
{
    const struct remat_events *runs = &t->runs[node.i], *uses = &t->uses[node.i];
    size_t run = remat_events_below(runs, slot);
    uint32_t next = run < runs->count ? runs->items[run] : REMAT_SLOT_NONE;
    if (run == 0 || (at < uses->count && uses->items[at] < next)) /* live there for another */
        return;
    uint32_t end = end_of(uses, at, runs->items[run - 1]);
    range_add(t, end + 1, slot, sign * (int64_t)t->problem->bytes[node.i]);
}

/* The same for a run at `slot`. */
static void account_run(struct remat_timeline *t, remat_problem_node node, uint32_t slot, size_t at,
                        int sign)
{
    const struct remat_events *runs = &t->runs[node.i], *uses = &t->uses[node.i];
    int64_t bytes = sign * (int64_t)t->problem->bytes[node.i];
    size_t below = at < runs->count ? remat_events_below(uses, runs->items[at]) : uses->count;
    uint32_t end = end_of(uses, below, slot);
    if (at == 0 || end == slot) { /* nothing of an older copy is live after `slot` */
        range_add(t, slot, end, bytes);
        return;
    }
    uint32_t old_end = end_of(uses, remat_events_below(uses, slot), runs->items[at - 1]);
    if (slot > old_end + 1)
        range_add(t, old_end + 1, slot - 1, -bytes);
}

static void note_span(struct remat_timeline *t, remat_problem_node node)
{
    const struct remat_events *runs = &t->runs[node.i], *uses = &t->uses[node.i];
    t->spans[node.i].first = runs->count ? runs->items[0] : REMAT_SLOT_NONE;
    t->spans[node.i].last = uses->count ? uses->items[uses->count - 1] : 0;
}

static void note_repeated(struct remat_timeline *t, remat_problem_node node)
{
    size_t count = t->runs[node.i].count;
    bool listed = t->repeated_at[node.i] != UINT32_MAX;
    if (count > 1 && !listed) {
        t->repeated_at[node.i] = t->repeated_count;
        t->repeated[t->repeated_count++] = node;
    } else if (count <= 1 && listed) {
        remat_problem_node last = t->repeated[--t->repeated_count];
        t->repeated[t->repeated_at[node.i]] = last;
        t->repeated_at[last.i] = t->repeated_at[node.i];
        t->repeated_at[node.i] = UINT32_MAX;
    }
}

/* Workspace of the run at `slot`, and what lasts from the first run on. */
static void account_beside(struct remat_timeline *t, remat_mode_id mode, uint32_t slot, int sign)
{
    const struct remat_problem *p = t->problem;
    remat_problem_node node = p->node_of[mode.i];
    if (p->workspace[mode.i])
        range_add(t, slot, slot, sign * (int64_t)p->workspace[mode.i]);
    if (p->lasting[node.i] == 0)
        return;
    const struct remat_events *runs = &t->runs[node.i]; /* without the one at `slot` */
    uint32_t next = runs->count ? runs->items[0] : t->slot_count;
    if (slot < next)
        range_add(t, slot, next - 1, sign * (int64_t)p->lasting[node.i]);
}

/* Inserts or removes a run. Without `account` live bytes are the caller's business. */
static void change_run(struct remat_timeline *t, remat_mode_id mode, uint32_t slot, bool insert,
                       bool account)
{
    const struct remat_problem *p = t->problem;
    remat_problem_node node = p->node_of[mode.i];
    int sign = insert ? 1 : -1;
    size_t at = remat_events_below(&t->runs[node.i], slot);
    if (!insert)
        event_delete(&t->runs[node.i], at);
    if (account) {
        account_run(t, node, slot, at, sign);
        account_beside(t, mode, slot, sign);
    }
    if (insert)
        event_add(t, &t->runs[node.i], at, slot);
    for (uint32_t e = p->input_begin[mode.i]; e < p->input_begin[mode.i + 1]; e++) {
        struct remat_events *uses = &t->uses[p->inputs[e].i];
        at = remat_events_below(uses, slot);
        if (!insert)
            event_delete(uses, at);
        if (account)
            account_use(t, p->inputs[e], slot, at, sign);
        if (insert)
            event_add(t, uses, at, slot);
        note_span(t, p->inputs[e]);
    }
    t->at[slot] = insert ? mode : REMAT_NO_MODE;
    t->occupied[slot / 64] ^= UINT64_C(1) << slot % 64;
    t->ticks += insert ? p->ticks[mode.i] : -p->ticks[mode.i];
    t->run_count += insert ? 1 : UINT32_MAX;
    note_repeated(t, node);
    note_span(t, node);
    t->steps += 1 + remat_problem_input_count(p, mode);
}

static void record(struct remat_timeline *t, remat_mode_id mode, uint32_t slot, bool inserted)
{
    struct remat_timeline_change change = {mode, slot, inserted};
    REMAT_PUSH(t->arena, &t->log, change);
}

void remat_timeline_insert(struct remat_timeline *t, remat_mode_id mode, uint32_t slot)
{
    assert(slot < t->slot_count && t->at[slot].i == REMAT_NO_MODE.i);
    record(t, mode, slot, true);
    change_run(t, mode, slot, true, true);
}

void remat_timeline_remove(struct remat_timeline *t, uint32_t slot)
{
    assert(t->at[slot].i != REMAT_NO_MODE.i);
    remat_mode_id mode = t->at[slot];
    record(t, mode, slot, false);
    change_run(t, mode, slot, false, true);
}

void remat_timeline_commit(struct remat_timeline *t)
{
    update_stale(t);
    t->log.count = t->undo.count = 0;
}

void remat_timeline_rollback(struct remat_timeline *t)
{
    while (t->log.count) {
        struct remat_timeline_change c = t->log.items[--t->log.count];
        change_run(t, c.mode, c.slot, !c.inserted, false);
    }
    while (t->undo.count) {
        struct remat_timeline_word word = t->undo.items[--t->undo.count];
        *word.at = word.before;
    }
    t->stale_count = 0;
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

/* Live bytes of the run at `slot` + 1 as if it were at `slot`, which is empty. */
static void account_shift(struct remat_timeline *t, remat_mode_id mode, uint32_t slot)
{
    const struct remat_problem *p = t->problem;
    remat_problem_node node = p->node_of[mode.i];
    size_t run = remat_events_below(&t->runs[node.i], slot);
    int64_t bytes = (int64_t)p->bytes[node.i], beside = (int64_t)p->workspace[mode.i];
    int64_t lasting = run == 0 ? (int64_t)p->lasting[node.i] : 0;
    bool unread = remat_timeline_live_end(t, node, run) == slot + 1;
    range_add(t, slot, slot, bytes + beside + lasting);
    if (unread || beside)
        range_add(t, slot + 1, slot + 1, -beside - (unread ? bytes : 0));
    for (uint32_t e = p->input_begin[mode.i]; e < p->input_begin[mode.i + 1]; e++) {
        remat_problem_node u = p->inputs[e];
        run = remat_events_below(&t->runs[u.i], slot);
        if (run && remat_timeline_live_end(t, u, run - 1) == slot + 1)
            range_add(t, slot + 1, slot + 1, -(int64_t)p->bytes[u.i]);
    }
}

/* The same as remove and insert, in less time. */
static void shift(struct remat_timeline *t, uint32_t slot)
{
    remat_mode_id mode = t->at[slot + 1];
    record(t, mode, slot + 1, false);
    record(t, mode, slot, true);
    account_shift(t, mode, slot);
    change_run(t, mode, slot + 1, false, false);
    change_run(t, mode, slot, true, false);
}

uint32_t remat_timeline_make_room(struct remat_timeline *t, uint32_t slot)
{
    uint32_t before = occupied_before(t, slot), empty = before;
    uint32_t low = before == REMAT_SLOT_NONE ? 0 : before + 1;
    if (low < slot)
        return low + (slot - low) / 2;
    if (before == REMAT_SLOT_NONE)
        return REMAT_SLOT_NONE;
    while (t->at[empty].i != UINT32_MAX) {
        if (empty == 0 || slot - empty > SHIFT_MAX)
            return REMAT_SLOT_NONE;
        empty--;
    }
    for (; empty < before; empty++)
        shift(t, empty);
    return before;
}

/* --- whole sequences --- */

void remat_timeline_create(struct remat_arena *arena, const struct remat_problem *problem,
                           uint32_t runs_max, struct remat_timeline *out)
{
    *out = (struct remat_timeline){.problem = problem, .arena = arena, .slot_count = 64};
    while (out->slot_count < (uint64_t)runs_max * SLOTS_PER_RUN && out->slot_count < 1u << 30)
        out->slot_count *= 2;
    REMAT_NEW(arena, out->at, out->slot_count);
    REMAT_NEW(arena, out->occupied, out->slot_count / 64);
    REMAT_NEW(arena, out->change, out->slot_count);
    REMAT_NEW(arena, out->changed, out->slot_count / 64);
    REMAT_NEW(arena, out->tree, out->slot_count / BLOCK * 2);
    REMAT_NEW(arena, out->runs, problem->node_count);
    REMAT_NEW(arena, out->uses, problem->node_count);
    REMAT_NEW(arena, out->spans, problem->node_count);
    REMAT_NEW(arena, out->repeated, problem->node_count);
    REMAT_NEW(arena, out->repeated_at, problem->node_count);
}

bool remat_timeline_load(struct remat_timeline *t, const struct remat_sequence *sequence,
                         struct remat_deadline *deadline)
{
    memset(t->at, 0xff, t->slot_count * sizeof *t->at);
    memset(t->occupied, 0, t->slot_count / 8);
    memset(t->change, 0, t->slot_count * sizeof *t->change);
    memset(t->changed, 0, t->slot_count / 64 * sizeof *t->changed);
    memset(t->tree, 0, t->slot_count / BLOCK * 2 * sizeof *t->tree);
    memset(t->repeated_at, 0xff, t->problem->node_count * sizeof *t->repeated_at);
    for (remat_problem_node v = {0}; v.i < t->problem->node_count; v.i++) {
        t->runs[v.i].count = t->uses[v.i].count = 0;
        t->spans[v.i] = (struct remat_timeline_span){REMAT_SLOT_NONE, 0};
    }
    t->repeated_count = t->run_count = 0;
    t->ticks = 0;
    assert(sequence->count < t->slot_count);
    uint64_t count = sequence->count, before = t->steps;
    t->log.count = t->undo.count = t->stale_count = 0;
    for (uint64_t i = 0; i < count; i++) {
        remat_timeline_insert(t, sequence->items[i],
                              (uint32_t)((2 * i + 1) * t->slot_count / (2 * count)));
        remat_timeline_commit(t);
        if (remat_deadline_count(deadline, (t->steps - before) * REMAT_EVENT_STEPS))
            return i + 1 == count;
        before = t->steps;
    }
    return true;
}

struct remat_sequence remat_timeline_store(const struct remat_timeline *t,
                                           struct remat_arena *arena)
{
    struct remat_sequence out = {.capacity = t->run_count};
    REMAT_NEW(arena, out.items, t->run_count);
    for (uint32_t word = 0; word < t->slot_count / 64; word++)
        for (uint64_t bits = t->occupied[word]; bits; bits &= bits - 1)
            out.items[out.count++] = t->at[64 * word + (uint32_t)__builtin_ctzll(bits)];
    return out;
}
