/* SPDX-License-Identifier: Apache-2.0 */
/* Decisions by value, and what views show beside each other. */
#ifndef REMAT_DUMP_VIEWS_H
#define REMAT_DUMP_VIEWS_H

#include "dump.h"

/* Indices are REMAT_NONE where there is none. */
struct dump_decided {
    uint32_t *decision; /* by value: the one about it, of no recomputed one */
    uint32_t *about;    /* by value: the same, or the one about what it recomputes */
    uint32_t *kept;     /* by decision: what is kept, if not in place */
    bool *stays;        /* by decision: at the command its value lives also if it is recomputed */
};
/* Whether a value of this name is what is kept of the record's, if not in place. */
bool dump_names_kept(const struct remat_decision_record *record, const char *name);

remat_status dump_decided(struct remat_arena *arena, const struct remat_program *program,
                          uint32_t command, struct dump_decided *out);

/* The command of asked->command. REMAT_ERROR_USAGE: there is none, or several have that name; the
 * message lists some that may be meant. */
remat_status dump_find_command(remat_context *ctx, struct remat_arena *arena,
                               const struct remat_program *program, const struct dump_asked *asked,
                               uint32_t *out);

/* A decision as an object. */
json_t *dump_decision(const struct remat_decision_record *record);

/* Arena rows x schedule columns of the step's non-persistent part, as letters. */
remat_status dump_timeline(struct remat_arena *arena, const struct remat_program *program,
                           const uint8_t *classes, struct remat_text *out);

/* A line for each CUDA kernel and architecture, in the order of the plan. */
remat_status dump_cuda_text(struct remat_arena *arena, const struct remat_program *program,
                            struct remat_text *out);
remat_status dump_cuda_json(struct remat_arena *arena, const struct remat_program *program,
                            struct dump_json *out);
void dump_cuda_summary(const struct remat_program *program, struct remat_text *out); /* a line */

/* The buffers as MiniMalloc's CSV: id,lower,upper,size,offset; lifespans in commands, [lower,
 * upper). Persistent buffers span all commands. Then its label and its class (buffers.h).
 * REMAT_ERROR_MEMORY. */
remat_status dump_memory_csv(remat_context *ctx, struct remat_arena *arena,
                             const struct remat_program *program, const struct dump_asked *asked,
                             struct remat_text *out);

#endif
