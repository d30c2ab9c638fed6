/* SPDX-License-Identifier: Apache-2.0 */
/* The machine: its name and clock, waiting by looking. */
#ifndef REMAT_HOST_H
#define REMAT_HOST_H

#include "base.h"

#define REMAT_HOST_BYTES 64
void remat_host_name(char out[REMAT_HOST_BYTES]);

uint64_t remat_now_ns(void); /* of a clock that is never set */

struct remat_wait { /* zeroed before the first look */
    uint64_t waited_ns, last_ns;
    uint32_t looks;
};
/* Between two looks: yields, and sleeps after some. No look counts for more than 100 ms: a process
 * that was stopped for longer (Ctrl-Z) is not late for it. */
void remat_wait_pause(struct remat_wait *wait);

#endif
