/* SPDX-License-Identifier: Apache-2.0 */
/* Views of a plan: each as text for people and as keys of a JSON object for programs.
 *
 * A view is a pure function of the program: no clock, no paths, no order that depends on memory, so
 * that its output can be compared byte by byte. None but the summary holds the policy's name, so
 * the same decisions look the same whatever asked for them. */
#ifndef REMAT_TOOLS_DUMP_H
#define REMAT_TOOLS_DUMP_H

#include "cli.h"
#include "program.h"
#include <jansson.h>

/* A JSON object being filled. A failure (out of memory, a string that is not UTF-8) is remembered.
 */
struct dump_json {
    json_t *object;
    bool failed;
};
void dump_set(struct dump_json *out, const char *key, json_t *value); /* takes `value` */
void dump_push(struct dump_json *out, json_t *array, json_t *value);  /* takes `value` */
json_t *dump_bytes(uint64_t value); /* an integer, also for times and counts */
json_t *dump_hash(uint64_t hash);   /* 16 hexadecimal digits */

/* Scratch memory comes from `arena`. */
typedef remat_status (*dump_text_view)(remat_context *ctx, struct remat_arena *arena,
                                       const struct remat_program *program, struct remat_text *out);
typedef remat_status (*dump_json_view)(remat_context *ctx, struct remat_arena *arena,
                                       const struct remat_program *program, struct dump_json *out);
#define DUMP_VIEW(name)                                                                            \
    remat_status dump_##name##_text(remat_context *ctx, struct remat_arena *arena,                 \
                                    const struct remat_program *program, struct remat_text *out);  \
    remat_status dump_##name##_json(remat_context *ctx, struct remat_arena *arena,                 \
                                    const struct remat_program *program, struct dump_json *out)

DUMP_VIEW(summary);   /* what was asked for and what it costs; at most 60 lines */
DUMP_VIEW(decisions); /* which values are saved; in text, equal rows of several layers are one */
DUMP_VIEW(memory);    /* who lives at the peak, and the arena over the schedule */
DUMP_VIEW(schedule);  /* the commands in order */
DUMP_VIEW(kernels);   /* each distinct kernel, the most expensive first, with its instructions */

/* What saving and recomputing each cost, of every decision whose value matches the glob as by
 * fnmatch(3). REMAT_ERROR_USAGE: none does. */
remat_status dump_why_text(remat_context *ctx, const struct remat_program *program,
                           const char *glob, struct remat_text *out);
remat_status dump_why_json(remat_context *ctx, const struct remat_program *program,
                           const char *glob, struct dump_json *out);

/* The buffers as MiniMalloc's CSV: id,lower,upper,size,offset; lifespans in commands, [lower,
 * upper). Persistent buffers span all commands. */
void dump_memory_csv(const struct remat_program *program, struct remat_text *out);

/* --- cuda.c: parts of the views of kernels and of the summary --- */

/* A line for each CUDA kernel and architecture, in the order of the plan. */
remat_status dump_cuda_text(struct remat_arena *arena, const struct remat_program *program,
                            struct remat_text *out);
remat_status dump_cuda_json(struct remat_arena *arena, const struct remat_program *program,
                            struct dump_json *out);
void dump_cuda_summary(const struct remat_program *program, struct remat_text *out); /* a line */

/* --- shared by the views --- */

/* Integers as "0-3,5", "none" when there are none; `items` ascend. */
const char *dump_ranges(struct remat_arena *arena, const uint32_t *items, size_t count);
/* "matmul", or "program" with its key. */
const char *dump_kernel_name(const struct remat_program *program, uint32_t kernel);
/* The segment that holds the command; REMAT_NONE when no segment does. */
uint32_t dump_segment_of(const struct remat_program *program, uint32_t command);
/* The entry point "train", else "eval", else NULL. */
const struct remat_entry *dump_step_entry(const struct remat_program *program);
/* The first segment of that entry point, else the longest; REMAT_NONE when there are none. */
uint32_t dump_step_segment(const struct remat_program *program);

/* What a buffer is for. */
enum dump_class {
    DUMP_PARAMETERS,
    DUMP_OPTIMIZER,
    DUMP_GRADIENTS,
    DUMP_KEPT,       /* activations born in the forward pass that the backward pass reads */
    DUMP_RECOMPUTED, /* activations of a recomputation */
    DUMP_TRANSIENT,  /* all other activations */
    DUMP_HOST,       /* inputs and outputs */
    DUMP_CLASS_COUNT
};
extern const char *const dump_class_names[DUMP_CLASS_COUNT];
extern const char dump_class_letters[DUMP_CLASS_COUNT + 1];
/* The class of each buffer; NULL when out of memory. */
uint8_t *dump_classify(struct remat_arena *arena, const struct remat_program *program);
/* What a buffer takes of the arena, which is what live bytes count. */
uint64_t dump_padded_bytes(const struct remat_buffer *buffer);
/* What it takes to have a buffer that is live at the peak gone from there. */
struct dump_removal {
    const char *how;  /* "static", "in use", "pinned", "needed": not possible; "recompute" */
    int64_t extra_ns; /* of a step, by recomputing */
};
struct dump_removal dump_removal(const struct remat_program *program, uint32_t buffer,
                                 uint32_t value); /* what the buffer holds then, or REMAT_NONE */
/* What is said behind such times: ", estimated", or nothing where they are exact. */
const char *dump_estimated(const struct remat_program *program);
/* A decision as an object. */
json_t *dump_decision(const struct remat_decision_record *record);
struct cli_buffer dump_added_time(int64_t ns); /* "+1.20 us" */
/* True when the buffer holds something while the command runs. */
bool dump_is_live(const struct remat_buffer *buffer, uint32_t command);
/* Arena rows x schedule columns of the step's non-persistent part, as letters. */
remat_status dump_timeline(struct remat_arena *arena, const struct remat_program *program,
                           const uint8_t *classes, struct remat_text *out);

#endif
