/* SPDX-License-Identifier: Apache-2.0 */
#include "host.h"

#include <sched.h>
#include <time.h>
#include <unistd.h>

#define YIELDS   1000
#define SLEEP_NS 50000
#define MOST_NS  100000000

void remat_host_name(char out[REMAT_HOST_BYTES])
{
    if (gethostname(out, REMAT_HOST_BYTES))
        *out = 0;
    out[REMAT_HOST_BYTES - 1] = 0;
}

uint64_t remat_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

void remat_wait_pause(struct remat_wait *wait)
{
    uint64_t now = remat_now_ns();
    if (wait->looks > 0)
        wait->waited_ns += now - wait->last_ns < MOST_NS ? now - wait->last_ns : MOST_NS;
    wait->last_ns = now;
    if (wait->looks++ < YIELDS)
        sched_yield();
    else
        nanosleep(&(struct timespec){.tv_nsec = SLEEP_NS}, NULL);
}
