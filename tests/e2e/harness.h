/* SPDX-License-Identifier: Apache-2.0 */
/* For tests that go from model settings to training steps in one process. */
#ifndef TESTS_E2E_HARNESS_H
#define TESTS_E2E_HARNESS_H

#include "check.h"
#include "compile.h"
#include "models.h"
#include "session_testing.h"

#include <stdlib.h>

struct run_settings {
    uint32_t threads, steps;
    bool poison, guard;
    bool paint; /* what the steps may touch, before them; excludes the other two, which write there
                 */
};

#define STEPS_MAX 8
struct run_result {
    uint64_t loss_hash[STEPS_MAX], gradient_hash[STEPS_MAX];
    float loss[STEPS_MAX];
    uint32_t gradient_count; /* of one step */
    uint64_t touched_bytes;  /* by the steps, from a painted arena; only with paint */
};

/* Zeroed. */
void *harness_array(remat_context *ctx, struct remat_arena *arena, size_t count, size_t size);

struct remat_graph *harness_model(remat_context *ctx, struct remat_arena *arena, const char *preset,
                                  struct remat_model_settings sizes);
/* Compiles for the CPU, on graph->mesh; passes NULL: undivided; budget 0: none. */
remat_status harness_compile(remat_context *ctx, struct remat_arena *arena,
                             const struct remat_graph *graph,
                             const struct remat_pass_settings *passes,
                             const struct remat_policy_settings *policy, uint64_t budget_bytes,
                             struct remat_program **out);

/* `program` with its transient buffers apart: twice as far from the begin of their range, so that
 * as many bytes as each has are unused after it. The rest is shared. */
struct remat_program *harness_spread(remat_context *ctx, struct remat_arena *arena,
                                     const struct remat_program *program);

/* Creates a session and runs init. */
remat_session *harness_open(remat_context *ctx, const remat_plan *plan, uint32_t threads);
/* What the step, counted from 0, reads, as far as the model has it: a fixed pseudo-random stream of
 * tokens, targets and source, the rate, the step's number and the random state. */
void harness_write_inputs(remat_context *ctx, remat_session *session, const remat_plan *plan,
                          uint32_t step, float rate);
/* init, then steps on those inputs. Fails the process on errors. */
struct run_result harness_run(remat_context *ctx, struct remat_program *program,
                              const struct run_settings *settings);
/* Name, action of every decision and every buffer's offset: equal for equal plans. */
uint64_t harness_decisions_hash(const struct remat_program *program);
uint64_t harness_offsets_hash(const struct remat_program *program);

#endif
