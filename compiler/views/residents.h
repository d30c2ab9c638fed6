/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers that are live while a command runs. */
#ifndef REMAT_DUMP_RESIDENTS_H
#define REMAT_DUMP_RESIDENTS_H

#include "buffers.h"

/* The price of removing a buffer from there. */
struct dump_removal {
    const char *how;  /* "persistent", "in use", "pinned", "needed": not possible; "recompute" */
    int64_t extra_ns; /* of a step, by recomputing */
};

struct dump_resident { /* such a buffer */
    const struct remat_buffer *buffer;
    uint32_t index;
    uint32_t value;    /* what it holds then, REMAT_NONE: nothing */
    uint32_t next_use; /* the next command that reads it, REMAT_NONE: none in this step */
    uint32_t decision; /* about the value, or about what it recomputes; REMAT_NONE */
    uint8_t class;
    struct dump_removal removal;
};
struct dump_residents {
    struct dump_resident *items; /* the largest first */
    size_t count, capacity;
    uint64_t bytes[DUMP_CLASS_COUNT]; /* padded, so that with the workspace they add up to the live
                                         bytes */
};
/* `classes` as of dump_classify. */
remat_status dump_residents(struct remat_arena *arena, const struct remat_program *program,
                            const uint8_t *classes, uint32_t command, struct dump_residents *out);
/* Their bytes by class, as an object. */
json_t *dump_classes_json(const struct dump_residents *residents, struct dump_json *out);
/* A resident as an object. */
json_t *dump_resident_json(const struct remat_program *program,
                           const struct dump_resident *resident);

/* Persistent residents of a class; of the others those that differ in their layer only. */
struct dump_resident_group {
    const struct dump_resident *first; /* the largest */
    const char *name;                  /* of their values, with '*' for the layer; "-": no value */
    uint64_t bytes;                    /* of all, padded */
    uint32_t buffer_count;
    uint32_t begin, end;    /* commands from the first that needs one to the last */
    size_t count, capacity; /* layers, ascending */
    uint32_t *items;
};
struct dump_resident_groups REMAT_LIST(struct dump_resident_group);
/* The largest first. */
remat_status dump_group_residents(struct remat_arena *arena, const struct remat_program *program,
                                  const struct dump_residents *residents,
                                  struct dump_resident_groups *out);

#endif
