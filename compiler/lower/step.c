/* SPDX-License-Identifier: Apache-2.0 */
#include "step.h"

void remat_step_add(struct remat_arena *arena, struct remat_step *step, const char *entry,
                    uint32_t times, struct remat_step_segment segment)
{
    assert(times > 0 && segment.graph);
    uint32_t calls = (uint32_t)step->calls.count;
    size_t entries = step->entries.count;
    struct remat_call call = {(uint32_t)step->segments.count, times, 0};
    if (!entries || strcmp(step->entries.items[entries - 1].name, entry) != 0)
        REMAT_PUSH(arena, &step->entries, ((struct remat_entry){entry, calls, calls}));
    step->entries.items[step->entries.count - 1].call_end++;
    REMAT_PUSH(arena, &step->calls, call);
    REMAT_PUSH(arena, &step->segments, segment);
}

static struct remat_step_segment *called(const struct remat_step *step, uint32_t call)
{
    return &step->segments.items[step->calls.items[call].segment];
}

/* The call of the decided segment, which there is. */
static uint32_t find_decided(const struct remat_step *step)
{
    uint32_t call = 0;
    while (!called(step, call)->decided)
        call++;
    return call;
}

struct remat_step_segment *remat_step_decided(const struct remat_step *step)
{
    return called(step, find_decided(step));
}

uint32_t remat_step_microbatches(const struct remat_step *step)
{
    return step->calls.items[find_decided(step)].times;
}

remat_status remat_step_place(remat_context *ctx, const struct remat_persistent *persistent,
                              const struct remat_step *step, uint64_t *out_arena_bytes)
{
    struct remat_arena *scratch = remat_scratch_open(ctx);
    uint32_t count = (uint32_t)step->calls.count;
    struct remat_lifespans **calls;
    REMAT_NEW(scratch, calls, count);
    for (uint32_t c = 0; c < count; c++)
        calls[c] = &called(step, c)->arranged.lifespans;
    remat_status st = remat_place(ctx, persistent, calls, count, out_arena_bytes);
    remat_scratch_close(scratch);
    return st;
}

static struct remat_step_time time_of(const struct remat_arrangement *a)
{
    return (struct remat_step_time){a->step_ns, a->least_ns, a->times};
}

struct remat_step_time remat_step_sum(const struct remat_step *step,
                                      const struct remat_step_time *decided)
{
    struct remat_step_time out = {0};
    const struct remat_entry *entry = step->entries.items;
    while (entry->call_end <= find_decided(step))
        entry++;
    for (uint32_t c = entry->call_begin; c < entry->call_end; c++) {
        const struct remat_step_segment *segment = called(step, c);
        struct remat_step_time one = segment->decided ? *decided : time_of(&segment->arranged);
        uint64_t times = step->calls.items[c].times;
        out.ns += times * one.ns;
        out.least_ns += times * one.least_ns;
        for (uint32_t k = 0; k < REMAT_COST_CLASSES; k++)
            out.times.ns[k] += times * one.times.ns[k];
    }
    return out;
}
