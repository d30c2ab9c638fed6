/* SPDX-License-Identifier: Apache-2.0 */
/* A row of `rows` is an option. It is planned where it applies and, of a refusal, may make up for
 * the bytes that are missing; so a budget far from any plan is refused without planning. It is said
 * where it makes a plan faster or smaller, or a refused one fit or, if no option of its kind does
 * that, smaller. */
#include "advice.h"

#include "mesh.h"
#include "policy.h"
#include "size.h"

#define COMMANDS_MAX 3000 /* of a plan that is planned once more for advice */
#define LOGITS_SHARE 0.10 /* of the live peak, from which on it is at the logits */
#define FULL_SHARE   0.80 /* of the capacity, from which on a budget means all of it */
#define GAIN         0.01 /* of time or memory, from which on it is said */

/* --- facts --- */

static uint64_t elements_of(const struct remat_program_value *value)
{
    uint64_t elements = 1;
    for (uint32_t d = 0; d < value->rank; d++)
        elements = remat_mul_saturated(elements, (uint64_t)value->shape[d]);
    return elements;
}

/* The largest value that the loss is computed from. */
static uint64_t logits_elements(const struct remat_program *p)
{
    uint64_t most = 0;
    for (uint32_t c = 0; c < p->command_count; c++) {
        const struct remat_command *command = &p->commands[c];
        for (uint32_t o = command->operand_begin;
             command->phase == REMAT_PHASE_LOSS && o < command->operand_end; o++) {
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

struct situation {
    const struct remat_graph *graph;
    const struct remat_compile_settings *settings;
    const struct advice_facts *facts;
    struct remat_policy policy; /* that was given; no layers: none */
    bool refused;
};

static bool has_adamw(const struct situation *s)
{
    return s->graph->optimizer.kind == REMAT_OPTIMIZER_ADAMW;
}

static uint64_t states_of(const struct situation *s)
{
    return s->facts->parts.bytes[PART_MASTERS] + s->facts->parts.bytes[PART_MOMENTS];
}

/* Without one of `ranks` equal parts. */
static uint64_t others_part(uint64_t bytes, uint64_t ranks)
{
    return bytes - bytes / ranks;
}

static uint64_t chunks_save(const struct situation *s)
{
    bool at_logits =
        (double)s->facts->logits_bytes >= LOGITS_SHARE * (double)s->facts->live_peak_bytes;
    return at_logits && s->settings->loss_chunk == 0 ? s->facts->logits_bytes : 0;
}

static uint64_t zero_1_saves(const struct situation *s)
{
    uint32_t ranks = remat_mesh_size(&s->settings->mesh, "dp");
    return s->refused && s->settings->zero == 0 ? others_part(states_of(s), ranks) : 0;
}

static uint64_t zero_3_saves(const struct situation *s)
{
    uint32_t ranks = remat_mesh_size(&s->settings->mesh, "dp");
    uint64_t bytes = s->facts->parts.bytes[PART_WEIGHTS] + s->facts->parts.bytes[PART_ACCUMULATORS];
    bytes += s->settings->zero == 0 ? states_of(s) : 0;
    return s->refused && s->settings->zero < 3 && has_adamw(s) ? others_part(bytes, ranks) : 0;
}

static uint64_t moments_save(const struct situation *s)
{
    bool possible = s->refused && has_adamw(s) && !s->graph->optimizer.bf16_moments;
    return possible ? s->facts->parts.bytes[PART_MOMENTS] / 2 : 0;
}

static uint64_t masters_save(const struct situation *s)
{
    return s->refused ? s->facts->parts.bytes[PART_MASTERS] : 0;
}

static uint64_t both_save(const struct situation *s)
{
    uint64_t masters = masters_save(s), moments = moments_save(s);
    return masters && moments ? masters + moments : 0;
}

static bool is_one_group(const struct situation *s)
{
    uint32_t recomputed = 0;
    for (uint32_t layer = 0; layer < s->policy.layer_count; layer++)
        recomputed += s->policy.recomputed[layer] != 0;
    return s->policy.granularity == REMAT_POLICY_LAYERS && recomputed > 1 &&
           s->policy.group >= recomputed && s->settings->policy.has_recompute_num_layers;
}

/* How much is known when it is planned. */
static uint64_t groups_save(const struct situation *s)
{
    return is_one_group(s) ? UINT64_MAX : 0;
}

/* What a budget such as 80GB leaves of a device that has more. */
static uint64_t capacity_saves(const struct situation *s)
{
    uint64_t capacity = s->settings->device.capacity_bytes, budget = s->settings->budget_bytes;
    bool meant = s->settings->has_budget && (double)budget >= FULL_SHARE * (double)capacity;
    return meant && budget < capacity ? capacity - budget : 0;
}

static void use_capacity(struct remat_graph *graph, struct remat_compile_settings *settings)
{
    (void)graph;
    settings->budget_bytes = settings->device.capacity_bytes;
}

static void use_chunks(struct remat_graph *graph, struct remat_compile_settings *settings)
{
    (void)graph;
    settings->loss_chunk = REMAT_LOSS_CHUNK_AUTO;
}

static void use_zero_1(struct remat_graph *graph, struct remat_compile_settings *settings)
{
    (void)graph;
    settings->zero = 1;
}

static void use_zero_3(struct remat_graph *graph, struct remat_compile_settings *settings)
{
    (void)graph;
    settings->zero = 3;
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
    settings->policy.recompute_num_layers = 1;
    settings->policy.recompute_num_layers_text = NULL;
}

/* Of one kind the first that helps is said. */
static const struct row {
    const char *kind, *tool, *options;
    uint64_t (*saved)(const struct situation *s); /* bytes, about; 0: it does not apply */
    void (*use)(struct remat_graph *graph, struct remat_compile_settings *settings);
} rows[] = {
    {"groups", "remat-compile", "--recompute-num-layers 1", groups_save, use_groups},
    {"chunks", "remat-compile", "--loss-chunk auto", chunks_save, use_chunks},
    {"budget", "remat-compile", "--budget 100%", capacity_saves, use_capacity},
    {"zero", "remat-compile", "--zero 1", zero_1_saves, use_zero_1},
    {"zero", "remat-compile", "--zero 3", zero_3_saves, use_zero_3},
    {"states", "remat-graph", "--moments bf16", moments_save, use_moments},
    {"states", "remat-graph", "--master none", masters_save, use_no_masters},
    {"states", "remat-graph", "--master none --moments bf16", both_save, use_both},
};

/* Adapters are other values, which the graph has to be made with: known is that weights stay,
 * without their states. */
static const struct row adapters = {"states", "remat-graph", "--lora 16", NULL, NULL};

/* --- planning --- */

/* Whether a plan with the option is worth its time. */
static bool is_promising(const struct situation *s, const struct row *row)
{
    const struct advice_facts *f = s->facts;
    uint64_t saved = row->saved(s), budget = s->settings->budget_bytes;
    if (s->refused)
        return saved && (saved > f->needed_bytes || f->needed_bytes - saved <= budget);
    bool limited = s->settings->has_budget && !remat_policy_given(&s->settings->policy);
    bool waits = (double)f->step_ns > (1 + GAIN) * (double)f->base_step_ns;
    return saved && f->command_count <= COMMANDS_MAX && (!limited || waits);
}

/* Faster, or smaller where that costs no more than it saves. */
static bool is_better(const struct advice_facts *now, const struct advice_facts *with)
{
    double time = (double)with->step_ns / (double)now->step_ns;
    double memory = (double)with->needed_bytes / (double)now->needed_bytes;
    return time < 1 - GAIN || (memory < 1 - GAIN && time < 2 - memory);
}

/* REMAT_ERROR_INFEASIBLE: it does not help. */
static remat_status try(const struct situation *s, struct remat_arena *arena, const struct row *row,
                        const struct advice_planner *planner, struct advice_facts *with)
{
    struct remat_graph *graph = remat_graph_copy(arena, s->graph, 1);
    struct remat_compile_settings settings = *s->settings;
    row->use(graph, &settings);
    remat_status st = planner->plan(planner->user, graph, &settings, with);
    if (st == REMAT_OK && !s->refused && !is_better(s->facts, with))
        st = REMAT_ERROR_INFEASIBLE;
    return st;
}

/* How little one group of all layers is worth: what saving everything needs. */
static remat_status compare_group(const struct situation *s, struct remat_arena *arena,
                                  const struct advice_planner *planner, const char **out)
{
    remat_status st = REMAT_OK;
    struct remat_compile_settings settings = *s->settings;
    struct advice_facts all;
    settings.has_budget = false;
    settings.policy =
        (struct remat_policy_settings){.ac_mode = "none",
                                       .save = settings.policy.save,
                                       .save_count = settings.policy.save_count,
                                       .recompute = settings.policy.recompute,
                                       .recompute_count = settings.policy.recompute_count};
    REMAT_TRY(planner->plan(planner->user, remat_graph_copy(arena, s->graph, 1), &settings, &all));
    double saved = 1 - (double)s->facts->needed_bytes / (double)all.needed_bytes;
    *out = remat_arena_format(arena,
                              "; one group of all layers, recomputed together, saves %.1f %% of "
                              "the %s that saving everything needs",
                              100 * (saved > 0 ? saved : 0), cli_short(all.needed_bytes).text);
    st = *out ? REMAT_OK : REMAT_ERROR_MEMORY;
fail:
    return st;
}

static bool fits_frozen(const struct situation *s, uint64_t *needed)
{
    const struct static_parts *parts = &s->facts->parts;
    uint64_t trained = 0;
    for (int k = PART_WEIGHTS + 1; k < PART_FROZEN; k++)
        trained += parts->bytes[k];
    *needed = s->facts->static_bytes - trained;
    return s->refused && s->facts->static_bytes > s->settings->budget_bytes && !parts->frozen &&
           has_adamw(s) && *needed < s->settings->budget_bytes;
}

/* `why`: what it puts right. */
static remat_status add(struct remat_arena *arena, const struct row *row, const char *why,
                        uint64_t needed_bytes, uint64_t step_ns, struct advices *out)
{
    remat_status st = REMAT_OK;
    struct advice advice = {row->tool, row->options, NULL, needed_bytes, step_ns};
    bool own = strcmp(row->tool, "remat-compile") == 0;
    const char *what =
        remat_arena_format(arena, "%s%s%s", own ? "" : row->tool, own ? "" : " ", row->options);
    if (what && step_ns)
        advice.text =
            remat_arena_format(arena, "%s: %s a step, needs %s%s", what, cli_time(step_ns).text,
                               cli_enough(needed_bytes).text, why);
    else if (what && row == &adapters)
        advice.text = remat_arena_format(arena, "%s: weights without states take %s", what,
                                         cli_short(needed_bytes).text);
    else if (what)
        advice.text = remat_arena_format(arena, "%s: needs %s, still more than the budget", what,
                                         cli_enough(needed_bytes).text);
    if (!advice.text)
        return REMAT_ERROR_MEMORY;
    REMAT_TRY_PUSH(arena, out, advice);
fail:
    return st;
}

/* The option of a kind that leaves least to be missing; row NULL: none helps. */
struct shortfall {
    const struct row *row;
    uint64_t needed_bytes;
};

static void keep_shortfall(const struct situation *s, const struct row *row, uint64_t needed_bytes,
                           struct shortfall *out)
{
    bool helps = s->refused && needed_bytes &&
                 (double)needed_bytes < (1 - GAIN) * (double)s->facts->needed_bytes;
    if (helps && (!out->row || needed_bytes < out->needed_bytes))
        *out = (struct shortfall){row, needed_bytes};
}

static remat_status add_shortfall(struct remat_arena *arena, struct shortfall *short_of,
                                  struct advices *out)
{
    const struct row *row = short_of->row;
    short_of->row = NULL;
    return add(arena, row, "", short_of->needed_bytes, 0, out);
}

remat_status advise(remat_context *ctx, struct remat_arena *arena, const struct remat_graph *graph,
                    const struct remat_compile_settings *settings, const struct advice_facts *facts,
                    const struct advice_planner *planner, struct advices *out)
{
    remat_status st = REMAT_OK;
    struct situation s = {graph, settings, facts, .refused = facts->step_ns == 0};
    const char *kind = "";
    struct shortfall short_of = {0};
    uint64_t needed;
    struct remat_graph meshed = *graph;
    meshed.mesh = settings->mesh;
    meshed.sequence_parallel = settings->sequence_parallel;
    struct remat_policy_settings policy = settings->policy;
    policy.distribute_saved_activations = false; /* asks for lengths, which are not bound yet */
    if (remat_policy_given(&policy))
        REMAT_TRY(remat_policy_resolve(ctx, arena, &meshed, &policy, &s.policy));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct row *row = &rows[i];
        struct advice_facts with = {0};
        const char *why = "";
        if (short_of.row && strcmp(row->kind, short_of.row->kind) != 0)
            REMAT_TRY(add_shortfall(arena, &short_of, out));
        if (strcmp(row->kind, kind) == 0 || !is_promising(&s, row))
            continue;
        st = try(&s, arena, row, planner, &with);
        if (st == REMAT_ERROR_INFEASIBLE) {
            st = REMAT_OK;
            keep_shortfall(&s, row, with.needed_bytes, &short_of);
            continue;
        }
        REMAT_TRY(st);
        if (row->use == use_groups)
            REMAT_TRY(compare_group(&s, arena, planner, &why));
        kind = row->kind;
        short_of.row = NULL;
        REMAT_TRY(add(arena, row, why, with.needed_bytes, with.step_ns, out));
    }
    if (short_of.row)
        REMAT_TRY(add_shortfall(arena, &short_of, out));
    if (fits_frozen(&s, &needed))
        REMAT_TRY(add(arena, &adapters, "", needed, 0, out));
fail:
    return st;
}
