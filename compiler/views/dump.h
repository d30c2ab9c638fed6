/* SPDX-License-Identifier: Apache-2.0 */
/* Views of a plan: each as text for people and as keys of a JSON object for programs.
 *
 * A view is a pure function of the program: no clock, no paths, no order that depends on memory, so
 * that its output can be compared byte by byte. None but the summary holds the policy's name, so
 * the same decisions look the same whatever asked for them. */
#ifndef REMAT_DUMP_H
#define REMAT_DUMP_H

#include "base.h"
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
/* Appends the finished object, indented. Integers stay integers; control characters that JSON
 * allows in strings, such as C1, are escaped. REMAT_ERROR_OTHER: something has failed. */
remat_status dump_print_json(remat_context *ctx, const struct dump_json *json,
                             struct remat_text *out);

/* The part of a plan that a view or a file is asked for, and files to show it beside. NULL, 0: all,
 * none. */
struct dump_asked {
    const char *segment;      /* its name; of --schedule and --at */
    const char *command;      /* its number or name; of --at */
    const char *layer;        /* its number; of dot files */
    const char *const *globs; /* of values, fnmatch(3): of --why */
    uint32_t glob_count;
    const char *curve; /* as remat-compile --curve writes it: of the report */
    const char *with;  /* as remat-run --trace writes it: of the report; a snapshot: of --memory */
    const struct remat_program *other; /* of --diff: a second plan */
};

/* REMAT_ERROR_USAGE: there is no such part. Scratch memory comes from `arena`. */
typedef remat_status (*dump_text_view)(remat_context *ctx, struct remat_arena *arena,
                                       const struct remat_program *program,
                                       const struct dump_asked *asked, struct remat_text *out);
typedef remat_status (*dump_json_view)(remat_context *ctx, struct remat_arena *arena,
                                       const struct remat_program *program,
                                       const struct dump_asked *asked, struct dump_json *out);
#define DUMP_VIEW(name)                                                                            \
    remat_status dump_##name##_text(remat_context *ctx, struct remat_arena *arena,                 \
                                    const struct remat_program *program,                           \
                                    const struct dump_asked *asked, struct remat_text *out);       \
    remat_status dump_##name##_json(remat_context *ctx, struct remat_arena *arena,                 \
                                    const struct remat_program *program,                           \
                                    const struct dump_asked *asked, struct dump_json *out)

/* Each in a file of its name; diff in diff_text.c and diff_json.c. */
DUMP_VIEW(summary);   /* what was asked for and what it costs; at most 60 lines */
DUMP_VIEW(decisions); /* which values are saved; in text, equal rows of several layers are one */
DUMP_VIEW(memory);    /* who lives at the peak, and the arena over the schedule */
DUMP_VIEW(at);        /* who lives while a command runs, and the room left there */
DUMP_VIEW(placement); /* parts of values on ranks, and transfers within layers */
DUMP_VIEW(schedule);  /* the commands in order, by segment, those of the step first; a segment */
DUMP_VIEW(kernels);   /* each distinct kernel, the most expensive first, with its instructions */
DUMP_VIEW(diff);      /* what differs from asked->other; of a plan and itself nothing, no line */
DUMP_VIEW(why);       /* what saving and recomputing cost, of decisions whose names match a glob */

/* A file of a plan. */
typedef remat_status (*dump_file)(remat_context *ctx, struct remat_arena *arena,
                                  const struct remat_program *program,
                                  const struct dump_asked *asked, struct remat_text *out);

/* --- shared by the views --- */

/* Each is REMAT_NONE. */
remat_status dump_indices(struct remat_arena *arena, size_t count, uint32_t **out);

/* Items by a hash, at most `most`, which the caller numbers from 0:
 *
 *     for (uint32_t i = dump_index_first(&index, hash); i != REMAT_NONE; i = index.next[i])
 *         if (is_equal(i, key)) // others may have the same place */
struct dump_index {
    uint32_t *first, *next; /* the last one added comes first */
    uint64_t mask;
};
remat_status dump_index_new(struct remat_arena *arena, size_t most, struct dump_index *out);
static inline uint32_t dump_index_first(const struct dump_index *index, uint64_t hash)
{
    return index->first[hash & index->mask];
}
void dump_index_add(struct dump_index *index, uint64_t hash, uint32_t item);

/* Integers as "0-3,5", "none" when there are none; `items` ascend. */
const char *dump_ranges(struct remat_arena *arena, const uint32_t *items, size_t count);
/* `path` with its first element ".LAYER" as ".*"; itself outside layers. */
remat_status dump_pattern(struct remat_arena *arena, const char *path, int32_t layer,
                          const char **out);
/* At most `width` bytes of a name, its middle as "...". */
void dump_append_name(struct remat_text *out, const char *name, size_t width);
/* The segment that holds the command; REMAT_NONE when no segment does. */
uint32_t dump_segment_of(const struct remat_program *program, uint32_t command);
/* schedule.c: segments by place in the schedule: those that a step runs, in its order, then the
 * others; all, or that of a name. REMAT_ERROR_USAGE: none has it. */
struct dump_order REMAT_LIST(uint32_t);
remat_status dump_order(remat_context *ctx, struct remat_arena *arena,
                        const struct remat_program *program, const char *of,
                        struct dump_order *out);
bool dump_is_among(const struct remat_program *program, const struct dump_order *order,
                   uint32_t command);
/* The segment of a step that runs most often, else the longest; REMAT_NONE when there are none. */
uint32_t dump_step_segment(const struct remat_program *program);

#endif
