/* SPDX-License-Identifier: Apache-2.0 */
/* Private to sleep: the time of a rank. */
#ifndef TESTS_SLEEP_CLOCK_H
#define TESTS_SLEEP_CLOCK_H

#include "accesses.h"
#include "sleep.h"

#include <pthread.h>

struct sleep_rank {
    struct sleep_ranks *all;
    const struct remat_program *program;
    struct accesses *accesses;
    uint32_t number;
    bool computes;
    remat_engine inner; /* ranks 0: none */
    struct sleep_settings settings;
    pthread_mutex_t mutex; /* of all that follows */
    pthread_cond_t begun;  /* a transfer */
    struct sleep_flight {  /* the last one along an axis, once it has begun */
        uint64_t begin_ns, end_ns;
        double slowdown; /* of computation meanwhile */
    } flights[REMAT_MESH_AXES_MAX];
    uint64_t latest_ns; /* when the last command ended, of those that have */
    uint64_t computed_ns;
    struct sleep_queue { /* transfers along an axis that were started and not made, a ring */
        uint32_t *commands, begin, end;
    } queues[REMAT_MESH_AXES_MAX];
};

/* When the next command begins. */
uint64_t sleep_now(struct sleep_rank *rank);
/* Until a command that computes, and began then, is done. */
void sleep_compute(struct sleep_rank *rank, uint32_t command, uint64_t begin_ns);

extern const struct remat_device_vtable sleep_device, sleep_device_on_cpus;

/* The device of a rank's session, from then on. */
struct remat_device;
void sleep_device_attach(struct remat_device *device, struct sleep_rank *rank);

#endif
