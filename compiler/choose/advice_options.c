/* SPDX-License-Identifier: Apache-2.0 */
#include "advice_options.h"

#define LOGITS_SHARE 0.10 /* of the live peak, from which on it is at the logits */

bool advice_is_one_unit(const struct situation *s)
{
    uint32_t recomputed = 0;
    for (uint32_t layer = 0; layer < s->policy.layer_count; layer++)
        recomputed += s->policy.recomputed[layer] != 0;
    return s->policy.granularity == REMAT_POLICY_LAYERS && recomputed > 1 &&
           s->policy.unit_layers >= recomputed &&
           s->settings->search.policy.has_recompute_num_layers;
}

static bool has_adamw(const struct situation *s)
{
    return s->graph->optimizer.kind == REMAT_OPTIMIZER_ADAMW;
}

static void divide(struct advice_demand *d, enum remat_static_part part, uint32_t ranks)
{
    d->parts.bytes[part] /= ranks;
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
    divide(d, REMAT_PART_MASTERS, ranks);
    divide(d, REMAT_PART_MOMENTS, ranks);
}

static void lower_by_zero_3(const struct situation *s, struct advice_demand *d)
{
    uint32_t ranks = remat_mesh_size(&s->settings->mesh, "dp");
    if (!s->refused || s->settings->passes.zero == 3 || !has_adamw(s))
        return;
    lower_by_zero_1(s, d);
    divide(d, REMAT_PART_WEIGHTS, ranks);
    divide(d, REMAT_PART_FROZEN, ranks);
    divide(d, REMAT_PART_ACCUMULATORS, ranks);
}

static void lower_by_moments(const struct situation *s, struct advice_demand *d)
{
    if (s->refused && has_adamw(s) && !s->graph->optimizer.bf16_moments)
        divide(d, REMAT_PART_MOMENTS, 2);
}

static void lower_by_masters(const struct situation *s, struct advice_demand *d)
{
    if (s->refused)
        d->parts.bytes[REMAT_PART_MASTERS] = 0;
}

static void lower_by_both(const struct situation *s, struct advice_demand *d)
{
    struct advice_demand before = *d;
    lower_by_masters(s, d);
    uint64_t moments = d->parts.bytes[REMAT_PART_MOMENTS];
    lower_by_moments(s, d);
    bool both =
        before.parts.bytes[REMAT_PART_MASTERS] && d->parts.bytes[REMAT_PART_MOMENTS] < moments;
    if (!both)
        *d = before;
}

/* Adapters have little of what trained weights have. */
static void lower_by_adapters(const struct situation *s, struct advice_demand *d)
{
    for (int k = REMAT_PART_WEIGHTS + 1; s->adapted && k < REMAT_PART_FROZEN; k++)
        d->parts.bytes[k] = 0;
}

const struct advice_row advice_rows[ADVICE_ROW_COUNT] = {
    {UNITS, ADVICE_COMPILE, "--recompute-num-layers 1", .lower = NULL},
    {CHUNKS, ADVICE_COMPILE, "--loss-chunk auto", .lower = lower_by_chunks},
    {CAPACITY, ADVICE_COMPILE, "--budget 100%", .lower = lower_by_capacity},
    {ZERO, ADVICE_COMPILE, "--zero 1", .lower = lower_by_zero_1, .zero = 1},
    {ZERO, ADVICE_COMPILE, "--zero 3", .lower = lower_by_zero_3, .zero = 3},
    {STATES, ADVICE_GRAPH, "--moments bf16", .lower = lower_by_moments, .bf16_moments = true},
    {STATES, ADVICE_GRAPH, "--master none", .lower = lower_by_masters, .no_master = true},
    {STATES, ADVICE_GRAPH, "--master none --moments bf16", .lower = lower_by_both,
     .bf16_moments = true, .no_master = true},
    {ADAPTERS, ADVICE_GRAPH, "--lora " ADVICE_LORA, .lower = lower_by_adapters},
};

void advice_use(const struct advice_row *row, struct remat_graph *graph,
                struct remat_compile_settings *settings)
{
    switch (row->kind) {
    case UNITS:
        settings->search.policy.recompute_num_layers = 1;
        settings->search.policy.recompute_num_layers_text = NULL;
        break;
    case CHUNKS:
        settings->passes.loss_chunk = REMAT_LOSS_CHUNK_AUTO;
        break;
    case CAPACITY:
        settings->search.budget_bytes = settings->device.capacity_bytes;
        break;
    case ZERO:
        settings->passes.zero = row->zero;
        break;
    case STATES:
        graph->optimizer.bf16_moments |= row->bf16_moments;
        graph->optimizer.no_master |= row->no_master;
        break;
    default: /* adapters are another graph */
        break;
    }
}
