/* SPDX-License-Identifier: Apache-2.0 */
/* Private to exec: the session object, and the checks that tests can switch on. */
#ifndef REMAT_SESSION_STATE_H
#define REMAT_SESSION_STATE_H

#include "device.h"
#include "session_testing.h"

#include <remat/engine.h>

struct remat_buffer_at {
    uint64_t offset_bytes;
    uint32_t buffer;
};

#define SETTLED_RUNS 2 /* after which nothing more is loaded: the second one makes a graph */

struct remat_session {
    remat_context *ctx;
    const struct remat_plan *plan;
    const struct remat_program *program;
    struct remat_device *device;
    uint32_t threads;
    uint8_t (*runs)[2]; /* by entry point, untraced and traced: how often, up to SETTLED_RUNS */
    remat_trace_function *trace;
    void *trace_user;
    remat_trace_value *trace_values;         /* as many as any command writes */
    uint32_t trace_copies;                   /* 1 << role, of which data is copied for the trace */
    char *trace_copy;                        /* room for what one command writes of these */
    bool trace_data;                         /* they are copied now */
    remat_engine engine;                     /* of this rank; ranks 0: the plan has one rank */
    uint64_t transfer_timeout_ns, transfers; /* transfers: begun so far */
    remat_transfer transfer;                 /* the last one that was begun */
    char *staging; /* of a GPU's: what a transfer takes, then what it gives; NULL: not needed */
    bool poison;
    char *shadow;                      /* NULL: no guards */
    struct remat_buffer_at *by_offset; /* all buffers, sorted; only with guards */
};

/* The most that the trace of one command copies. */
uint64_t remat_session_copied_bytes(const struct remat_session *session);

/* --- transfer.c --- */

/* That the engine fits the plan. */
remat_status remat_session_set_engine(remat_session *session, const remat_session_params *params);
/* That it fits the device, with room for what is copied; the device then waits with a deadline. */
remat_status remat_session_join_engine(remat_session *session);
/* Writes this rank's coordinates into their tensors, at the end of "init". */
remat_status remat_session_write_coordinates(remat_session *session);
/* Executes a command that is a transfer; *done is false where it is none. */
remat_status remat_session_transfer(remat_session *session, uint32_t command, bool *done);
/* An engine that moves the device's memory has failed. */
bool remat_session_is_abandoned(const remat_session *session);
/* Tells the engine that an entry point failed, unless the engine said so itself. */
void remat_session_fail(remat_session *session, remat_status status);

/* Before and after a command, when a test asked for checks. */
void remat_session_before(struct remat_session *session, uint32_t command);
remat_status remat_session_after(struct remat_session *session, const struct remat_segment *segment,
                                 uint32_t command);

#endif
