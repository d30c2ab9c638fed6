/* SPDX-License-Identifier: Apache-2.0 */
#include "naive_beside.h"

#include <stdlib.h>
#include <string.h>

enum { WAITING, HELD, UNDER_WAY, DONE }; /* a kernel */

struct sim {
    const struct naive_problem *p;
    struct naive_run *out;
    int state[KERNELS_MAX];
    int group[KERNELS_MAX]; /* of a transfer that has started */
    uint64_t group_end_ns[KERNELS_MAX];
    int group_count, landed_count, emitted;
    uint64_t now_ns, lane_ns;
};

static bool same_group_kind(const struct naive_kernel *a, const struct naive_kernel *b)
{
    return a->beside == b->beside && a->kind == b->kind && a->axis == b->axis && !a->piece &&
           !b->piece;
}

/* Whether the transfer fits a group that these started; all but latency of all of them counts. */
static bool has_room(const struct naive_problem *p, const int *members, int count, int next)
{
    uint64_t sum_ns = p->kernels[next].ns - p->kernels[next].latency_ns;
    for (int i = 0; i < count; i++)
        sum_ns += p->kernels[members[i]].ns - p->kernels[members[i]].latency_ns;
    return sum_ns < (uint64_t)p->group_latencies * p->kernels[members[0]].latency_ns;
}

/* --- what is ready --- */

static bool is_done(const struct sim *s, int k)
{
    return s->state[k] == DONE;
}

static bool operands_ready(const struct sim *s, int k)
{
    const struct naive_problem *p = s->p;
    for (int o = 0; o < p->kernels[k].operand_count; o++) {
        enum naive_access access = p->kernels[k].operands[o].access;
        int read = access == NAIVE_UPDATE ? p->kernels[k].operands[o].previous
                                          : p->kernels[k].operands[o].value;
        if (access == NAIVE_WRITE)
            continue;
        for (int j = 0; j < k; j++)
            for (int q = 0; q < p->kernels[j].operand_count && !p->kernels[j].slice; q++) {
                bool reads = p->kernels[j].operands[q].access == NAIVE_READ;
                if (p->kernels[j].operands[q].value == read && !is_done(s, j) &&
                    (!reads || access == NAIVE_UPDATE))
                    return false;
            }
    }
    return true;
}

/* The members of the group that was started last, if its last one was emitted last. */
static int open_group(const struct sim *s, int *members)
{
    int count = 0, group = s->group_count - 1;
    if (s->group_count == s->landed_count || s->emitted == 0 ||
        s->group[s->out->order[s->emitted - 1]] != group ||
        !s->p->kernels[s->out->order[s->emitted - 1]].beside)
        return 0;
    for (int at = 0; at < s->emitted; at++)
        if (s->p->kernels[s->out->order[at]].beside && s->group[s->out->order[at]] == group)
            members[count++] = s->out->order[at];
    return count;
}

static bool joins(const struct sim *s, int k)
{
    int members[KERNELS_MAX], count = open_group(s, members);
    return count > 0 && same_group_kind(&s->p->kernels[members[count - 1]], &s->p->kernels[k]) &&
           has_room(s->p, members, count, k);
}

static bool is_ready(const struct sim *s, int k)
{
    bool beside = s->p->kernels[k].beside;
    return operands_ready(s, k) && (!beside || s->group_count - s->landed_count < 2 || joins(s, k));
}

/* --- running --- */

static void emit_one(struct sim *s, int k)
{
    const struct naive_kernel *kernel = &s->p->kernels[k];
    bool continues = kernel->beside && joins(s, k);
    uint64_t ns = kernel->ns - (continues ? kernel->latency_ns : 0);
    s->out->order[s->emitted] = k;
    s->out->continues[s->emitted++] = continues;
    s->state[k] = DONE;
    if (!kernel->beside) { /* blocking transfers have a stream of their own */
        s->now_ns += ns;
        return;
    }
    s->lane_ns = (s->lane_ns > s->now_ns ? s->lane_ns : s->now_ns) + ns;
    s->state[k] = UNDER_WAY;
    s->group_count += !continues;
    s->group[k] = s->group_count - 1;
    s->group_end_ns[s->group[k]] = s->lane_ns;
}

/* A kernel, after slices for it. */
static void emit(struct sim *s, int at)
{
    int first = at;
    while (first > 0 && s->p->kernels[first - 1].slice)
        first--;
    for (int i = first; i <= at; i++)
        emit_one(s, i);
}

static void release(struct sim *s)
{
    const struct naive_problem *p = s->p;
    for (bool any = true; any;) {
        any = false;
        for (int k = 0; k < p->count; k++)
            if (s->state[k] == HELD && p->kernels[k].beside && is_ready(s, k) &&
                (!any || joins(s, k))) {
                emit(s, k);
                any = true;
            }
    }
    for (int k = 0; k < p->count; k++)
        if (s->state[k] == HELD && is_ready(s, k))
            emit(s, k);
}

static void land(struct sim *s, bool to_end)
{
    while (s->landed_count < s->group_count &&
           (to_end || s->group_end_ns[s->landed_count] <= s->now_ns)) {
        if (s->group_end_ns[s->landed_count] > s->now_ns)
            s->now_ns = s->group_end_ns[s->landed_count];
        for (int k = 0; k < s->p->count; k++)
            if (s->state[k] == UNDER_WAY && s->group[k] == s->landed_count)
                s->state[k] = DONE;
        s->landed_count++;
        release(s);
    }
}

static bool needs(const struct naive_kernel *kernel, const struct naive_kernel *transfer)
{
    int from = transfer->operands[0].value, to = transfer->operands[1].value;
    bool any = false;
    for (int o = 0; o < kernel->operand_count; o++) {
        bool update = kernel->operands[o].access == NAIVE_UPDATE;
        int value = update ? kernel->operands[o].previous : kernel->operands[o].value;
        any |= value == to || (update && value == from);
    }
    return any;
}

static int group_end(const struct naive_run *run, int count, int position)
{
    int end = position + 1;
    while (end < count && run->continues[end])
        end++;
    return end;
}

/* Before the first unit of kernels that needs a transfer of the group. */
static void find_completions(const struct naive_problem *p, struct naive_run *run)
{
    for (int at = 0, end; at < p->count; at = end) {
        bool beside = p->kernels[run->order[at]].beside;
        end = group_end(run, p->count, at);
        int before = beside ? p->count : end;
        for (int q = end, unit = end; q < before; q++) {
            bool slice = p->kernels[run->order[q]].slice;
            for (int t = at; t < end; t++)
                if (before > unit && !slice &&
                    needs(&p->kernels[run->order[q]], &p->kernels[run->order[t]]))
                    before = unit;
            unit = slice ? unit : q + 1;
        }
        for (int t = at; t < end; t++)
            run->complete_before[t] = before;
    }
}

void naive_beside(const struct naive_problem *p, struct naive_run *out)
{
    struct sim s = {.p = p, .out = out};
    memset(out, 0, sizeof *out);
    for (int k = 0; k < p->count; k++) {
        if (p->kernels[k].slice)
            continue;
        if (is_ready(&s, k)) {
            emit(&s, k);
            land(&s, false);
        } else {
            s.state[k] = HELD;
        }
    }
    land(&s, true);
    find_completions(p, out);
    out->ns = s.now_ns;
}

/* --- what holds of any run --- */

static const char *dependency_fault(const struct naive_problem *p, const int *position, int k)
{
    for (int o = 0; o < p->kernels[k].operand_count; o++) {
        enum naive_access access = p->kernels[k].operands[o].access;
        int read = access == NAIVE_UPDATE ? p->kernels[k].operands[o].previous
                                          : p->kernels[k].operands[o].value;
        for (int j = 0; j < k && access != NAIVE_WRITE; j++)
            for (int q = 0; q < p->kernels[j].operand_count; q++) {
                bool reads = p->kernels[j].operands[q].access == NAIVE_READ;
                if (p->kernels[j].operands[q].value != read || position[j] < position[k])
                    continue;
                if (!reads)
                    return "a kernel runs before what it reads is made";
                if (access == NAIVE_UPDATE)
                    return "a version is replaced before it is read";
            }
    }
    return NULL;
}

static const char *group_fault(const struct naive_problem *p, const struct naive_run *run, int at)
{
    int end = group_end(run, p->count, at), members[KERNELS_MAX];
    for (int t = at; t < end; t++) {
        members[t - at] = run->order[t];
        if (t > at &&
            (!p->kernels[run->order[t]].transfers ||
             p->kernels[run->order[t - 1]].early != p->kernels[run->order[t]].early ||
             !same_group_kind(&p->kernels[run->order[t - 1]], &p->kernels[run->order[t]])))
            return "a group of several kinds";
        if (run->complete_before[t] != run->complete_before[at])
            return "a group is not complete at once";
    }
    if (end > at + 1 && !has_room(p, members, end - at - 1, members[end - at - 1]))
        return "a group is too large";
    if (!p->kernels[run->order[at]].transfers)
        return run->complete_before[at] == at + 1 ? NULL : "a kernel goes on";
    if (!p->kernels[run->order[at]].beside && run->complete_before[at] != end)
        return "a blocking gather goes on";
    for (int q = at; q < run->complete_before[at]; q++)
        for (int t = at; t < end; t++)
            if (q != t && needs(&p->kernels[run->order[q]], &p->kernels[run->order[t]]))
                return "a transfer is needed while it goes on";
    return NULL;
}

static bool ends_group(const struct naive_problem *p, const struct naive_run *run, int at)
{
    return group_end(run, p->count, at) == at + 1;
}

/* A clock of computation and one of each axis. `third_waits`: a group starts when at most one is
 * under way, and computation waits.
 */
static uint64_t clock_ns(const struct naive_problem *p, const struct naive_run *run,
                         bool third_waits)
{
    uint64_t now_ns = 0, lanes_ns[2] = {0}, end_ns[KERNELS_MAX];
    int transfers = 0, at_transfer[KERNELS_MAX];
    for (int at = 0; at < p->count; at++) {
        const struct naive_kernel *kernel = &p->kernels[run->order[at]];
        uint64_t ns = kernel->ns - (run->continues[at] ? kernel->latency_ns : 0);
        int under_way = 0;
        for (int t = 0; t < transfers; t++)
            if (run->complete_before[at_transfer[t]] <= at && end_ns[t] > now_ns)
                now_ns = end_ns[t];
        for (int t = transfers - 1; t >= 0; t--) {
            bool third = third_waits && kernel->beside && !run->continues[at] && under_way > 0;
            under_way += end_ns[t] > now_ns && ends_group(p, run, at_transfer[t]);
            if (third && under_way == 2 && end_ns[t] > now_ns)
                now_ns = end_ns[t];
        }
        if (!kernel->transfers) {
            now_ns += ns;
            continue;
        }
        uint64_t *lane_ns = &lanes_ns[kernel->axis];
        *lane_ns = (*lane_ns > now_ns ? *lane_ns : now_ns) + ns;
        at_transfer[transfers] = at;
        end_ns[transfers++] = *lane_ns;
    }
    for (int axis = 0; axis < 2; axis++)
        now_ns = lanes_ns[axis] > now_ns ? lanes_ns[axis] : now_ns;
    return now_ns;
}

/* Early groups start in the order in which they are needed, each at most `depth` of them before the
 * order has come to its own; here kernels keep the order. */
static const char *depth_fault(const struct naive_problem *p, const struct naive_run *run)
{
    int place[KERNELS_MAX], started = 0, wanted = 0, reached = -1;
    for (int at = 0; at < p->count; at++) {
        bool early = p->kernels[run->order[at]].early;
        if (early && !run->continues[at]) {
            place[started] = run->order[at];
            if (started > 0 && place[started - 1] > place[started])
                return "an early group overtakes another one";
            started++;
        }
        int next = at; /* the order has come to this computation */
        while (next < p->count && p->kernels[run->order[next]].early)
            next++;
        reached = next < p->count ? run->order[next] : p->count;
        for (wanted = 0; wanted < started && place[wanted] <= reached;)
            wanted++;
        if (early && started > wanted + p->depth)
            return "an early group starts too early";
    }
    return NULL;
}

const char *naive_fault(const struct naive_problem *p, const struct naive_run *run)
{
    int position[KERNELS_MAX];
    uint64_t in_line_ns = 0;
    const char *fault = NULL;
    memset(position, 0xff, sizeof position);
    for (int at = 0; at < p->count; at++) {
        if (run->order[at] < 0 || run->order[at] >= p->count || position[run->order[at]] >= 0)
            return "no permutation";
        position[run->order[at]] = at;
        in_line_ns += p->kernels[run->order[at]].ns;
    }
    for (int k = 0; k < p->count && !fault; k++)
        fault = dependency_fault(p, position, k);
    for (int at = 0; at < p->count && !fault; at = group_end(run, p->count, at))
        fault = group_fault(p, run, at);
    if (!fault && run->ns > in_line_ns)
        return "slower than with blocking transfers";
    bool few = p->depth == 0 && !p->early;
    if (!fault &&
        (clock_ns(p, run, false) != run->ns || (few && clock_ns(p, run, true) != run->ns)))
        return "the clocks say another time";
    if (!fault && p->alone)
        fault = depth_fault(p, run);
    return fault;
}
