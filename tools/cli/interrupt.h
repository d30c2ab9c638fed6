/* SPDX-License-Identifier: Apache-2.0 */
/* Ending early. */
#ifndef REMAT_TOOLS_INTERRUPT_H
#define REMAT_TOOLS_INTERRUPT_H

#include <stdbool.h>

/* From now on the first SIGINT (Ctrl-C), SIGTERM or SIGHUP is only noted; a second one ends the
 * process. One that is ignored stays ignored, as nohup wants it. */
void cli_catch_interrupts(void);
bool cli_interrupted(void);
bool cli_hung_up(void);            /* that was SIGHUP: the terminal is gone */
bool cli_terminated(void);         /* that was SIGTERM */
void cli_release_interrupts(void); /* the first one ends the process again */
/* From now on none of them ends the process: it is about to write its files. */
void cli_hold_interrupts(void);

#endif
