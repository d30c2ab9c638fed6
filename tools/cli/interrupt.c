/* SPDX-License-Identifier: Apache-2.0 */
#include "interrupt.h"

#include "line.h"

#include <signal.h>

static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
enum { NUMBER_COUNT = sizeof numbers / sizeof *numbers };
static volatile sig_atomic_t caught[NUMBER_COUNT], interrupted; /* by which */

static void on_interrupt(int number)
{
    interrupted = number;
    cli_line_leave(); /* a second one ends the process there */
    cli_release_interrupts();
}

void cli_catch_interrupts(void)
{
    struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = SA_RESTART}, old;
    sigfillset(&action.sa_mask);
    for (int i = 0; i < NUMBER_COUNT; i++) {
        sigaction(numbers[i], NULL, &old);
        caught[i] = old.sa_handler != SIG_IGN;
        if (caught[i])
            sigaction(numbers[i], &action, NULL);
    }
}

void cli_release_interrupts(void)
{
    for (int i = 0; i < NUMBER_COUNT; i++)
        if (caught[i])
            signal(numbers[i], SIG_DFL);
}

void cli_hold_interrupts(void)
{
    sigset_t signals;
    sigemptyset(&signals);
    for (int i = 0; i < NUMBER_COUNT; i++)
        sigaddset(&signals, numbers[i]);
    sigprocmask(SIG_BLOCK, &signals, NULL);
}

bool cli_interrupted(void)
{
    return interrupted != 0;
}

bool cli_hung_up(void)
{
    return interrupted == SIGHUP;
}

bool cli_terminated(void)
{
    return interrupted == SIGTERM;
}
