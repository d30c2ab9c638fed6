/* SPDX-License-Identifier: Apache-2.0 */
/* Why nothing fits: what lives at the peak of the smallest plan, and why it stays. The reasons are
 * those of `remat-dump --memory`, which has them of a plan. */
#include "infeasible.h"

#include "explain.h"
#include "prepare.h"
#include "proposal.h"

#include <inttypes.h>
#include <stdlib.h>

struct resident { /* a buffer that lives at the peak, and the value in it */
    remat_value value;
    uint32_t since; /* position of the kernel that wrote the value; 0 for graph inputs */
    uint64_t bytes;
};

static int compare_residents(const void *a, const void *b)
{
    const struct resident *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    return x->value.i < y->value.i ? -1 : x->value.i > y->value.i;
}

/* residents[buffer]: the newest value in it at the peak, bytes 0 where it does not live then. */
static struct resident *find_residents(struct remat_arena *arena, const struct remat_arrangement *c)
{
    struct resident *out;
    const struct remat_lifespans *l = &c->lifespans;
    uint32_t *position;
    REMAT_NEW(arena, out, l->buffer_count);
    REMAT_NEW(arena, position, c->kernels.count);
    for (uint32_t at = 0; at < c->kernels.count; at++)
        position[c->order[at].i] = at;
    for (remat_value v = {0}; v.i < c->graph->value_count; v.i++) {
        remat_buffer_id buffer = l->buffer_of[v.i];
        if (remat_is_none(buffer.i))
            continue;
        remat_node node = remat_producer(c->graph, v);
        uint32_t since = remat_is_none(node.i) ? 0 : position[c->kernels.kernel_of_node[node.i].i];
        const struct remat_placed_buffer *b = &l->buffers[buffer.i];
        struct resident *resident = &out[buffer.i];
        if (b->begin <= l->peak_position && l->peak_position < b->end &&
            since <= l->peak_position && (!resident->bytes || since >= resident->since))
            *resident = (struct resident){v, since, b->bytes};
    }
    return out;
}

static bool uses(const struct remat_fused_kernel *kernel, remat_value root)
{
    for (uint32_t o = 0; o < kernel->operand_count; o++)
        if (kernel->operands[o].value.i == root.i || kernel->operands[o].previous.i == root.i)
            return true;
    return false;
}

/* Recomputing the value takes it away from the peak: the forward pass is done with it, and the
 * backward pass has not begun. */
static bool is_between(const struct remat_arrangement *c, remat_value root)
{
    for (uint32_t at = 0; at < c->kernels.count; at++) {
        const struct remat_fused_kernel *kernel = remat_kernel_at(&c->kernels, c->order[at]);
        bool early = remat_is_early(kernel->phase);
        bool beyond = early ? at >= c->lifespans.peak_position : at <= c->lifespans.peak_position;
        if (beyond && uses(kernel, root))
            return false;
    }
    return true;
}

/* The value as it is before the rewrite; none unless the forward pass writes it. */
static remat_value find_decided(const struct remat_search *p, const struct remat_graph *graph,
                                remat_value value)
{
    const struct remat_value_info *info = &graph->values[value.i];
    const struct remat_node_info *node = &graph->nodes[info->node.i];
    bool other = graph == p->update->graph || node->instance || node->phase != REMAT_PHASE_FORWARD;
    return other ? REMAT_NO_VALUE : info->original;
}

/* The time that recomputing it would add to a step, or why it stays. */
static struct remat_refused_resident describe(const struct remat_search *p,
                                              const struct remat_arrangement *c,
                                              const struct remat_decision *decision,
                                              const struct remat_alternative *alternatives,
                                              const struct resident *resident)
{
    remat_value value = resident->value;
    const struct remat_lifespans *l = &c->lifespans;
    const char *name = c->graph->values[value.i].name;
    if (!remat_is_none(l->buffers[l->buffer_of[value.i].i].persistent.i))
        return (struct remat_refused_resident){name, resident->bytes, "persistent", 0};
    if (uses(remat_kernel_at(&c->kernels, c->order[l->peak_position]), value))
        return (struct remat_refused_resident){name, resident->bytes, "in use", 0};
    remat_value v = find_decided(p, c->graph, value);
    const char *reason = remat_is_none(v.i) ? NULL : decision->reasons[v.i];
    if (reason && strncmp(reason, "pin ", 4) == 0)
        return (struct remat_refused_resident){name, resident->bytes, "pinned", 0};
    if (remat_is_none(v.i) || !alternatives[v.i].recomputable || !is_between(c, value))
        return (struct remat_refused_resident){name, resident->bytes, "needed", 0};
    int64_t extra_ns = alternatives[v.i].recompute_extra_ns;
    return (struct remat_refused_resident){name, resident->bytes, "recompute",
                                           extra_ns * (int64_t)remat_microbatches(p->settings)};
}

/* The largest buffers that live at the peak. */
static remat_status add_residents(struct remat_search *p, const struct remat_arrangement *c,
                                  const struct remat_decision *decision, struct remat_refusal *out)
{
    struct remat_explanation explanation;
    struct remat_refused_resident *named;
    REMAT_CHECK(remat_explain(p, decision, &explanation));
    struct resident *residents = find_residents(p->arena, c);
    qsort(residents, c->lifespans.buffer_count, sizeof *residents, compare_residents);
    REMAT_NEW(p->arena, named, REMAT_REFUSED_RESIDENTS);
    for (uint32_t i = 0; i < c->lifespans.buffer_count && i < REMAT_REFUSED_RESIDENTS; i++)
        if (residents[i].bytes)
            named[out->resident_count++] =
                describe(p, c, decision, explanation.alternatives, &residents[i]);
    out->residents = named;
    return REMAT_OK;
}

remat_status remat_infeasible(struct remat_search *p, const struct remat_proposal *proposal)
{
    struct remat_chosen smallest;
    bool given = remat_policy_given(&p->settings->policy);
    const struct remat_arrangement *c = &smallest.arranged;
    const char *what = given                    ? "this policy"
                       : remat_search_per_op(p) ? "the smallest plan found"
                       : p->over                ? "the smallest policy tried"
                                                : "the smallest manual policy";
    REMAT_CHECK(remat_proposal_carry(p, proposal, &smallest));
    if (p->update->graph && c->lifespans.live_peak_bytes < p->update->lifespans.live_peak_bytes)
        c = p->update;
    const struct remat_fused_kernel *binding =
        remat_kernel_at(&c->kernels, c->order[c->lifespans.peak_position]);
    struct remat_refusal refusal = {
        .budget_bytes = p->settings->budget_bytes,
        .smallest_bytes = proposal->cost.arena_bytes + p->reserve_bytes,
        .reserve_bytes = p->reserve_bytes,
        .live_peak_bytes = c->lifespans.live_peak_bytes,
        .static_bytes = p->evaluator->persistent->total_bytes,
        .workspace_bytes = p->evaluator->persistent->workspace_bytes,
        .floor_bytes = given ? 0 : p->planner->floor_bytes + p->reserve_bytes,
        .pinned = remat_decision_has_pins(p->evaluator->settled->pinned),
        .binding = c->graph->values[binding->name.i].name,
        .phase = remat_phase_name(binding->phase)};
    REMAT_CHECK(add_residents(p, c, &smallest.decision, &refusal));
    if (p->settings->refused)
        p->settings->refused(p->settings->refused_user, &refusal);
    return remat_error(
        p->ctx, REMAT_ERROR_INFEASIBLE,
        "budget %" PRIu64 " B is too small: %s%s needs %" PRIu64 " B", refusal.budget_bytes, what,
        p->over && !given ? " before the search was ended" : "", refusal.smallest_bytes);
}
