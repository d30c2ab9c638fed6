/* A model carried through the passes, with what decisions on it are evaluated by. */
#ifndef TESTS_UNIT_COMPILE_SUBJECT_H
#define TESTS_UNIT_COMPILE_SUBJECT_H

#include "choose.h"
#include "models.h"

struct subject {
    remat_context *ctx;
    struct remat_arena arena;
    struct remat_device_description device;
    uint32_t loss_chunk;             /* rows, set before the graph is prepared; 0: no chunks */
    const struct remat_graph *graph; /* what decisions are made on */
    struct remat_statics statics;
    struct remat_stopwatch watch;
    struct remat_evaluator evaluator;
};

/* Release also after a failure. */
void subject_init(struct subject *subject);
void subject_release(struct subject *subject);

/* One of the two, once after subject_init; `device` names a description. The graph: for the
 * description that subject->device holds. */
remat_status subject_prepare(struct subject *subject, const struct remat_model_settings *settings,
                             uint32_t microbatches, const char *device);
remat_status subject_prepare_graph(struct subject *subject, const struct remat_graph *source,
                                   uint32_t microbatches);

/* What the solver per-op chooses when an arena may have so many bytes; it lies in `arena`. */
remat_status subject_choose(struct subject *subject, struct remat_arena *arena,
                            uint64_t limit_bytes, struct remat_candidate *out);

#endif
