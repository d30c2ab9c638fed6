/* SPDX-License-Identifier: Apache-2.0 */
/* Files for viewers that others wrote: a step, run by run of its segments, with predicted times. */
#ifndef REMAT_DUMP_FORMATS_H
#define REMAT_DUMP_FORMATS_H

#include "clocks.h"
#include "dump.h"

/* Trace events, for ui.perfetto.dev and chrome://tracing. Threads, names and keys are those of
 * remat-run --trace. Besides, slices have their layer and segment, and an arrow leads from a
 * command to each recomputation of what it computes. */
remat_status dump_step_trace(remat_context *ctx, struct remat_arena *arena,
                             const struct remat_program *program, const struct dump_asked *asked,
                             struct remat_text *out);

/* A snapshot of PyTorch's allocator, for pytorch.org/memory_viz and torch.cuda._memory_viz: every
 * buffer of the step, named in its frames, in padded bytes. Categories are classes (buffers.h). */
remat_status dump_snapshot(remat_context *ctx, struct remat_arena *arena,
                           const struct remat_program *program, const struct dump_asked *asked,
                           struct remat_text *out);

/* A graph for Graphviz. Values that are decided about have colour,
 * shape and words of their action. REMAT_ERROR_USAGE: there is no such layer. */
remat_status dump_dot(remat_context *ctx, struct remat_arena *arena,
                      const struct remat_program *program, const struct dump_asked *asked,
                      struct remat_text *out);
/* Text between quotes of a dot file. */
void dump_append_quoted(struct remat_text *out, const char *text);

/* --- shared by these --- */

/* One run of a segment. */
struct dump_run {
    const struct remat_segment *segment;
    uint32_t of_call;  /* which run of its line of the script, from 0 */
    uint64_t begin_ns; /* since the step began */
    const struct remat_clocks *clocks;
};

/* Calls `show` for each run of the step's script; a plan without entry points has none.
 * REMAT_ERROR_USAGE: more commands would be shown than viewers can take. */
remat_status dump_script(remat_context *ctx, struct remat_arena *arena,
                         const struct remat_program *program,
                         remat_status (*show)(void *user, const struct dump_run *run), void *user);

/* By command: the last one before it that computes originals of what it recomputes; REMAT_NONE: it
 * recomputes nothing, or there is none. */
remat_status dump_originals(struct remat_arena *arena, const struct remat_program *program,
                            const uint32_t **out);

#endif
