/* SPDX-License-Identifier: Apache-2.0 */
/* Uses of a trace by remat-run: hashes, gradients to a file, Chrome trace,
 * profile. Gradients of which ranks have parts are joined, for which all ranks record. */
#ifndef REMAT_TOOLS_RUN_RECORDER_H
#define REMAT_TOOLS_RUN_RECORDER_H

#include "chrome_trace.h"
#include "peers.h"
#include "profiler.h"
#include "safetensors.h"

/* The hashes of one step, taken when the values are written; of one that accumulates over
 * microbatches the last version counts. XXH64 is the 64-bit xxHash:
 *     loss  XXH64(bytes of "loss", seed 0)
 *     grad  the sum modulo 2^64, over all values with role gradient, of
 *           XXH64(bytes of the value, seed XXH64(name, seed 0)),
 * name as in the plan ("wte.weight.grad") without a terminator, bytes as in memory: row-major,
 * little endian. The sum makes it independent of the order of the commands. */
struct step_hashes {
    uint64_t loss, grad;
};

struct run_recorder { /* zero-initialise */
    remat_context *ctx;
    const remat_plan *plan;
    struct peers peers; /* with whom gradients are joined of which ranks have parts */
    bool joining;       /* only that, for rank 0 */
    uint64_t joined;    /* how many */
    void *whole;        /* the one of this moment */
    bool hashing;
    struct step_hashes hashes;     /* of the entry point that runs or ran last */
    uint64_t *earlier;             /* by tensor: hash of a gradient's version before */
    struct safetensors *gradients; /* where its gradients go, NULL: nowhere */
    struct chrome_trace *trace;    /* NULL: none */
    struct profiler *profiler;     /* NULL: none */
    uint64_t origin_ns;            /* where the trace's time axis starts, by clock_ns */
    uint64_t begin_ns;             /* when the entry point began, on that axis */
    uint64_t spent_ns;             /* in the callback during that entry point */
    remat_status status;           /* of the callback */
    char message[1024];
};

/* `peers`: without an engine where there is one rank. */
remat_status recorder_open(remat_context *ctx, const remat_plan *plan, struct peers peers,
                           struct run_recorder *out);
void recorder_release(struct run_recorder *recorder); /* harmless when released */
/* Runs an entry point under the recorder. */
remat_status recorder_run(struct run_recorder *recorder, remat_session *session, const char *entry);

#endif
