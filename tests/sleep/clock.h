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
    uint64_t latest_ns;    /* when the last command ended, of those that have */
    uint64_t computed_ns;
    struct sleep_queue { /* transfers along an axis that were started and not made, a ring */
        uint32_t *commands, begin, end;
    } queues[REMAT_MESH_AXES_MAX];
};

/* When the next command begins. */
uint64_t sleep_now(struct sleep_rank *rank);
/* How long the command takes. */
uint64_t sleep_command_ns(const struct sleep_rank *rank, uint32_t command);
/* Until `end_ns`, when a command ends that takes computation `computed_ns`. */
void sleep_until(struct sleep_rank *rank, uint64_t end_ns, uint64_t computed_ns);

extern const struct remat_device_vtable sleep_device, sleep_device_on_cpus;

/* The device of a rank's session, from then on. */
struct remat_device;
void sleep_device_attach(struct remat_device *device, struct sleep_rank *rank);

#endif
