/* SPDX-License-Identifier: Apache-2.0 */
/* A graph that trains is prepared twice: as a step, and from the same source as an evaluation,
 * which has no dropout. In microbatches each is cut in pieces. */
#include "prepare.h"

#include <inttypes.h>

struct preparation {
    remat_context *ctx;
    struct remat_arena *arena;
    const struct remat_compile_settings *settings;
    enum remat_purpose purpose;
    struct remat_prepared *out;
};

typedef remat_status pass_function(struct remat_arena *, const struct remat_graph *,
                                   const struct remat_pass_settings *, struct remat_graph **);

/* In order. The result of a pass with a name is shown; a pass without one is a part of the next.
 * "split", which makes two graphs of one, is no pass of run_passes. */
static const struct named_pass {
    const char *name;
    pass_function *function;
    bool training, evaluation; /* of which it is one */
    bool own_arena;            /* of its result; what passes before it made is freed */
    const char *axis;          /* only of a graph that is to be divided along it */
} passes[] = {
    {"losses", remat_pass_losses, true, true, false, NULL},
    {NULL, remat_pass_constants, true, true, false, NULL},
    {"indices", remat_pass_indices, true, true, false, NULL},
    {"pad_vocabulary", remat_pass_pad_vocabulary, true, true, false, "tp"},
    {"chunk_loss", remat_pass_chunk_loss, true, true, false, NULL},
    {"forward_only", remat_pass_forward_only, false, true, false, NULL},
    {"autodiff", remat_pass_autodiff, true, false, false, NULL},
    {NULL, remat_pass_expand, true, true, false, "tp"},
    {NULL, remat_pass_eliminate_dead, true, true, false, "tp"},
    {"tensor_parallel", remat_pass_tensor_parallel, true, true, false, NULL},
    {"microbatches", remat_pass_microbatches, true, true, false, NULL},
    {"shard", remat_pass_shard, true, true, false, NULL},
    {"optimizer", remat_pass_optimizer, true, false, false, NULL},
    {"eliminate_common", remat_pass_eliminate_common, true, true, true, NULL},
    {"expand", remat_pass_expand, true, true, false, NULL},
    {"fold", remat_pass_fold, true, true, true, NULL},
    {"defer", remat_pass_defer, true, false, false, NULL},
    {"copy_views", remat_pass_copy_views, true, true, false, NULL},
    {"split", NULL, false, false, false, NULL},
};

const char *remat_pass_name(size_t index)
{
    for (size_t i = 0; i < sizeof passes / sizeof *passes; i++)
        if (passes[i].name && index-- == 0)
            return passes[i].name;
    return NULL;
}

static uint32_t microbatches_of(const struct remat_compile_settings *settings)
{
    return settings->passes.microbatches > 1 ? settings->passes.microbatches : 1;
}

static uint64_t start_clock(const struct preparation *p)
{
    return p->settings->pass_time ? remat_clock_ns() : 0;
}

static void stop_clock(const struct preparation *p, const char *pass, uint64_t start)
{
    if (p->settings->pass_time)
        p->settings->pass_time(p->settings->pass_time_user, pass, remat_clock_ns() - start, 1);
}

static void show(const struct preparation *p, const char *pass, const struct remat_graph *graph)
{
    if (p->settings->after_pass)
        p->settings->after_pass(p->settings->after_pass_user, pass, graph);
}

/* In *kept, or in an arena of its own, which takes the place of that. */
static remat_status run(const struct preparation *p, const struct named_pass *pass,
                        const struct remat_graph *graph, struct remat_graph **out,
                        struct remat_arena **kept)
{
    struct remat_arena *arena = pass->own_arena ? remat_scratch_open(p->ctx) : *kept;
    REMAT_CHECK(pass->function(arena, graph, &p->settings->passes, out));
    if (!pass->own_arena)
        return REMAT_OK;
    bool nothing = *out == graph;
    if (!nothing)
        remat_graph_own(arena, *out);
    remat_scratch_close(nothing ? arena : *kept);
    *kept = nothing ? *kept : arena;
    return REMAT_OK;
}

/* Each pass of a step or, else, of an evaluation makes *graph anew in *kept, or leaves it as it is.
 * `shown`: times and results are reported. */
static remat_status run_passes(const struct preparation *p, bool training, bool shown,
                               const struct remat_graph **graph, struct remat_arena **kept)
{
    struct remat_graph *result;
    uint64_t start = start_clock(p);
    *kept = remat_scratch_open(p->ctx);
    for (size_t i = 0; i < sizeof passes / sizeof *passes; i++) {
        const char *axis = passes[i].axis;
        if (training ? !passes[i].training : !passes[i].evaluation)
            continue;
        remat_unwind_if_late(p->ctx);
        if (axis && !remat_graph_is_undivided(*graph, axis))
            REMAT_CHECK(remat_pass_nothing(*graph, &result));
        else
            REMAT_CHECK(run(p, &passes[i], *graph, &result, kept));
        *graph = result;
        if (!shown || !passes[i].name)
            continue;
        stop_clock(p, passes[i].name, start);
        show(p, passes[i].name, result);
        start = start_clock(p);
    }
    return REMAT_OK;
}

static bool trains(const struct remat_graph *graph)
{
    for (uint32_t v = 0; v < graph->value_count; v++)
        if (graph->values[v].trainable || graph->values[v].role == REMAT_ROLE_GRADIENT)
            return true;
    return graph->update_count > 0;
}

static uint64_t hash(const struct preparation *p, const struct remat_graph *graph)
{
    return p->purpose == REMAT_FOR_PLAN ? remat_graph_hash(graph) : 0;
}

/* Entry points, each of a graph made by passes of its own: one segment or, in microbatches, up to
 * three, cut where the counts of the batch are complete, and its accumulators. */
static const struct script {
    const char *entry, *whole, *ahead, *microbatch, *rest; /* the last four: names of segments */
    bool training;                                         /* which passes make its graph */
    bool overlaps; /* the rest, as in struct remat_step_segment */
} scripts[] = {{"train", "step", "count", "microbatch", "update", true, true},
               {"eval", "forward", "forward count", "forward", "mean", false, false}};

/* A graph in the arena of all results, verified if a plan is to be written, as a segment. */
static remat_status add_segment(const struct preparation *p, const struct script *script,
                                uint32_t times, const char *name, struct remat_graph *graph,
                                bool decided)
{
    const struct remat_step_segment segment = {
        .name = name, .graph = graph, .decided = decided, .overlaps = script->overlaps};
    remat_pitch(graph);
    remat_step_add(p->arena, &p->out->step, script->entry, times, segment);
    return p->purpose == REMAT_FOR_PLAN ? remat_graph_verify(p->ctx, graph) : REMAT_OK;
}

static remat_status cut(const struct preparation *p, const struct script *script,
                        const struct remat_graph *whole, bool decided)
{
    uint32_t times = microbatches_of(p->settings);
    uint64_t start = start_clock(p);
    struct remat_graph *ahead = remat_split(p->arena, whole, REMAT_SPLIT_AHEAD);
    struct remat_graph *microbatch = remat_split(p->arena, whole, REMAT_SPLIT_MICROBATCH);
    struct remat_graph *rest = remat_split(p->arena, whole, REMAT_SPLIT_UPDATE);
    remat_graph_own(p->arena, ahead);
    remat_graph_own(p->arena, microbatch);
    remat_graph_own(p->arena, rest);
    if (ahead->node_count)
        REMAT_CHECK(add_segment(p, script, 1, script->ahead, ahead, false));
    REMAT_CHECK(add_segment(p, script, times, script->microbatch, microbatch, decided));
    if (rest->node_count)
        REMAT_CHECK(add_segment(p, script, 1, script->rest, rest, false));
    if (script->training) {
        stop_clock(p, "split", start);
        show(p, "split", microbatch);
    }
    return REMAT_OK;
}

/* The first entry point is the one that is decided about, and whose passes are shown. */
static remat_status add_entry(const struct preparation *p, const struct script *script,
                              const struct remat_graph *source)
{
    struct remat_arena *kept;
    const struct remat_graph *whole = source;
    bool first = p->out->step.entries.count == 0;
    uint64_t start = start_clock(p);
    REMAT_CHECK(run_passes(p, script->training, first, &whole, &kept));
    if (first)
        p->out->numerics_hash = hash(p, whole);
    if (microbatches_of(p->settings) > 1)
        REMAT_CHECK(cut(p, script, whole, first));
    else
        REMAT_CHECK(add_segment(p, script, microbatches_of(p->settings), script->whole,
                                remat_graph_deep_copy(p->arena, whole), first));
    remat_scratch_close(kept);
    if (!first)
        stop_clock(p, "evaluation", start);
    return REMAT_OK;
}

static remat_status check_zero(remat_context *ctx, const struct remat_graph *source, uint32_t zero,
                               bool trains)
{
    if (zero > 3 || zero == 2)
        return remat_error(ctx, REMAT_ERROR_USAGE, "--zero %" PRIu32 ", accepted: 0, 1 and 3",
                           zero);
    const char *what = zero == 3 ? "optimizer state and parameters" : "optimizer state";
    if (zero && remat_mesh_size(&source->mesh, "dp") == 1)
        return remat_error(ctx, REMAT_ERROR_USAGE,
                           "--zero %" PRIu32 " divides %s among ranks: it needs --mesh dp=N, N "
                           "from 2",
                           zero, what);
    if (zero && (!trains || source->optimizer.kind == REMAT_OPTIMIZER_NONE))
        return remat_error(ctx, REMAT_ERROR_USAGE,
                           "--zero %" PRIu32 " divides %s among ranks: the graph has no optimizer",
                           zero, what);
    return REMAT_OK;
}

static remat_status check_sequence(remat_context *ctx, const struct remat_graph *source)
{
    if (remat_mesh_size(&source->mesh, "tp") == 1)
        return remat_error(ctx, REMAT_ERROR_USAGE,
                           "--sequence-parallel divides tokens among ranks: it needs --mesh tp=N, "
                           "N from 2");
    if (!remat_is_none(remat_graph_coordinate(source, "tp").i))
        return remat_error(ctx, REMAT_ERROR_USAGE,
                           "--sequence-parallel: graph \"%s\" makes transfers along tp itself",
                           source->name);
    return REMAT_OK;
}

/* Along an axis that divides nothing all ranks would do the same work. */
static remat_status check_mesh(remat_context *ctx, const struct remat_graph *graph)
{
    for (uint32_t k = 0; k < graph->mesh.axis_count; k++) {
        const char *axis = graph->mesh.axes[k].name;
        if (remat_is_none(remat_graph_coordinate(graph, axis).i))
            return remat_error(ctx, REMAT_ERROR_USAGE,
                               "graph \"%s\" has nothing to divide along axis %s of the mesh",
                               graph->name, axis);
    }
    return REMAT_OK;
}

/* The last node that leads to no output, or none: within forward pass and loss, or, in the whole
 * graph, neither to a kernel of its own, which runs in any case; there views need not lead
 * anywhere. Where there are passes, they move (remat_pass_defer) or remove such nodes. */
static remat_node find_dead(struct remat_arena *scratch, const struct remat_graph *graph,
                            bool forward)
{
    bool *wanted; /* by value */
    REMAT_NEW(scratch, wanted, graph->value_count);
    for (uint32_t o = 0; o < graph->output_count; o++)
        wanted[graph->outputs[o].i] = true;
    for (uint32_t n = graph->node_count; n-- > 0;) {
        const struct remat_node_info *node = &graph->nodes[n];
        bool leads = !forward && remat_op_has(node->op, REMAT_FACT_BUILTIN);
        if (forward && !remat_in_forward_pass(node->phase))
            continue;
        for (uint32_t k = 0; k < node->output_count; k++)
            leads |= wanted[node->outputs[k].i];
        if (!leads && (forward || !remat_op_has(node->op, REMAT_FACT_VIEW)))
            return (remat_node){n};
        for (uint32_t k = 0; k < node->input_count && leads; k++)
            wanted[node->inputs[k].i] = true;
    }
    return REMAT_NO_NODE;
}

static remat_status refuse_foreign(remat_context *ctx, const struct remat_graph *graph,
                                   remat_node node, const char *why)
{
    return remat_is_none(node.i)
               ? REMAT_OK
               : remat_error(ctx, REMAT_ERROR_INVALID, "node \"%.200s\": %s",
                             graph->values[graph->nodes[node.i].outputs[0].i].name, why);
}

static remat_status check_foreign_nodes(remat_context *ctx, const struct remat_graph *graph)
{
    struct remat_arena *scratch = remat_scratch_open(ctx);
    remat_node late = find_dead(scratch, graph, true), unneeded = find_dead(scratch, graph, false);
    remat_scratch_close(scratch);
    REMAT_CHECK(refuse_foreign(ctx, graph, late,
                               "it leads to no output of the forward pass, so its phase is "
                               "backward"));
    return refuse_foreign(ctx, graph, unneeded, "it leads to no output, so nothing needs it");
}

/* A graph with foreign nodes is planned as it is: forward and backward pass together. */
static remat_status add_foreign(const struct preparation *p, const struct remat_graph *source,
                                remat_node foreign)
{
    static const struct script script = {.entry = "train", .training = true};
    const struct remat_pass_settings *s = &p->settings->passes;
    if (source->mesh.axis_count || s->zero || microbatches_of(p->settings) > 1 || s->loss_chunk)
        return remat_error(p->ctx, REMAT_ERROR_USAGE,
                           "graph \"%.200s\" is planned as it is, without ranks, microbatches and "
                           "chunks of its loss: "
                           "its node \"%.200s\" is foreign",
                           source->name,
                           source->values[source->nodes[foreign.i].outputs[0].i].name);
    REMAT_CHECK(check_foreign_nodes(p->ctx, source));
    return add_segment(p, &script, 1, "step", remat_graph_deep_copy(p->arena, source), true);
}

remat_status remat_prepare(remat_context *ctx, struct remat_arena *arena,
                           const struct remat_graph *input,
                           const struct remat_compile_settings *settings,
                           enum remat_purpose purpose, struct remat_prepared *out)
{
    const struct preparation p = {ctx, arena, settings, purpose, out};
    const struct remat_graph source = remat_graph_on_mesh(input, &settings->mesh);
    bool training = trains(input);
    *out = (struct remat_prepared){0};
    remat_node foreign = remat_find_foreign(input);
    if (!remat_is_none(foreign.i))
        return add_foreign(&p, &source, foreign);
    REMAT_CHECK(check_zero(ctx, &source, settings->passes.zero, training));
    if (settings->passes.sequence_parallel)
        REMAT_CHECK(check_sequence(ctx, &source));
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++) {
        bool wanted = purpose != REMAT_FOR_BOUND || out->step.entries.count == 0;
        if (wanted && (training || !scripts[i].training))
            REMAT_CHECK(add_entry(&p, &scripts[i], &source));
    }
    return check_mesh(ctx, remat_step_decided(&out->step)->graph);
}
