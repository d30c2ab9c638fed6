/* SPDX-License-Identifier: Apache-2.0 */
/* Why nothing fits: what lives at the peak of the smallest plan, and why it stays. The reasons are
 * those of `remat-dump --memory`, which has them of a plan. */
#include "infeasible.h"

#include "explain.h"
#include "prepare.h"
#include "proposal.h"

#include <inttypes.h>
#include <stdlib.h>

#define RESIDENTS_NAMED 5

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

/* What recomputing it would cost a step, or why it stays. */
static void append_removal(const struct remat_search *p, const struct remat_arrangement *c,
                           const struct remat_decision *decision,
                           const struct remat_alternative *alternatives, remat_value value,
                           struct remat_text *text)
{
    const struct remat_lifespans *l = &c->lifespans;
    bool persistent = !remat_is_none(l->buffers[l->buffer_of[value.i].i].persistent.i);
    if (persistent || uses(remat_kernel_at(&c->kernels, c->order[l->peak_position]), value)) {
        remat_text_append(text, ": %s", persistent ? "persistent" : "in use");
        return;
    }
    remat_value v = find_decided(p, c->graph, value);
    const char *reason = remat_is_none(v.i) ? NULL : decision->reasons[v.i];
    if (reason && strncmp(reason, "pin ", 4) == 0)
        remat_text_append(text, ": pinned");
    else if (remat_is_none(v.i) || !alternatives[v.i].recomputable || !is_between(c, value))
        remat_text_append(text, ": needed");
    else
        remat_text_append(text, ": %+" PRId64 " ns a step if recomputed",
                          alternatives[v.i].recompute_extra_ns *
                              (int64_t)remat_microbatches(p->settings));
}

/* "Proven: ...": the floor, which holds for decisions that keep the pins. */
static const char *say_proven(const struct remat_search *p)
{
    bool pinned = remat_decision_has_pins(p->evaluator->settled->pinned);
    return REMAT_FORMAT(
        p->arena, "Proven: %sno choice of what to recompute needs less than %" PRIu64 " B",
        pinned ? "with these pins " : "", p->planner->floor_bytes + p->reserve_bytes);
}

/* "\"a\" (5 B): persistent, ..." : the largest buffers that live at the peak. */
static remat_status append_residents(struct remat_search *p, const struct remat_arrangement *c,
                                     const struct remat_decision *decision, struct remat_text *text)
{
    struct remat_explanation explanation;
    REMAT_CHECK(remat_explain(p, decision, &explanation));
    struct resident *residents = find_residents(text->arena, c);
    qsort(residents, c->lifespans.buffer_count, sizeof *residents, compare_residents);
    for (uint32_t i = 0; i < c->lifespans.buffer_count && i < RESIDENTS_NAMED; i++) {
        if (!residents[i].bytes)
            continue;
        remat_text_append(text, "%s\"%s\" (%" PRIu64 " B)", i ? ", " : "",
                          c->graph->values[residents[i].value.i].name, residents[i].bytes);
        append_removal(p, c, decision, explanation.alternatives, residents[i].value, text);
    }
    return REMAT_OK;
}

remat_status remat_infeasible(struct remat_search *p, const struct remat_proposal *proposal)
{
    struct remat_chosen smallest;
    uint64_t arena_bytes = proposal->cost.arena_bytes;
    bool per_op = remat_search_per_op(p);
    const struct remat_arrangement *c = &smallest.arranged;
    struct remat_text residents = {.arena = p->arena};
    const char *what = remat_policy_given(&p->settings->policy) ? "this policy"
                       : per_op                                 ? "the smallest plan that was found"
                       : p->over ? "the smallest policy that was tried"
                                 : "the smallest manual policy";
    const char *when =
        p->over && !remat_policy_given(&p->settings->policy) ? " before the search was ended" : "";
    const char *proven = "";
    if (per_op)
        proven = REMAT_FORMAT(p->arena, ". %s", say_proven(p));
    REMAT_CHECK(remat_proposal_carry(p, proposal, &smallest));
    if (p->update->graph && c->lifespans.live_peak_bytes < p->update->lifespans.live_peak_bytes)
        c = p->update;
    const struct remat_lifespans *l = &c->lifespans;
    const struct remat_fused_kernel *binding =
        remat_kernel_at(&c->kernels, c->order[l->peak_position]);
    REMAT_CHECK(append_residents(p, c, &smallest.decision, &residents));
    return remat_error(
        p->ctx, REMAT_ERROR_INFEASIBLE,
        "budget %" PRIu64 " B is too small: %s%s needs %" PRIu64 " B = arena %" PRIu64
        " B + reserve %" PRIu64 " B (live peak %" PRIu64 " B, of it %" PRIu64
        " B persistent). Binding command: \"%s\" (%s). Largest residents: %s%s",
        p->settings->budget_bytes, what, when, arena_bytes + p->reserve_bytes, arena_bytes,
        p->reserve_bytes, l->live_peak_bytes, p->evaluator->persistent->total_bytes,
        c->graph->values[binding->name.i].name, remat_phase_name(binding->phase),
        residents.items ? residents.items : "none", proven);
}

remat_status remat_infeasible_cut_short(const struct remat_search *p)
{
    uint64_t budget_bytes = p->settings->budget_bytes;
    if (p->limit_bytes < p->planner->floor_bytes)
        return remat_error(p->ctx, REMAT_ERROR_INFEASIBLE, "budget %" PRIu64 " B is too small. %s",
                           budget_bytes, say_proven(p));
    return remat_error(p->ctx, REMAT_ERROR_CUT_SHORT,
                       "the search was ended before it found a plan for %" PRIu64
                       " B; there may be one",
                       budget_bytes);
}
