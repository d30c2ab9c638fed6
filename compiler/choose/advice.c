/* SPDX-License-Identifier: Apache-2.0 */
/* A row of `advice_rows` is an option; a set of rows, one of a kind at most, is planned where each
 * of them applies and, of a refusal, all may make up for the bytes that are missing; so a budget
 * far from any plan is refused without planning. One row is said where it makes a plan faster or
 * smaller, or a refused one fit or, if no option of its kind does that, smaller. Where none makes
 * it fit, the fastest of the smallest sets that do is said. Adapters train something else: they are
 * in such a set only if no other fits. */
#include "advice.h"

#include "advice_options.h"
#include "size.h"

#define COMMANDS_MAX 8000 /* of a plan that is searched once more for advice */
#define FULL_SHARE   0.80 /* of the capacity, from which on a budget means all of it */
#define GAIN         0.01 /* of time or memory, from which on it is said */
#define SETS_MAX     8    /* of several options, planned for one refusal */

typedef uint32_t row_set; /* bit i: advice_rows[i] */

static bool has(row_set set, uint32_t row)
{
    return set >> row & 1;
}

static bool has_kind(row_set set, enum advice_kind kind)
{
    for (uint32_t i = 0; i < ADVICE_ROW_COUNT; i++)
        if (has(set, i) && advice_rows[i].kind == kind)
            return true;
    return false;
}

static uint64_t total(const struct advice_demand *d)
{
    uint64_t bytes = d->logits_bytes + d->unused_bytes;
    for (int k = 0; k < REMAT_STATIC_PARTS; k++)
        bytes += d->parts.bytes[k];
    return bytes;
}

/* --- planning --- */

struct advising {
    remat_context *ctx;
    struct remat_arena *arena;
    struct situation s;
    const struct remat_advice_planner *planner;
    struct remat_advices *out;
    uint64_t saved[ADVICE_ROW_COUNT]; /* by a row that is not enough by itself, as planned */
    bool fits[KIND_COUNT];            /* with a row of this kind alone */
    struct remat_advice_facts
        adapted;        /* of adapters that are not enough; needed_bytes 0: not known */
    uint32_t set_count; /* of several rows, planned */
};

/* From the smallest plan with adapters on. */
static bool begins_adapted(const struct advising *a, row_set set)
{
    return has_kind(set, ADAPTERS) && a->adapted.needed_bytes;
}

/* About the bytes that the set saves; 0: a row in it does not apply, or saves nothing beside the
 * others; UINT64_MAX: that is not known. Adapters divide least, and what is divided may be gone, so
 * rows act from the last to the first. */
static uint64_t saved_by(const struct advising *a, row_set set)
{
    struct situation s = a->s;
    bool from_adapted = begins_adapted(a, set);
    if (from_adapted)
        s = (struct situation){
            .graph = s.adapted,
            .settings = s.settings,
            .facts = &a->adapted,
            .refused = true,
            .demand = {a->adapted.parts, a->adapted.logits_bytes, s.demand.unused_bytes}};
    struct advice_demand d = s.demand;
    uint64_t before = total(&d), saved = 0;
    for (uint32_t i = ADVICE_ROW_COUNT; i-- > 0;) {
        uint64_t whole = total(&d), measured = a->saved[i];
        if (!has(set, i) || (from_adapted && advice_rows[i].kind == ADAPTERS))
            continue;
        if (advice_rows[i].lower) {
            advice_rows[i].lower(&s, &d);
            if (total(&d) == whole)
                return 0;
        } else if (!advice_is_one_unit(&a->s) || (set != 1u << i && !measured)) {
            return 0;
        } else if (set == 1u << i) {
            return UINT64_MAX;
        } else {
            saved += measured;
        }
    }
    return saved + before - total(&d);
}

/* With adapters also gradients are few: enough is what leaves room beside persistent memory. */
static bool may_fit(const struct advising *a, row_set set, uint64_t saved)
{
    const struct remat_advice_facts *f = a->s.facts;
    uint64_t needed = begins_adapted(a, set)    ? a->adapted.needed_bytes
                      : has_kind(set, ADAPTERS) ? f->static_bytes
                                                : f->needed_bytes;
    return saved > needed || needed - saved <= a->s.settings->search.budget_bytes;
}

/* Whether a plan with the options is worth its time. */
static bool is_promising(const struct advising *a, row_set set)
{
    const struct situation *s = &a->s;
    const struct remat_advice_facts *f = s->facts;
    uint64_t saved = saved_by(a, set);
    if (s->refused)
        return saved && may_fit(a, set, saved);
    bool limited =
        s->settings->search.has_budget && !remat_policy_given(&s->settings->search.policy);
    bool waits = (double)f->step_ns > (1 + GAIN) * (double)f->base_step_ns;
    return saved && (!limited || (waits && f->command_count <= COMMANDS_MAX));
}

/* Faster, or smaller where that costs no more than it saves. */
static bool is_better(const struct remat_advice_facts *now, const struct remat_advice_facts *with)
{
    double time = (double)with->step_ns / (double)now->step_ns;
    double memory = (double)with->needed_bytes / (double)now->needed_bytes;
    return time < 1 - GAIN || (memory < 1 - GAIN && time < 2 - memory);
}

/* REMAT_ERROR_INFEASIBLE: it does not help. */
static remat_status try(const struct advising *a, row_set set, struct remat_advice_facts *with)
{
    const struct situation *s = &a->s;
    struct remat_compile_settings settings = *s->settings;
    struct remat_graph *graph =
        remat_graph_copy(a->arena, has_kind(set, ADAPTERS) ? s->adapted : s->graph, 1);
    *with = (struct remat_advice_facts){0};
    for (uint32_t i = 0; i < ADVICE_ROW_COUNT; i++)
        if (has(set, i))
            advice_use(&advice_rows[i], graph, &settings);
    remat_status st = a->planner->plan(a->planner->user, graph, &settings, with);
    if (st == REMAT_OK && !s->refused && !is_better(s->facts, with))
        st = REMAT_ERROR_INFEASIBLE;
    return st;
}

/* How little one unit of all layers is worth: what saving everything needs. */
static remat_status compare_unit(const struct advising *a, const char **out)
{
    remat_status st = REMAT_OK;
    const struct situation *s = &a->s;
    struct remat_compile_settings settings = *s->settings;
    struct remat_advice_facts all;
    settings.search.has_budget = false;
    settings.search.policy =
        (struct remat_policy_settings){.ac_mode = "none",
                                       .save = settings.search.policy.save,
                                       .save_count = settings.search.policy.save_count,
                                       .recompute = settings.search.policy.recompute,
                                       .recompute_count = settings.search.policy.recompute_count};
    REMAT_TRY(a->planner->plan(a->planner->user, remat_graph_copy(a->arena, s->graph, 1), &settings,
                               &all));
    double saved = 1 - (double)s->facts->needed_bytes / (double)all.needed_bytes;
    *out =
        remat_arena_format(a->arena,
                           "; one unit of all layers, recomputed together, saves %.1f %% of "
                           "the %s that saving everything needs",
                           100 * (saved > 0 ? saved : 0), remat_short_text(all.needed_bytes).text);
    st = *out ? REMAT_OK : REMAT_ERROR_MEMORY;
fail:
    return st;
}

/* --- saying it --- */

/* Options of one tool, as typed; "": none. */
static const char *options_of(struct remat_arena *arena, row_set set, const char *tool)
{
    struct remat_text text = {.arena = arena};
    for (uint32_t i = 0; i < ADVICE_ROW_COUNT; i++)
        if (has(set, i) && strcmp(advice_rows[i].tool, tool) == 0)
            remat_text_append(&text, "%s%s", text.count ? " " : "", advice_rows[i].options);
    return text.failed ? NULL : text.items ? text.items : "";
}

/* `said`, after the options. NULL: there was no memory for it. */
static remat_status add(const struct advising *a, row_set set, const char *said,
                        uint64_t needed_bytes, uint64_t step_ns)
{
    remat_status st = REMAT_OK;
    const char *own = options_of(a->arena, set, ADVICE_COMPILE);
    const char *other = options_of(a->arena, set, ADVICE_GRAPH);
    struct remat_advice advice = {.needed_bytes = needed_bytes, .step_ns = step_ns};
    if (!own || !other || !said)
        return REMAT_ERROR_MEMORY;
    advice.tool = *own ? ADVICE_COMPILE : ADVICE_GRAPH;
    advice.options = *own ? own : other;
    advice.graph_options = *own && *other ? other : NULL;
    advice.text = remat_arena_format(a->arena, "%s%s%s%s%s: %s", own, *own && *other ? ", " : "",
                                     *other ? ADVICE_GRAPH : "", *other ? " " : "", other, said);
    if (!advice.text)
        return REMAT_ERROR_MEMORY;
    REMAT_TRY_PUSH(a->arena, a->out, advice);
fail:
    return st;
}

/* `why`: what it puts right. */
static remat_status add_fitting(const struct advising *a, row_set set,
                                const struct remat_advice_facts *with, const char *why)
{
    return add(a, set,
               remat_arena_format(a->arena, "%s a step, needs %s%s",
                                  remat_time_text(with->step_ns).text,
                                  remat_enough_text(with->needed_bytes).text, why),
               with->needed_bytes, with->step_ns);
}

static remat_status add_shortfall(const struct advising *a, row_set set, uint64_t needed_bytes)
{
    return add(a, set,
               remat_arena_format(a->arena, "needs %s, still more than the budget",
                                  remat_enough_text(needed_bytes).text),
               needed_bytes, 0);
}

/* --- what is tried --- */

/* The first row of the kind that helps, or the one that leaves least to be missing. */
static remat_status advise_kind(struct advising *a, enum advice_kind kind)
{
    remat_status st = REMAT_OK;
    uint64_t now = a->s.facts->needed_bytes, least = now;
    row_set smallest = 0;
    for (uint32_t i = 0; i < ADVICE_ROW_COUNT; i++) {
        struct remat_advice_facts with;
        const char *why = "";
        if (advice_rows[i].kind != kind || !is_promising(a, 1u << i))
            continue;
        st = try(a, 1u << i, &with);
        if (st == REMAT_OK) {
            a->fits[kind] = true;
            if (kind == UNITS)
                REMAT_TRY(compare_unit(a, &why));
            return add_fitting(a, 1u << i, &with, why);
        }
        if (st != REMAT_ERROR_INFEASIBLE)
            return st;
        st = REMAT_OK;
        if (kind == ADAPTERS)
            a->adapted = with;
        if (!a->s.refused || !with.needed_bytes || with.needed_bytes >= now)
            continue;
        a->saved[i] = now - with.needed_bytes;
        if (with.needed_bytes < least && (double)with.needed_bytes < (1 - GAIN) * (double)now) {
            least = with.needed_bytes;
            smallest = 1u << i;
        }
    }
    if (smallest)
        st = add_shortfall(a, smallest, least);
fail:
    return st;
}

/* Of adapters that the graph cannot be made with is known that weights stay, without their states.
 */
static remat_status advise_adapters(struct advising *a)
{
    remat_status st = REMAT_OK;
    struct situation *s = &a->s;
    const struct remat_static_parts *parts = &s->facts->parts;
    uint64_t budget = s->settings->search.budget_bytes, needed = s->facts->static_bytes;
    uint64_t weights = parts->bytes[REMAT_PART_WEIGHTS];
    const char *why;
    for (int k = REMAT_PART_WEIGHTS + 1; k < REMAT_PART_FROZEN; k++)
        needed -= parts->bytes[k];
    uint64_t least = needed - weights + weights / remat_mesh_size(&s->settings->mesh, "dp");
    if (!s->refused || s->facts->static_bytes <= budget || parts->frozen ||
        s->graph->optimizer.kind != REMAT_OPTIMIZER_ADAMW || least >= budget)
        return REMAT_OK;
    REMAT_TRY(a->planner->adapt(a->planner->user, a->arena, s->graph, &s->adapted, &why));
    if (s->adapted || needed >= budget)
        return s->adapted ? advise_kind(a, ADAPTERS) : REMAT_OK;
    row_set set = 0;
    for (uint32_t i = 0; i < ADVICE_ROW_COUNT; i++)
        set |= (row_set)(advice_rows[i].kind == ADAPTERS) << i;
    st = add(a, set,
             remat_arena_format(a->arena,
                                "weights without states take %s; the time is not known: %s",
                                remat_short_text(needed).text, why),
             needed, 0);
fail:
    return st;
}

static uint32_t count_kinds(uint32_t kinds)
{
    uint32_t count = 0;
    for (; kinds; kinds &= kinds - 1)
        count++;
    return count;
}

/* Whether it has one row of each of the kinds, a set of bits, and no other. */
static bool is_of(row_set set, uint32_t kinds)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < ADVICE_ROW_COUNT; i++) {
        if (has(set, i) && found >> advice_rows[i].kind & 1)
            return false;
        found |= has(set, i) ? 1u << advice_rows[i].kind : 0;
    }
    return found == kinds;
}

struct best {
    row_set set; /* 0: none */
    struct remat_advice_facts with;
};

/* The first set of these kinds that fits, if it is faster. */
static remat_status try_kinds(struct advising *a, uint32_t kinds, struct best *best)
{
    for (row_set set = 1; set < 1u << ADVICE_ROW_COUNT && a->set_count < SETS_MAX; set++) {
        struct remat_advice_facts with;
        if (!is_of(set, kinds) || !is_promising(a, set))
            continue;
        a->set_count++;
        remat_status st = try(a, set, &with);
        if (st == REMAT_ERROR_INFEASIBLE)
            continue;
        if (st == REMAT_OK && (!best->set || with.step_ns < best->with.step_ns))
            *best = (struct best){set, with};
        return st;
    }
    return REMAT_OK;
}

static remat_status combine(struct advising *a, bool adapters, struct best *best)
{
    remat_status st = REMAT_OK;
    for (uint32_t count = 2; count <= KIND_COUNT && !best->set; count++)
        for (uint32_t kinds = 1; kinds < 1u << KIND_COUNT; kinds++)
            if (count_kinds(kinds) == count && (kinds >> ADAPTERS & 1) == adapters)
                REMAT_TRY(try_kinds(a, kinds, best));
fail:
    return st;
}

static remat_status advise_sets(struct advising *a)
{
    remat_status st = REMAT_OK;
    struct best best = {0};
    for (int k = 0; k < ADAPTERS; k++)
        if (a->fits[k])
            return REMAT_OK;
    REMAT_TRY(combine(a, false, &best));
    if (!best.set && !a->fits[ADAPTERS])
        REMAT_TRY(combine(a, true, &best));
    if (best.set)
        st = add_fitting(a, best.set, &best.with, "");
fail:
    return st;
}

/* What a budget such as 80GB leaves of a device that has more. */
static uint64_t unused_bytes(const struct remat_compile_settings *settings)
{
    uint64_t capacity = settings->device.capacity_bytes, budget = settings->search.budget_bytes;
    bool meant = settings->search.has_budget && (double)budget >= FULL_SHARE * (double)capacity;
    return meant && budget < capacity ? capacity - budget : 0;
}

remat_status remat_advise(remat_context *ctx, struct remat_arena *arena,
                          const struct remat_graph *graph,
                          const struct remat_compile_settings *settings,
                          const struct remat_advice_facts *facts,
                          const struct remat_advice_planner *planner, struct remat_advices *out)
{
    remat_status st = REMAT_OK;
    struct advising a = {
        .ctx = ctx,
        .arena = arena,
        .s = {.graph = graph,
              .settings = settings,
              .facts = facts,
              .refused = facts->step_ns == 0,
              .demand = {facts->parts, facts->logits_bytes, unused_bytes(settings)}},
        .planner = planner,
        .out = out};
    const struct remat_graph meshed = remat_graph_on_mesh(graph, &settings->mesh);
    struct remat_policy_settings policy = settings->search.policy;
    policy.distribute_saved_activations = false; /* asks for lengths, which are not bound yet */
    if (remat_policy_given(&policy))
        REMAT_TRY(remat_policy_resolve(ctx, arena, &meshed, &policy, &a.s.policy));
    for (enum advice_kind kind = 0; kind < ADAPTERS; kind++)
        REMAT_TRY(advise_kind(&a, kind));
    REMAT_TRY(advise_adapters(&a));
    if (a.s.refused)
        st = advise_sets(&a);
fail:
    return st;
}
