/* SPDX-License-Identifier: Apache-2.0 */
/* Private to exec: the session object, and the checks that tests can switch on. */
#ifndef REMAT_SESSION_STATE_H
#define REMAT_SESSION_STATE_H

#include "device.h"
#include "lane.h"
#include "session_testing.h"

#include <remat/engine.h>

struct remat_buffer_at {
    uint64_t offset_bytes;
    uint32_t buffer;
};

struct remat_flight { /* of a transfer; all but `command` are its group's */
    uint32_t command;
    uint32_t first, count;     /* flights of the group; count 0 but in the first one */
    uint64_t begin_ns, end_ns; /* on the host's clock, where the device's memory is the host's */
    uint32_t slot;             /* else of its marks, 0: none */
    uint64_t number;           /* of a GPU's: device.h */
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
    remat_trace_value *trace_values;     /* as many as any command writes */
    uint32_t trace_copies;               /* 1 << role, of which data is copied for the trace */
    char *trace_copy;                    /* room for what one command writes of these */
    bool trace_data;                     /* they are copied now */
    remat_engine engine;                 /* of this rank; ranks 0: the plan has one rank */
    bool ungrouped;                      /* each transfer is a group */
    uint64_t transfer_timeout_ns, begun; /* begun: transfers so far */
    remat_transfer last;                 /* the first one of the last group, */
    uint32_t last_count;                 /* of so many */
    struct remat_flight *flights;        /* room for all of a segment */
    remat_transfer *transfers;           /* by flight */
    uint32_t flight_begin, flight_end;   /* those that go on */
    struct remat_lane *lane; /* of the host, where transfers go on beside commands; else NULL */
    bool *waits;             /* [command + 1]: a transfer is complete just before it */
    uint64_t begin_ns;       /* on the host's clock: of the entry point that is traced */
    char *staging; /* of a GPU's group: what each takes, then what it gives; NULL: not needed */
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
/* What the engine is told of the next transfer, but for what only the mover knows. */
void remat_session_describe(remat_session *session, uint32_t command, remat_transfer *out);
/* Makes the group that begins with that flight; on a GPU with an engine for its memory, enqueues
 * it. On the host it uses nothing of the session that changes in a run, so it may go on beside
 * commands. `message` is empty before; where it is empty after a failure, the context has one. */
remat_status remat_session_move(remat_session *session, uint32_t first, char *message);
/* An engine that moves the device's memory has failed. */
bool remat_session_is_abandoned(const remat_session *session);
/* Tells the engine that an entry point failed, unless the engine said so itself. */
void remat_session_fail(remat_session *session, remat_status status);

/* --- flight.c: transfers that were started, until a command needs that they are complete --- */

remat_status remat_flights_create(remat_session *session);
void remat_flights_destroy(remat_session *session);
/* Whether the transfer is in the group of the one before it. */
static inline bool remat_flight_continues(const remat_session *session, uint32_t command)
{
    return session->program->commands[command].continues_group && !session->ungrouped;
}
/* The group is started with its last transfer, and *started says so. `slot`, not 0, of a device
 * without memory of the host, and used where a group begins: marks its begin there, its end in the
 * next one. */
remat_status remat_flight_start(remat_session *session, uint32_t command, uint32_t slot,
                                bool *started);
/* Those that are complete before `command`, REMAT_NONE for all, and those that were started before
 * them; what is executed next finds them done. They are session->flights[*first] and so on, until
 * the next start. */
remat_status remat_flights_complete(remat_session *session, uint32_t command, uint32_t *first,
                                    uint32_t *count);
/* After a failure: drops what has not begun, and waits for what has. */
void remat_flights_clear(remat_session *session);

/* When a test asked for checks: before a command, when transfers that it waits for are complete,
 * what lived until then is freed; before and after it runs. */
void remat_session_free(struct remat_session *session, const struct remat_segment *segment,
                        uint32_t command);
void remat_session_before(struct remat_session *session, uint32_t command);
remat_status remat_session_after(struct remat_session *session, uint32_t command);

#endif
