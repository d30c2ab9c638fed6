/* SPDX-License-Identifier: Apache-2.0 */
#include "formats.h"
#include "report_html.h"

/* How often a step runs the segment. */
static uint64_t times_of(const struct remat_program *program, const struct remat_entry *step,
                         uint32_t segment)
{
    uint64_t times = 0;
    for (uint32_t k = step->call_begin; k < step->call_end; k++)
        times += program->calls[k].segment == segment ? program->calls[k].times : 0;
    return times;
}

static json_t *make_position(const struct remat_clocks *clocks, const uint32_t *originals,
                             const struct remat_segment *segment, uint32_t c)
{
    uint32_t original = originals[c];
    bool known = original != REMAT_NONE && original >= segment->command_begin;
    return json_pack("{s:I,s:I,s:I,s:I,s:o}", "command", (json_int_t)c, "reached_ns",
                     (json_int_t)clocks->reached_ns[c], "begin_ns", (json_int_t)clocks->begin_ns[c],
                     "end_ns", (json_int_t)clocks->end_ns[c], "original",
                     known ? dump_bytes(original) : json_null());
}

remat_status dump_step_json(remat_context *ctx, struct remat_arena *arena,
                            const struct remat_program *program, const struct dump_asked *asked,
                            struct dump_json *out)
{
    (void)ctx, (void)asked;
    remat_status st = REMAT_OK;
    const struct remat_entry *step = remat_program_step(program);
    struct remat_clocks clocks;
    const uint32_t *originals;
    bool *known;
    json_t *segments = json_array(), *positions = json_array();
    REMAT_TRY_NEW(arena, known, program->segment_count);
    REMAT_TRY(dump_originals(arena, program, &originals));
    REMAT_TRY(remat_clocks_new(arena, program, &clocks));
    for (uint32_t k = step ? step->call_begin : 0; step && k < step->call_end; k++) {
        uint32_t s = program->calls[k].segment;
        const struct remat_segment *segment = &program->segments[s];
        if (known[s])
            continue;
        known[s] = true;
        REMAT_TRY(remat_clocks_run(program, segment, arena, &clocks));
        dump_push(out, segments,
                  json_pack("{s:s,s:I,s:I,s:I,s:I}", "name", segment->name, "times",
                            (json_int_t)times_of(program, step, s), "begin",
                            (json_int_t)segment->command_begin, "end",
                            (json_int_t)segment->command_end, "ns", (json_int_t)clocks.segment_ns));
        for (uint32_t c = segment->command_begin; c < segment->command_end; c++)
            dump_push(out, positions, make_position(&clocks, originals, segment, c));
    }
fail:
    dump_set(out, "segments", segments);
    dump_set(out, "positions", positions);
    return st;
}
