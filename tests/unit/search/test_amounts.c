/* SPDX-License-Identifier: Apache-2.0 */
/* Times at the ends of what device descriptions may say. Random graphs on devices whose numbers are
 * each at an end of its range, or anywhere between, under several budgets: prices are positive, no
 * bound is above the plan's own time, and what takes too long is refused by name. On a device whose
 * prices are whole, a device 2^k times as slow makes the same decisions, which take 2^k times as
 * long. What graphs say is refused where it cannot be counted. */
#include <inttypes.h>
#include <math.h>

#include "amounts.h"
#include "check.h"
#include "compile.h"
#include "graph_text.h"
#include "random_graph.h"
#include "subject.h"

enum { DEVICES = 60, SCALED = 10, BUDGETS = 2, SHIFT_MAX = 32 };

static const struct range {
    const char *key;
    double least, most;
} ranges[] = {
#define RANGE(key, kind, least, most) {key, least, most},
#include "device_ranges.def"
#undef RANGE
};

/* An end of the range, or between them on a logarithmic scale. */
static double draw_number(struct random *r, const char *key)
{
    const struct range *range = ranges;
    while (strcmp(range->key, key) != 0)
        range++;
    uint32_t kind = random_draw(r, 5);
    if (kind < 2)
        return kind < 1 ? range->least : range->most;
    double least = fmax(range->least, 1e-3);
    return least * pow(range->most / least, random_draw(r, 1000) / 1000.0);
}

static void draw_device(struct random *r, struct remat_device_description *d)
{
    static const char *const rates[REMAT_DTYPE_COUNT] = {
        [REMAT_F32] = "matmul.fp32_flops_per_s",
        [REMAT_BF16] = "matmul.bf16_flops_per_s",
        [REMAT_F16] = "matmul.fp16_flops_per_s",
    };
    d->launch_ns = draw_number(r, "launch_ns");
    d->memory_bytes_per_ns =
        draw_number(r, "memory.peak_bytes_per_s") * draw_number(r, "memory.efficiency") / 1e9;
    d->pointwise_flops_per_ns =
        draw_number(r, "pointwise.peak_flops_per_s") * draw_number(r, "pointwise.efficiency") / 1e9;
    for (int t = 0; t < REMAT_DTYPE_COUNT; t++)
        d->matmul_flops_per_ns[t] = rates[t] ? draw_number(r, rates[t]) / 1e9 : 0;
    d->matmul_efficiency = draw_number(r, "matmul.efficiency");
    d->processors = (uint32_t)draw_number(r, "matmul.processors");
    d->tile_rows = (uint32_t)draw_number(r, "matmul.tile_rows");
    d->tile_columns = (uint32_t)draw_number(r, "matmul.tile_columns");
}

struct tally {
    uint32_t plans, refused, infeasible, rising, positive;
};

struct plan {
    remat_status status;
    uint64_t step_ns, bound_ns, arena_bytes;
    uint64_t decision; /* hash of its actions */
};

static struct plan choose(struct subject *s, uint64_t limit_bytes)
{
    struct plan plan = {0};
    struct remat_arena arena;
    struct remat_chosen c;
    remat_arena_init(&arena, s->ctx);
    plan.status = subject_choose(s, &arena, limit_bytes, &c);
    if (plan.status == REMAT_OK) {
        plan.step_ns = c.arranged.step_ns;
        plan.bound_ns = c.bound_ns;
        plan.arena_bytes = c.arena_bytes;
        plan.decision = remat_hash(c.decision.actions, c.decision.value_count, 0);
        for (uint32_t k = 0; k < c.arranged.kernels.count; k++)
            CHECK(c.arranged.prices[k].ns > 0, "a kernel takes nothing");
    }
    remat_arena_release(&arena);
    return plan;
}

static void open_subject(struct subject *s, struct random *r)
{
    struct remat_graph *source;
    subject_init(s);
    r->mixed = true;
    uint32_t nodes = 2 + random_draw(r, 5), layers = random_draw(r, 3);
    CHECK_OK(s->ctx, random_graph(s->ctx, &s->arena, r, nodes, layers, &source));
    CHECK_OK(s->ctx, remat_device_description_read(s->ctx, &s->arena, "h100-sxm", 0, &s->device));
    CHECK_OK(s->ctx, subject_prepare_graph(s, source, 1));
}

/* Statics, and a part of what else everything saved takes. */
static uint64_t budget_of(const struct subject *s, const struct plan *free, uint32_t i)
{
    uint64_t rest = free->arena_bytes - s->persistent.total_bytes;
    return s->persistent.total_bytes + rest - rest / 16 * i;
}

static void check_plan(struct subject *s, uint32_t seed, const struct plan *plan,
                       struct tally *tally)
{
    const char *message = remat_context_message(s->ctx);
    bool slow = strstr(message, "a pass over the graph takes 2^45 ns") ||
                strstr(message, "recomputing every value");
    if (plan->status == REMAT_ERROR_USAGE)
        CHECK(slow && strstr(message, s->device.name), "device %u: %s", seed, message);
    else if (plan->status != REMAT_ERROR_INFEASIBLE)
        CHECK(plan->status == REMAT_OK, "device %u: %s", seed, message);
    tally->refused += plan->status == REMAT_ERROR_USAGE;
    tally->infeasible += plan->status == REMAT_ERROR_INFEASIBLE;
    if (plan->status != REMAT_OK)
        return;
    CHECK(plan->bound_ns <= plan->step_ns && plan->step_ns < REMAT_SEGMENT_NS_MAX,
          "device %u: %" PRIu64 " ns, bound %" PRIu64, seed, plan->step_ns, plan->bound_ns);
    tally->plans++;
    tally->positive += plan->bound_ns > 0;
}

static void check_device(uint32_t seed, struct tally *tally)
{
    struct random r = {.seed = seed};
    struct subject s;
    open_subject(&s, &r);
    draw_device(&r, &s.device);
    subject_reprice(&s);
    struct plan free = choose(&s, UINT64_MAX);
    check_plan(&s, seed, &free, tally);
    for (uint32_t i = 1, last = free.step_ns > 0; last && i <= BUDGETS; i++) {
        struct plan plan = choose(&s, budget_of(&s, &free, i));
        check_plan(&s, seed, &plan, tally);
        tally->rising += plan.step_ns > free.step_ns;
    }
    subject_release(&s);
}

/* Bytes and flops take a whole number of ns each, and so does a launch. */
static void slow_down(struct subject *s, uint32_t shift)
{
    struct remat_device_description *d = &s->device;
    d->launch_ns = ldexp(1024, (int)shift);
    d->memory_bytes_per_ns = ldexp(0.25, -(int)shift);
    d->pointwise_flops_per_ns = ldexp(0.5, -(int)shift);
    for (int t = 0; t < REMAT_DTYPE_COUNT; t++)
        d->matmul_flops_per_ns[t] = ldexp(1, -(int)shift);
    d->matmul_efficiency = 1;
    d->processors = d->tile_rows = d->tile_columns = 1;
    subject_reprice(s);
}

static void check_scaled(uint32_t seed, struct tally *tally)
{
    struct random r = {.seed = seed};
    struct subject s;
    struct plan plain[BUDGETS + 1];
    open_subject(&s, &r);
    slow_down(&s, 0);
    plain[0] = choose(&s, UINT64_MAX);
    for (uint32_t i = 1; i <= BUDGETS; i++)
        plain[i] = choose(&s, budget_of(&s, &plain[0], i));
    for (uint32_t shift = 8; shift <= SHIFT_MAX; shift += 8)
        for (uint32_t i = 0; i <= BUDGETS; i++) {
            slow_down(&s, shift);
            uint64_t limit = i ? budget_of(&s, &plain[0], i) : UINT64_MAX;
            struct plan plan = choose(&s, limit);
            check_plan(&s, seed, &plan, tally);
            if (plan.status != REMAT_OK || plain[i].status != REMAT_OK)
                continue;
            CHECK(plan.step_ns == plain[i].step_ns << shift && plan.decision == plain[i].decision,
                  "graph %u, budget %u, 2^%u times as slow: %" PRIu64 " ns of %" PRIu64, seed, i,
                  shift, plan.step_ns, plain[i].step_ns << shift);
            CHECK(plan.bound_ns >= plain[i].bound_ns << shift,
                  "graph %u, budget %u, 2^%u times as slow: bound %" PRIu64 " of %" PRIu64, seed, i,
                  shift, plan.bound_ns, plain[i].bound_ns << shift);
        }
    subject_release(&s);
}

/* --- graphs --- */

#define GRAPH             "graph \"g\"\n"
#define INPUT(name, type) "input %" name " : f32[" type "]\n"
#define NODE(type, node)  "%y : f32[" type "] = " node " phase forward\noutput %y\n"
#define ATTENTION(keys, causal)                                                                    \
    GRAPH INPUT("x", "1," keys ",2,1") "%y : f32[1," keys ",2,1], %l : f32[1,2," keys              \
                                       "] = attention %x %x %x { scale = 1.0, causal = " causal    \
                                       " } phase forward\noutput %y\n"

static const struct {
    const char *text, *said; /* NULL: accepted */
} graphs[] = {
    {GRAPH INPUT("x", "1099511627776") NODE("1099511627776", "exp %x"), NULL},
    {GRAPH INPUT("x", "1073741824,134217728") NODE("1073741824,134217728", "exp %x"),
     "more than 2^59 bytes together, 576460752303423488 of them \"x\""},
    {GRAPH INPUT("x", "536870912,536870912") NODE("536870912,536870912", "matmul %x %x"),
     "more than 2^59 bytes together"},
    {GRAPH INPUT("x", "134217728,67108864") INPUT("w", "67108864,134217728")
         NODE("134217728,134217728", "matmul %x %w"),
     "node \"y\" has more than 2^63 flops"},
    {ATTENTION("268435456", "0"), NULL},
    {ATTENTION("34359738368", "0"), "node \"y\" has more than 2^63 flops"},
    {ATTENTION("34359738368", "1"), "node \"y\" has more than 2^63 flops"},
};

static void check_graph(const char *text, const char *said)
{
    remat_context *ctx = remat_context_create(NULL, NULL);
    struct remat_arena arena;
    struct remat_graph *graph;
    struct remat_program *program;
    struct remat_compile_settings settings = {0};
    remat_arena_init(&arena, ctx);
    remat_status st = remat_graph_parse(ctx, "t", text, strlen(text), &arena, &graph);
    CHECK_OK(ctx, st);
    CHECK_OK(ctx, remat_device_description_read(ctx, &arena, "b200", 0, &settings.device));
    settings.device.matmul_flops_per_ns[REMAT_F32] = 1e9; /* the fastest */
    settings.device.pointwise_flops_per_ns = 1e9;
    st = st == REMAT_OK ? remat_compile(ctx, &arena, graph, &settings, &program) : st;
    CHECK((st != REMAT_OK) == (said != NULL) && (!said || strstr(remat_context_message(ctx), said)),
          "%s%d: %s", text, (int)st, remat_context_message(ctx));
    remat_arena_release(&arena);
    remat_context_destroy(&ctx);
}

/* What stands before every certificate and every point of a curve. */
static void check_bound_refused(void)
{
    struct remat_search c = {.ctx = remat_context_create(NULL, NULL)};
    CHECK(remat_search_check_bound(&c, 7, 7) == REMAT_OK, "a bound that is met");
    CHECK_STATUS(c.ctx, remat_search_check_bound(&c, 8, 7), REMAT_ERROR_INTERNAL,
                 "the bound of 8 ns is above the plan's own 7 ns");
    remat_context_destroy(&c.ctx);
}

int main(void)
{
    struct tally ends = {0}, scaled = {0};
    for (uint32_t seed = 1; seed <= DEVICES; seed++)
        check_device(seed, &ends);
    for (uint32_t seed = 1; seed <= SCALED; seed++)
        check_scaled(seed, &scaled);
    check_bound_refused();
    for (size_t i = 0; i < sizeof graphs / sizeof *graphs; i++)
        check_graph(graphs[i].text, graphs[i].said);
    printf("%u plans at the ends, %u slower than everything saved, %u refused, %u infeasible; %u "
           "scaled, %u refused\n",
           ends.plans, ends.rising, ends.refused, ends.infeasible, scaled.plans, scaled.refused);
    CHECK(ends.plans > DEVICES && ends.rising > 20 && ends.refused > 5 && scaled.plans > SCALED &&
              scaled.refused > 5,
          "too few of a kind");
    return check_exit();
}
