/* SPDX-License-Identifier: Apache-2.0 */
/* Transfers beside computation, on random kernels, transfers and prices: order, groups, completions
 * and time are those of the naive run where nothing may start early, and what holds of any run
 * holds of it, at any depth. */
#include "check.h"
#include "naive_beside.h"
#include "schedule.h"

#include <inttypes.h>

enum { PROBLEMS = 6000, VALUES_MAX = 4 * KERNELS_MAX, STATES = 4, ELEMENTS = 8 };

/* --- a random problem --- */

struct maker {
    uint64_t random;
    struct naive_problem *p;
    int value_count, made[VALUES_MAX], made_count; /* made: that kernels may read */
    int states[STATES]; /* versions; the first half are parameters, the rest the optimizer's */
    bool replaced[STATES], sliced[STATES]; /* what is sliced is not replaced */
    uint64_t longest_ns;                   /* a transfer */
};

static uint64_t below(struct maker *m, uint64_t limit)
{
    m->random = m->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (m->random >> 33) % limit;
}

static bool chance(struct maker *m, uint64_t percent)
{
    return below(m, 100) < percent;
}

static void add_operand(struct naive_kernel *kernel, enum naive_access access, int value,
                        int previous)
{
    kernel->operands[kernel->operand_count].access = access;
    kernel->operands[kernel->operand_count].value = value;
    kernel->operands[kernel->operand_count++].previous = previous;
}

static void write_new(struct maker *m, struct naive_kernel *kernel)
{
    m->made[m->made_count++] = m->value_count;
    add_operand(kernel, NAIVE_WRITE, m->value_count++, NAIVE_NONE);
}

/* Mostly what was made last, or a state. */
static int readable(struct maker *m)
{
    if (m->made_count == 0 || chance(m, 15))
        return m->states[below(m, STATES)];
    int last = m->made_count - 1, back = (int)below(m, 6);
    return m->made[back < last ? last - back : 0];
}

static struct naive_kernel *add_kernel(struct maker *m)
{
    struct naive_kernel *kernel = &m->p->kernels[m->p->count++];
    *kernel = (struct naive_kernel){.phase = m->p->count > KERNELS_MAX / 2};
    kernel->ns = below(m, 300);
    return kernel;
}

static struct naive_kernel *add_transfer(struct maker *m, int kind, int axis, int from)
{
    struct naive_kernel *kernel = add_kernel(m);
    kernel->transfers = true;
    kernel->kind = kind;
    kernel->axis = axis;
    kernel->latency_ns = (uint64_t)axis == 1 ? 0 : 20;
    kernel->ns = kernel->latency_ns + below(m, m->longest_ns);
    add_operand(kernel, NAIVE_READ, from, NAIVE_NONE);
    write_new(m, kernel);
    return kernel;
}

static void add_exchanges(struct maker *m)
{
    int from = readable(m), pieces = chance(m, 20) ? 2 : 1, count = chance(m, 30) ? 4 : 1;
    for (int k = 0; k < count && m->p->count + 2 < KERNELS_MAX; k++)
        for (int piece = 0; piece < pieces; piece++) {
            int axis = (int)below(m, 10) / 9;
            struct naive_kernel *kernel = add_transfer(m, REMAT_KERNEL_exchange, axis, from);
            kernel->beside = axis == 0;
            kernel->piece = pieces > 1;
        }
}

/* Of a parameter that is as it was at first, early; else of what was computed. */
static void add_gather(struct maker *m)
{
    int parameter = (int)below(m, STATES / 2);
    if (m->p->early && !m->replaced[parameter] && chance(m, 70)) {
        struct naive_kernel *kernel = add_transfer(m, REMAT_KERNEL_gather, 0, m->states[parameter]);
        kernel->beside = kernel->early = true;
    } else if (m->made_count && !m->p->alone)
        add_transfer(m, REMAT_KERNEL_gather, 0, m->made[below(m, (uint64_t)m->made_count)])
            ->beside = true;
}

/* After a slice of a parameter, perhaps. */
static void add_update(struct maker *m)
{
    int state = (int)below(m, STATES), parameter = (int)below(m, STATES / 2);
    bool sliced = !m->replaced[parameter] && chance(m, 50);
    if (sliced) {
        m->sliced[parameter] = true;
        struct naive_kernel *slice = add_kernel(m);
        slice->slice = true;
        add_operand(slice, NAIVE_READ, m->states[parameter], NAIVE_NONE);
        add_operand(slice, NAIVE_WRITE, m->value_count++, NAIVE_NONE);
    }
    int read = sliced ? m->value_count - 1 : readable(m);
    struct naive_kernel *kernel = add_kernel(m);
    add_operand(kernel, NAIVE_READ, read, NAIVE_NONE);
    if (m->made_count && chance(m, 50))
        add_operand(kernel, NAIVE_READ, m->made[m->made_count - 1], NAIVE_NONE);
    if (read != m->states[state] && !m->sliced[state]) {
        add_operand(kernel, NAIVE_UPDATE, m->value_count, m->states[state]);
        m->states[state] = m->value_count++;
        m->replaced[state] = true;
    }
}

static void add_computation(struct maker *m)
{
    struct naive_kernel *kernel = add_kernel(m);
    for (uint64_t reads = below(m, 3); reads > 0; reads--)
        add_operand(kernel, NAIVE_READ, readable(m), NAIVE_NONE);
    for (uint64_t writes = 1 + below(m, 2); writes > 0; writes--)
        write_new(m, kernel);
}

static void make(uint64_t seed, struct naive_problem *p, struct maker *m)
{
    static const uint64_t longest_ns[] = {30, 200, 2000};
    static const int depths[] = {0, 1, 2, 4};
    *m = (struct maker){.random = seed, .p = p, .longest_ns = longest_ns[seed % 3]};
    *p = (struct naive_problem){.group_latencies = REMAT_GROUP_LATENCIES,
                                .early = seed % 2,
                                .alone = seed % 4 == 3,
                                .depth = seed % 2 ? depths[seed / 4 % 4] : 0};
    int count = 2 + (int)below(m, KERNELS_MAX - 4);
    for (int s = 0; s < STATES; s++)
        m->states[s] = m->value_count++;
    while (p->count < count) {
        uint64_t kind = below(m, 10);
        (kind < 4   ? add_computation
         : kind < 6 ? p->alone ? add_gather : add_exchanges
         : kind < 8 ? add_gather
         : p->alone ? add_computation
                    : add_update)(m);
    }
}

/* --- as the compiler has it --- */

struct subject {
    struct remat_value_info values[VALUES_MAX];
    struct remat_kernel_info kernels[KERNELS_MAX];
    struct remat_kernel_operand operands[KERNELS_MAX][OPERANDS_MAX];
    struct remat_price prices[KERNELS_MAX];
    remat_kernel_id order[KERNELS_MAX]; /* kernels are numbered otherwise */
    double axes[KERNELS_MAX];
};

static void describe_values(const struct maker *m, struct subject *s)
{
    for (int v = 0; v < m->value_count; v++) {
        s->values[v] = (struct remat_value_info){.shape = {1, {ELEMENTS}}};
        if (v < STATES / 2)
            s->values[v].role = REMAT_ROLE_PARAMETER;
        if (v < STATES)
            memset(&s->values[v].node, 0xff, sizeof s->values[v].node);
    }
}

static void describe_kernel(const struct naive_kernel *from, uint32_t k, struct subject *s)
{
    static const struct remat_view whole = {.rank = 1, .shape = {ELEMENTS}, .strides = {1}},
                                   piece = {.rank = 1, .shape = {ELEMENTS / 2}, .strides = {1}};
    static const uint8_t access[] = {REMAT_ACCESS_READ, REMAT_ACCESS_WRITE, REMAT_ACCESS_UPDATE};
    s->axes[k] = from->axis;
    s->kernels[k] = (struct remat_kernel_info){
        .kind = from->slice ? REMAT_KERNEL_batch_slice : (uint32_t)from->kind,
        .phase = from->slice   ? REMAT_PHASE_OPTIMIZER
                 : from->phase ? REMAT_PHASE_BACKWARD
                               : REMAT_PHASE_FORWARD,
        .operand_count = (uint32_t)from->operand_count,
        .operands = s->operands[k],
        .parameter_count = 1,
        .parameters = &s->axes[k],
    };
    for (int o = 0; o < from->operand_count; o++)
        s->operands[k][o] = (struct remat_kernel_operand){
            .value = {(uint32_t)from->operands[o].value},
            .previous = {(uint32_t)from->operands[o].previous},
            .access = access[from->operands[o].access],
            .view = from->piece && o == 0 ? &piece : &whole,
        };
    s->prices[k] = (struct remat_price){.ns = from->ns, .latency_ns = from->latency_ns};
}

static void describe(struct maker *m, struct subject *s)
{
    const struct naive_problem *p = m->p;
    memset(s, 0, sizeof *s);
    describe_values(m, s);
    for (int k = 0; k < p->count; k++)
        s->order[k] = (remat_kernel_id){(uint32_t)k};
    for (int k = p->count - 1; k > 0; k--) {
        uint64_t other = below(m, (uint64_t)k + 1);
        remat_kernel_id kept = s->order[k];
        s->order[k] = s->order[other];
        s->order[other] = kept;
    }
    for (int k = 0; k < p->count; k++)
        describe_kernel(&p->kernels[k], s->order[k].i, s);
}

/* --- the test --- */

struct totals {
    uint32_t beside, overtaken, grouped, early, ahead, waits, enough, ended;
};

static void compare(const struct naive_problem *p, const struct subject *s,
                    const struct remat_overlapped *found, uint64_t seed, struct totals *totals)
{
    struct naive_run expected, run = {.ns = found->ns};
    uint64_t computed_ns = 0;
    if (!p->early)
        naive_beside(p, &expected);
    for (int at = 0; at < p->count; at++) {
        run.order[at] = NAIVE_NONE;
        for (int k = 0; k < p->count; k++)
            if (s->order[k].i == found->order[at].i)
                run.order[at] = k;
        run.complete_before[at] = (int)found->complete_before[at];
        run.continues[at] = found->continues[at];
        if (!p->early &&
            !CHECK(run.order[at] == expected.order[at] &&
                       run.complete_before[at] == expected.complete_before[at] &&
                       run.continues[at] == expected.continues[at],
                   "problem %" PRIu64 ", position %d: kernel %d until %d%s, expected %d until %d%s",
                   seed, at, run.order[at], run.complete_before[at], run.continues[at] ? "+" : "",
                   expected.order[at], expected.complete_before[at],
                   expected.continues[at] ? "+" : ""))
            return;
        const struct naive_kernel *kernel = &p->kernels[run.order[at]];
        computed_ns += kernel->transfers ? 0 : kernel->ns;
        totals->beside += run.complete_before[at] > at + 1 && !run.continues[at];
        totals->overtaken += at > 0 && run.order[at] < run.order[at - 1];
        totals->grouped += run.continues[at];
        totals->early += run.continues[at] && kernel->early;
        totals->ahead += p->alone && at > 0 && run.order[at] < run.order[at - 1];
    }
    const char *fault = naive_fault(p, &run);
    CHECK((p->early || found->ns == expected.ns) && !fault,
          "problem %" PRIu64 ": %" PRIu64 " ns, %" PRIu64 ": %s", seed, found->ns,
          p->early ? 0 : expected.ns, fault ? fault : "");
    totals->waits += found->ns > computed_ns;
}

/* Where the depth did not matter, a greater one gives the same. */
static void check_deeper(const struct remat_overlapped *found,
                         const struct remat_overlapped *deeper, uint32_t count, uint64_t seed,
                         struct totals *totals)
{
    if (found->depth_matters)
        return;
    CHECK(found->ns == deeper->ns &&
              !memcmp(found->order, deeper->order, count * sizeof *found->order) &&
              !memcmp(found->complete_before, deeper->complete_before,
                      count * sizeof *found->complete_before) &&
              !memcmp(found->continues, deeper->continues, count * sizeof *found->continues),
          "problem %" PRIu64 ": depth is said not to matter", seed);
    totals->enough++;
}

/* With a limit that it keeps it is the same; beyond one it ends with a time in between. */
static void check_limit(struct remat_arena *arena, const struct remat_transfers *transfers,
                        uint32_t depth, const struct remat_overlapped *found, uint64_t seed,
                        struct totals *totals)
{
    struct remat_overlapped kept = remat_overlap_transfers(arena, transfers, depth, found->ns);
    uint64_t limit_ns = found->ns * (seed % 16) / 16;
    struct remat_overlapped ended = remat_overlap_transfers(arena, transfers, depth, limit_ns);
    CHECK(kept.order && kept.ns == found->ns && kept.depth_matters == found->depth_matters,
          "problem %" PRIu64 ": ended at %" PRIu64 " of %" PRIu64 " ns", seed, kept.ns, found->ns);
    CHECK(ended.ns <= found->ns && (ended.order ? ended.ns == found->ns : ended.ns > limit_ns),
          "problem %" PRIu64 ": %" PRIu64 " ns beyond a limit of %" PRIu64 ", in all %" PRIu64,
          seed, ended.ns, limit_ns, found->ns);
    totals->ended += !ended.order;
}

static remat_status try_all(void *user)
{
    static struct naive_problem problem;
    static struct maker maker;
    static struct subject subject;
    struct totals totals = {0};
    struct remat_arena *arena = remat_scratch_open(user);
    for (uint64_t seed = 0; seed < PROBLEMS && checks_failed() < 5; seed++) {
        make(seed, &problem, &maker);
        describe(&maker, &subject);
        const struct remat_graph graph = {.values = subject.values,
                                          .value_count = (uint32_t)maker.value_count,
                                          .mesh = {2, {{"dp", 2}, {"tp", 2}}}};
        const struct remat_kernel_list kernels = {.count = (uint32_t)problem.count,
                                                  .kernels = subject.kernels};
        const struct remat_transfers *transfers =
            remat_transfers_find(arena, &graph, &kernels, subject.prices, subject.order);
        struct remat_overlapped found =
            remat_overlap_transfers(arena, transfers, (uint32_t)problem.depth, UINT64_MAX);
        compare(&problem, &subject, &found, seed, &totals);
        struct remat_overlapped deeper =
            remat_overlap_transfers(arena, transfers, KERNELS_MAX, UINT64_MAX);
        check_deeper(&found, &deeper, kernels.count, seed, &totals);
        check_limit(arena, transfers, (uint32_t)problem.depth, &found, seed, &totals);
        remat_arena_reset(arena);
    }
    remat_scratch_close(arena);
    printf("%u groups beside, %u kernels overtaken, %u transfers in groups, %u early, %u started "
           "ahead, %u waits, %u deep enough, %u beyond a limit\n",
           totals.beside, totals.overtaken, totals.grouped, totals.early, totals.ahead,
           totals.waits, totals.enough, totals.ended);
    CHECK(totals.beside > 9999 && totals.overtaken > 9999 && totals.grouped > 999 &&
          totals.early > 999 && totals.ahead > 999 && totals.waits > 999 && totals.enough > 999 &&
          totals.ended > 4999);
    return REMAT_OK;
}

int main(void)
{
    remat_context *ctx = remat_context_create(NULL, NULL);
    MUST(ctx);
    MUST_OK(ctx, remat_guard(ctx, try_all, ctx));
    remat_context_destroy(&ctx);
    return check_exit();
}
