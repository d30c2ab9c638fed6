/* SPDX-License-Identifier: Apache-2.0 */
/* Private to exec: the session object. */
#ifndef REMAT_SESSION_STATE_H
#define REMAT_SESSION_STATE_H

#include "device.h"
#include "plan.h"
#include "stream.h"

#include <remat/engine.h>

/* Tests that look into the memory of a session as it runs (tests/session_testing.h); each may be
 * NULL, and is in a product. */
struct remat_session_checks {
    void *state;
    /* Before a command, when transfers that it waits for are complete: what lived until then. */
    void (*free)(struct remat_session *session, const struct remat_segment *segment,
                 uint32_t command);
    /* With the next one: a transfer is complete when `after` is called. */
    void (*before)(struct remat_session *session, uint32_t command);
    remat_status (*after)(struct remat_session *session, uint32_t command);
    void (*destroy)(struct remat_session *session);
};

struct remat_flight { /* of a transfer; all but `command` are its group's */
    uint32_t command;
    uint32_t first, count;      /* flights of the group; count 0 but in the first one */
    uint64_t begin_ns, end_ns;  /* on the host's clock, where the device's memory is the host's */
    uint32_t slot;              /* else of its marks, 0: none */
    uint64_t number;            /* of a GPU's: device.h */
    struct remat_stream *after; /* of another link: has `tasks` done before; NULL: nothing to wait
                                   for */
    uint64_t tasks;
};

/* Transfers that are made one group after the other: along one axis, or all if the engine takes one
 * call at a time. */
struct remat_session_link {
    struct remat_session *session;
    struct remat_flight *flights; /* room for all of a segment */
    remat_transfer *transfers;    /* by flight */
    uint32_t begin, end;          /* flights that go on */
    struct remat_stream *stream;  /* of the host, where they go on beside commands; else NULL */
};

#define SETTLED_RUNS 2 /* after which nothing more is loaded: the second one makes a graph */

struct remat_entry_runs { /* of an entry point */
    uint8_t settled[2];   /* untraced and traced, up to SETTLED_RUNS */
    uint64_t count;       /* begun */
};

struct remat_session {
    remat_context *ctx;
    const struct remat_plan *plan;
    const struct remat_program *program;
    struct remat_device *device;
    uint32_t threads;
    struct remat_entry_runs *runs; /* by entry point */
    uint32_t running;              /* the last entry point that was begun */
    remat_trace_function *trace;
    void *trace_user;
    remat_trace_value *trace_values;     /* as many as any command writes */
    uint32_t trace_copies;               /* 1 << role, of which data is copied for the trace */
    char *trace_copy;                    /* room for what one command writes of these */
    bool trace_data;                     /* they are copied now */
    remat_engine engine;                 /* of this rank; ranks 0: the plan has one rank */
    bool ungrouped;                      /* each transfer is a group */
    uint64_t transfer_timeout_ns, begun; /* begun: transfers so far, */
    uint64_t run_begun;                  /* and before the entry point */
    remat_transfer last;                 /* the first one of the last group, */
    uint32_t last_count;                 /* of so many */
    struct remat_session_link links[REMAT_MESH_AXES_MAX];
    uint32_t link_count; /* of these */
    uint64_t *tasks; /* [command]: of its link's thread, up to the transfer; NULL: there is none */
    bool *waits;     /* [command + 1]: a transfer is complete just before it */
    uint64_t begin_ns; /* on the host's clock: of the entry point that is traced */
    char *staging;     /* of a GPU's group: what each takes, then what it gives; NULL: not needed */
    struct remat_session_checks checks;
};

static inline bool remat_session_transfers(const struct remat_session *session, uint32_t command)
{
    return session->program->commands[command].complete_before != 0;
}

/* The most that the trace of one command copies. */
uint64_t remat_session_copied_bytes(const struct remat_session *session);

/* Whether the transfer is in the group of the one before it. */
static inline bool remat_flight_continues(const struct remat_session *session, uint32_t command)
{
    return session->program->commands[command].continues_group && !session->ungrouped;
}

#endif
