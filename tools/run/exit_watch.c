/* SPDX-License-Identifier: Apache-2.0 */
#include "exit_watch.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define SECOND_NS UINT64_C(1000000000)

/* Of the one watch, which lasts as long as the process. */
static struct {
    uint32_t rank;
    uint64_t timeout_ns;
    int code;
} watch;

/* A second at a time: a process that is stopped for longer is not late for it. */
static void *wait_and_end(void *user)
{
    char line[160], host[64] = "";
    uint64_t left_ns = watch.timeout_ns;
    while (left_ns > 0) {
        uint64_t ns = left_ns < SECOND_NS ? left_ns : SECOND_NS;
        nanosleep(&(struct timespec){(time_t)(ns / SECOND_NS), (long)(ns % SECOND_NS)}, NULL);
        left_ns -= ns;
    }
    (void)gethostname(host, sizeof host - 1);
    int length = snprintf(line, sizeof line,
                          "remat-run: error: rank %u on %s waited %.3g s for its process to end\n",
                          (unsigned)watch.rank, host, (double)watch.timeout_ns / 1e9);
    (void)!write(STDERR_FILENO, line, (size_t)length);
    _exit(watch.code);
    return user;
}

void exit_watch(uint32_t rank, uint64_t timeout_ns, int code)
{
    pthread_t thread;
    sigset_t all, before;
    watch.rank = rank;
    watch.timeout_ns = timeout_ns;
    watch.code = code;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (pthread_create(&thread, NULL, wait_and_end, NULL) == 0)
        pthread_detach(thread);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}
