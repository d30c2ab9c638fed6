/* SPDX-License-Identifier: Apache-2.0 */
/* A row of `rows` is an option; a set of rows, one of a kind at most, is planned where each of them
 * applies and, of a refusal, all may make up for the bytes that are missing; so a budget far from
 * any plan is refused without planning. One row is said where it makes a plan faster or smaller, or
 * a refused one fit or, if no option of its kind does that, smaller. Where none makes it fit, the
 * fastest of the smallest sets that do is said. Adapters train something else: they are in such a
 * set only if no other fits. */
#include "advice.h"

#include "mesh.h"
#include "policy.h"
#include "size.h"

#define COMMANDS_MAX 8000 /* of a plan that is searched once more for advice */
#define LOGITS_SHARE 0.10 /* of the live peak, from which on it is at the logits */
#define FULL_SHARE   0.80 /* of the capacity, from which on a budget means all of it */
#define GAIN         0.01 /* of time or memory, from which on it is said */
#define SETS_MAX     8    /* of several options, planned for one refusal */

/* --- facts --- */

static uint64_t elements_of(const struct remat_program_value *value)
{
    uint64_t elements = 1;
    for (uint32_t d = 0; d < value->rank; d++)
        elements = remat_mul_saturated(elements, (uint64_t)value->shape[d]);
    return elements;
}

/* After a head with a bias a command of the forward pass does. */
static bool computes_loss(const struct remat_program *p, const struct remat_command *command)
{
    for (uint32_t o = command->operand_begin; o < command->operand_end; o++)
        if ((p->operands[o].access & REMAT_ACCESS_WRITE) &&
            p->values[p->operands[o].value].phase == REMAT_PHASE_LOSS)
            return true;
    return command->phase == REMAT_PHASE_LOSS;
}

/* The largest value that the loss is computed from. */
static uint64_t logits_elements(const struct remat_program *p)
{
    uint64_t most = 0;
    for (uint32_t c = 0; c < p->command_count; c++) {
        const struct remat_command *command = &p->commands[c];
        bool of_loss = computes_loss(p, command);
        for (uint32_t o = command->operand_begin; of_loss && o < command->operand_end; o++) {
            const struct remat_program_value *value = &p->values[p->operands[o].value];
            if (value->role == REMAT_ROLE_ACTIVATION)
                remat_keep_most(&most, elements_of(value));
        }
    }
    return most;
}

remat_status advice_measure(struct remat_arena *arena, const struct remat_program *p,
                            struct advice_facts *out)
{
    remat_status st = REMAT_OK;
    uint64_t elements = logits_elements(p);
    *out = (struct advice_facts){.static_bytes = p->static_bytes,
                                 .live_peak_bytes = p->peak_bytes,
                                 .needed_bytes = p->arena_bytes + p->reserve_bytes,
                                 .step_ns = p->step_ns,
                                 .base_step_ns = p->base_step_ns,
                                 .command_count = p->command_count};
    REMAT_TRY(static_parts_measure(arena, p, &out->parts));
    for (uint32_t v = 0; v < p->value_count; v++) {
        const struct remat_program_value *value = &p->values[v];
        const struct remat_buffer *buffer = &p->buffers[value->buffer];
        if (!buffer->persistent && remat_buffer_is_live(buffer, p->peak_command) &&
            elements_of(value) == elements)
            out->logits_bytes += buffer->bytes;
    }
fail:
    return st;
}

/* --- options --- */

/* Bytes of a rank that options bear on. */
struct advice_demand {
    struct static_parts parts;
    uint64_t logits_bytes; /* at the live peak, as values that are whole */
    uint64_t unused_bytes; /* of the device, beyond a budget that means all of it */
};

struct situation {
    const struct remat_graph *graph, *adapted; /* NULL: the graph cannot be made with adapters */
    const struct remat_compile_settings *settings;
    const struct advice_facts *facts;
    struct remat_policy policy; /* that was given; no layers: none */
    bool refused;
    struct advice_demand demand;
};

static bool has_adamw(const struct situation *s)
{
    return s->graph->optimizer.kind == REMAT_OPTIMIZER_ADAMW;
}

static void divide(struct advice_demand *d, enum static_part part, uint32_t ranks)
{
    d->parts.bytes[part] /= ranks;
}

static bool is_one_group(const struct situation *s)
{
    uint32_t recomputed = 0;
    for (uint32_t layer = 0; layer < s->policy.layer_count; layer++)
        recomputed += s->policy.recomputed[layer] != 0;
    return s->policy.granularity == REMAT_POLICY_LAYERS && recomputed > 1 &&
           s->policy.group >= recomputed && s->settings->search.policy.has_recompute_num_layers;
}

static void lower_by_chunks(const struct situation *s, struct advice_demand *d)
{
    bool at_logits =
        (double)s->facts->logits_bytes >= LOGITS_SHARE * (double)s->facts->live_peak_bytes;
    if (at_logits && s->settings->passes.loss_chunk == 0)
        d->logits_bytes = 0;
}

static void lower_by_capacity(const struct situation *s, struct advice_demand *d)
{
    (void)s;
    d->unused_bytes = 0;
}

static void lower_by_zero_1(const struct situation *s, struct advice_demand *d)
{
    uint32_t ranks = remat_mesh_size(&s->settings->mesh, "dp");
    if (!s->refused || s->settings->passes.zero)
        return;
    divide(d, PART_MASTERS, ranks);
    divide(d, PART_MOMENTS, ranks);
}

static void lower_by_zero_3(const struct situation *s, struct advice_demand *d)
{
    uint32_t ranks = remat_mesh_size(&s->settings->mesh, "dp");
    if (!s->refused || s->settings->passes.zero == 3 || !has_adamw(s))
        return;
    lower_by_zero_1(s, d);
    divide(d, PART_WEIGHTS, ranks);
    divide(d, PART_FROZEN, ranks);
    divide(d, PART_ACCUMULATORS, ranks);
}

static void lower_by_moments(const struct situation *s, struct advice_demand *d)
{
    if (s->refused && has_adamw(s) && !s->graph->optimizer.bf16_moments)
        divide(d, PART_MOMENTS, 2);
}

static void lower_by_masters(const struct situation *s, struct advice_demand *d)
{
    if (s->refused)
        d->parts.bytes[PART_MASTERS] = 0;
}

static void lower_by_both(const struct situation *s, struct advice_demand *d)
{
    struct advice_demand before = *d;
    lower_by_masters(s, d);
    uint64_t moments = d->parts.bytes[PART_MOMENTS];
    lower_by_moments(s, d);
    bool both = before.parts.bytes[PART_MASTERS] && d->parts.bytes[PART_MOMENTS] < moments;
    if (!both)
        *d = before;
}

/* Adapters have little of what trained weights have. */
static void lower_by_adapters(const struct situation *s, struct advice_demand *d)
{
    for (int k = PART_WEIGHTS + 1; s->adapted && k < PART_FROZEN; k++)
        d->parts.bytes[k] = 0;
}

static void use_capacity(struct remat_graph *graph, struct remat_compile_settings *settings)
{
    (void)graph;
    settings->search.budget_bytes = settings->device.capacity_bytes;
}

static void use_chunks(struct remat_graph *graph, struct remat_compile_settings *settings)
{
    (void)graph;
    settings->passes.loss_chunk = REMAT_LOSS_CHUNK_AUTO;
}

static void use_zero_1(struct remat_graph *graph, struct remat_compile_settings *settings)
{
    (void)graph;
    settings->passes.zero = 1;
}

static void use_zero_3(struct remat_graph *graph, struct remat_compile_settings *settings)
{
    (void)graph;
    settings->passes.zero = 3;
}

static void use_moments(struct remat_graph *graph, struct remat_compile_settings *settings)
{
    (void)settings;
    graph->optimizer.bf16_moments = true;
}

static void use_no_masters(struct remat_graph *graph, struct remat_compile_settings *settings)
{
    (void)settings;
    graph->optimizer.no_master = true;
}

static void use_both(struct remat_graph *graph, struct remat_compile_settings *settings)
{
    use_moments(graph, settings);
    use_no_masters(graph, settings);
}

static void use_groups(struct remat_graph *graph, struct remat_compile_settings *settings)
{
    (void)graph;
    settings->search.policy.recompute_num_layers = 1;
    settings->search.policy.recompute_num_layers_text = NULL;
}

/* Which begin with another graph. */
static void use_adapters(struct remat_graph *graph, struct remat_compile_settings *settings)
{
    (void)graph, (void)settings;
}

enum advice_kind { GROUPS, CHUNKS, CAPACITY, ZERO, STATES, ADAPTERS, KIND_COUNT };
static const char graph_tool[] = "remat-graph", compile_tool[] = "remat-compile";

/* Of one kind the first that helps is said. */
static const struct advice_row {
    enum advice_kind kind;
    const char *tool, *options;
    /* Nothing changes where it does not apply; NULL: how much it saves is known when it is planned.
     */
    void (*lower)(const struct situation *s, struct advice_demand *demand);
    void (*use)(struct remat_graph *graph, struct remat_compile_settings *settings);
} rows[] = {
    {GROUPS, compile_tool, "--recompute-num-layers 1", NULL, use_groups},
    {CHUNKS, compile_tool, "--loss-chunk auto", lower_by_chunks, use_chunks},
    {CAPACITY, compile_tool, "--budget 100%", lower_by_capacity, use_capacity},
    {ZERO, compile_tool, "--zero 1", lower_by_zero_1, use_zero_1},
    {ZERO, compile_tool, "--zero 3", lower_by_zero_3, use_zero_3},
    {STATES, graph_tool, "--moments bf16", lower_by_moments, use_moments},
    {STATES, graph_tool, "--master none", lower_by_masters, use_no_masters},
    {STATES, graph_tool, "--master none --moments bf16", lower_by_both, use_both},
    {ADAPTERS, graph_tool, "--lora " ADVICE_LORA, lower_by_adapters, use_adapters},
};
enum { ROW_COUNT = sizeof rows / sizeof *rows };
typedef uint32_t row_set; /* bit i: rows[i] */

static bool has(row_set set, uint32_t row)
{
    return set >> row & 1;
}

static bool has_kind(row_set set, enum advice_kind kind)
{
    for (uint32_t i = 0; i < ROW_COUNT; i++)
        if (has(set, i) && rows[i].kind == kind)
            return true;
    return false;
}

static uint64_t total(const struct advice_demand *d)
{
    uint64_t bytes = d->logits_bytes + d->unused_bytes;
    for (int k = 0; k < STATIC_PART_COUNT; k++)
        bytes += d->parts.bytes[k];
    return bytes;
}

/* --- planning --- */

struct advising {
    remat_context *ctx;
    struct remat_arena *arena;
    struct situation s;
    const struct advice_planner *planner;
    struct advices *out;
    uint64_t saved[ROW_COUNT];   /* by a row that is not enough by itself, as planned */
    bool fits[KIND_COUNT];       /* with a row of this kind alone */
    struct advice_facts adapted; /* of adapters that are not enough; needed_bytes 0: not known */
    uint32_t set_count;          /* of several rows, planned */
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
    for (uint32_t i = ROW_COUNT; i-- > 0;) {
        uint64_t whole = total(&d), measured = a->saved[i];
        if (!has(set, i) || (from_adapted && rows[i].kind == ADAPTERS))
            continue;
        if (rows[i].lower) {
            rows[i].lower(&s, &d);
            if (total(&d) == whole)
                return 0;
        } else if (!is_one_group(&a->s) || (set != 1u << i && !measured)) {
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
    const struct advice_facts *f = a->s.facts;
    uint64_t needed = begins_adapted(a, set)    ? a->adapted.needed_bytes
                      : has_kind(set, ADAPTERS) ? f->static_bytes
                                                : f->needed_bytes;
    return saved > needed || needed - saved <= a->s.settings->search.budget_bytes;
}

/* Whether a plan with the options is worth its time. */
static bool is_promising(const struct advising *a, row_set set)
{
    const struct situation *s = &a->s;
    const struct advice_facts *f = s->facts;
    uint64_t saved = saved_by(a, set);
    if (s->refused)
        return saved && may_fit(a, set, saved);
    bool limited =
        s->settings->search.has_budget && !remat_policy_given(&s->settings->search.policy);
    bool waits = (double)f->step_ns > (1 + GAIN) * (double)f->base_step_ns;
    return saved && (!limited || (waits && f->command_count <= COMMANDS_MAX));
}

/* Faster, or smaller where that costs no more than it saves. */
static bool is_better(const struct advice_facts *now, const struct advice_facts *with)
{
    double time = (double)with->step_ns / (double)now->step_ns;
    double memory = (double)with->needed_bytes / (double)now->needed_bytes;
    return time < 1 - GAIN || (memory < 1 - GAIN && time < 2 - memory);
}

/* REMAT_ERROR_INFEASIBLE: it does not help. */
static remat_status try(const struct advising *a, row_set set, struct advice_facts *with)
{
    const struct situation *s = &a->s;
    struct remat_compile_settings settings = *s->settings;
    struct remat_graph *graph =
        remat_graph_copy(a->arena, has_kind(set, ADAPTERS) ? s->adapted : s->graph, 1);
    *with = (struct advice_facts){0};
    for (uint32_t i = 0; i < ROW_COUNT; i++)
        if (has(set, i))
            rows[i].use(graph, &settings);
    remat_status st = a->planner->plan(a->planner->user, graph, &settings, with);
    if (st == REMAT_OK && !s->refused && !is_better(s->facts, with))
        st = REMAT_ERROR_INFEASIBLE;
    return st;
}

/* How little one group of all layers is worth: what saving everything needs. */
static remat_status compare_group(const struct advising *a, const char **out)
{
    remat_status st = REMAT_OK;
    const struct situation *s = &a->s;
    struct remat_compile_settings settings = *s->settings;
    struct advice_facts all;
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
    *out = remat_arena_format(a->arena,
                              "; one group of all layers, recomputed together, saves %.1f %% of "
                              "the %s that saving everything needs",
                              100 * (saved > 0 ? saved : 0), cli_short(all.needed_bytes).text);
    st = *out ? REMAT_OK : REMAT_ERROR_MEMORY;
fail:
    return st;
}

/* --- saying it --- */

/* Options of one tool, as typed; "": none. */
static const char *options_of(struct remat_arena *arena, row_set set, const char *tool)
{
    struct remat_text text = {.arena = arena};
    for (uint32_t i = 0; i < ROW_COUNT; i++)
        if (has(set, i) && rows[i].tool == tool)
            remat_text_append(&text, "%s%s", text.count ? " " : "", rows[i].options);
    return text.failed ? NULL : text.items ? text.items : "";
}

/* `said`, after the options. NULL: there was no memory for it. */
static remat_status add(const struct advising *a, row_set set, const char *said,
                        uint64_t needed_bytes, uint64_t step_ns)
{
    remat_status st = REMAT_OK;
    const char *own = options_of(a->arena, set, compile_tool);
    const char *other = options_of(a->arena, set, graph_tool);
    struct advice advice = {.needed_bytes = needed_bytes, .step_ns = step_ns};
    if (!own || !other || !said)
        return REMAT_ERROR_MEMORY;
    advice.tool = *own ? compile_tool : graph_tool;
    advice.options = *own ? own : other;
    advice.graph_options = *own && *other ? other : NULL;
    advice.text = remat_arena_format(a->arena, "%s%s%s%s%s: %s", own, *own && *other ? ", " : "",
                                     *other ? graph_tool : "", *other ? " " : "", other, said);
    if (!advice.text)
        return REMAT_ERROR_MEMORY;
    REMAT_TRY_PUSH(a->arena, a->out, advice);
fail:
    return st;
}

/* `why`: what it puts right. */
static remat_status add_fitting(const struct advising *a, row_set set,
                                const struct advice_facts *with, const char *why)
{
    return add(a, set,
               remat_arena_format(a->arena, "%s a step, needs %s%s", cli_time(with->step_ns).text,
                                  cli_enough(with->needed_bytes).text, why),
               with->needed_bytes, with->step_ns);
}

static remat_status add_shortfall(const struct advising *a, row_set set, uint64_t needed_bytes)
{
    return add(a, set,
               remat_arena_format(a->arena, "needs %s, still more than the budget",
                                  cli_enough(needed_bytes).text),
               needed_bytes, 0);
}

/* --- what is tried --- */

/* The first row of the kind that helps, or the one that leaves least to be missing. */
static remat_status advise_kind(struct advising *a, enum advice_kind kind)
{
    remat_status st = REMAT_OK;
    uint64_t now = a->s.facts->needed_bytes, least = now;
    row_set smallest = 0;
    for (uint32_t i = 0; i < ROW_COUNT; i++) {
        struct advice_facts with;
        const char *why = "";
        if (rows[i].kind != kind || !is_promising(a, 1u << i))
            continue;
        st = try(a, 1u << i, &with);
        if (st == REMAT_OK) {
            a->fits[kind] = true;
            if (kind == GROUPS)
                REMAT_TRY(compare_group(a, &why));
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
    const struct static_parts *parts = &s->facts->parts;
    uint64_t budget = s->settings->search.budget_bytes, needed = s->facts->static_bytes;
    uint64_t weights = parts->bytes[PART_WEIGHTS];
    const char *why;
    for (int k = PART_WEIGHTS + 1; k < PART_FROZEN; k++)
        needed -= parts->bytes[k];
    uint64_t least = needed - weights + weights / remat_mesh_size(&s->settings->mesh, "dp");
    if (!s->refused || s->facts->static_bytes <= budget || parts->frozen || !has_adamw(s) ||
        least >= budget)
        return REMAT_OK;
    REMAT_TRY(a->planner->adapt(a->planner->user, a->arena, s->graph, &s->adapted, &why));
    if (s->adapted || needed >= budget)
        return s->adapted ? advise_kind(a, ADAPTERS) : REMAT_OK;
    row_set set = 0;
    for (uint32_t i = 0; i < ROW_COUNT; i++)
        set |= (row_set)(rows[i].kind == ADAPTERS) << i;
    st = add(a, set,
             remat_arena_format(a->arena,
                                "weights without states take %s; the time is not known: %s",
                                cli_short(needed).text, why),
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
    for (uint32_t i = 0; i < ROW_COUNT; i++) {
        if (has(set, i) && found >> rows[i].kind & 1)
            return false;
        found |= has(set, i) ? 1u << rows[i].kind : 0;
    }
    return found == kinds;
}

struct best {
    row_set set; /* 0: none */
    struct advice_facts with;
};

/* The first set of these kinds that fits, if it is faster. */
static remat_status try_kinds(struct advising *a, uint32_t kinds, struct best *best)
{
    for (row_set set = 1; set < 1u << ROW_COUNT && a->set_count < SETS_MAX; set++) {
        struct advice_facts with;
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

remat_status advise(remat_context *ctx, struct remat_arena *arena, const struct remat_graph *graph,
                    const struct remat_compile_settings *settings, const struct advice_facts *facts,
                    const struct advice_planner *planner, struct advices *out)
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
