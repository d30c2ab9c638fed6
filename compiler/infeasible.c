/* Why nothing fits: what lives at the peak of the smallest plan. */
#include <inttypes.h>
#include <stdlib.h>

#include "choose.h"

#define RESIDENTS_NAMED 3

struct resident { /* a buffer that lives at the peak, by what it holds there */
    uint32_t value;
    uint32_t since; /* position of the kernel that wrote the value; 0 for graph inputs */
    uint64_t bytes;
};

static int compare_residents(const void *a, const void *b)
{
    const struct resident *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    return x->value < y->value ? -1 : x->value > y->value;
}

/* residents[buffer]: the newest value in it at the peak, bytes 0 where it does not live then. */
static remat_status find_residents(struct remat_arena *arena, const struct remat_arrangement *c,
                                   struct resident **out)
{
    remat_status st = REMAT_OK;
    const struct remat_lifespans *l = &c->lifespans;
    uint32_t *position;
    REMAT_NEW(arena, *out, l->buffer_count);
    REMAT_NEW(arena, position, c->kernels.count);
    for (uint32_t at = 0; at < c->kernels.count; at++)
        position[c->order[at]] = at;
    for (uint32_t v = 0; v < c->graph->value_count; v++) {
        if (remat_is_none(l->buffer_of[v]))
            continue;
        uint32_t node = c->graph->values[v].node;
        uint32_t since = remat_is_none(node) ? 0 : position[c->kernels.kernel_of_node[node]];
        const struct remat_placed_buffer *b = &l->buffers[l->buffer_of[v]];
        struct resident *resident = &(*out)[l->buffer_of[v]];
        if (b->begin <= l->peak_position && l->peak_position < b->end &&
            since <= l->peak_position && (!resident->bytes || since >= resident->since))
            *resident = (struct resident){v, since, b->bytes};
    }
fail:
    return st;
}

/* "\"a\" (5 B), ..." : the largest buffers that live at the peak. */
static remat_status append_residents(const struct remat_arrangement *c, struct remat_text *text)
{
    remat_status st = REMAT_OK;
    struct resident *residents;
    REMAT_TRY(find_residents(text->arena, c, &residents));
    qsort(residents, c->lifespans.buffer_count, sizeof *residents, compare_residents);
    for (uint32_t i = 0; i < c->lifespans.buffer_count && i < RESIDENTS_NAMED; i++)
        if (residents[i].bytes)
            remat_text_append(text, "%s\"%s\" (%" PRIu64 " B)", i ? ", " : "",
                              c->graph->values[residents[i].value].name, residents[i].bytes);
fail:
    return st;
}

remat_status remat_infeasible(struct remat_chooser *p, const struct remat_arrangement *c,
                              uint64_t arena_bytes, uint64_t floor_bytes)
{
    remat_status st = REMAT_OK;
    struct remat_text residents = {.arena = p->arena};
    const char *what = "the smallest policy of the ladder";
    struct remat_text proven = {.arena = p->arena};
    if (remat_policy_given(&p->settings->policy))
        what = "this policy";
    else if (p->settings->solver == REMAT_SOLVER_PER_OP)
        what = "the smallest plan that was found";
    if (floor_bytes)
        remat_text_append(&proven, ". Proven: no plan needs less than %" PRIu64 " B",
                          floor_bytes + p->reserve_bytes);
    if (p->update->graph && c->lifespans.live_peak_bytes < p->update->lifespans.live_peak_bytes)
        c = p->update;
    const struct remat_lifespans *l = &c->lifespans;
    uint32_t k = c->order[l->peak_position];
    REMAT_TRY(append_residents(c, &residents));
    st = remat_error(p->ctx, REMAT_ERROR_INFEASIBLE,
                     "budget %" PRIu64 " B is too small: %s needs %" PRIu64 " B = arena %" PRIu64
                     " B + reserve %" PRIu64 " B (live peak %" PRIu64 " B, of it %" PRIu64
                     " B static). Binding command: \"%s\" (%s). Largest residents: %s%s",
                     p->settings->budget_bytes, what, arena_bytes + p->reserve_bytes, arena_bytes,
                     p->reserve_bytes, l->live_peak_bytes, p->statics->total_bytes,
                     c->graph->values[c->kernels.kernels[k].name.i].name,
                     remat_phase_name(c->kernels.kernels[k].phase),
                     residents.items ? residents.items : "none", proven.items ? proven.items : "");
fail:
    return st;
}
