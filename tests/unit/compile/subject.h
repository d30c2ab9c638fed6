/* A model carried through the passes, with what decisions on it are evaluated by. */
#ifndef TESTS_UNIT_COMPILE_SUBJECT_H
#define TESTS_UNIT_COMPILE_SUBJECT_H

#include "evaluate.h"
#include "models.h"

struct subject {
    remat_context *ctx;
    struct remat_arena arena;
    struct remat_device_description device;
    const struct remat_graph *graph; /* what decisions are made on */
    struct remat_statics statics;
    struct remat_stopwatch watch;
    struct remat_evaluator evaluator;
};

/* Release also after a failure. */
void subject_init(struct subject *subject);
void subject_release(struct subject *subject);

/* Once after subject_init; `device` names a description. */
remat_status subject_prepare(struct subject *subject, const struct remat_model_settings *settings,
                             uint32_t microbatches, const char *device);

#endif
