/* SPDX-License-Identifier: Apache-2.0 */
/* How much memory the kernel still gives: a process that touches more is killed, and nobody learns
 * which number was too small. */
#ifndef REMAT_TOOLS_RUN_MACHINE_H
#define REMAT_TOOLS_RUN_MACHINE_H

#include <stdint.h>

struct free_memory { /* UINT64_MAX: not known, or no limit */
    /* To all processes together: the least of what the machine has available and what each control
     * group above this process (version 1 or 2) leaves, both without pages that can be dropped. */
    uint64_t shared_bytes;
    const char *shared_by; /* "the machine", "the control group" */
    uint64_t own_bytes;    /* to this process: what its address space may grow by (ulimit -v) */
};

/* Reads /proc and /sys below `root`, which is "" but in tests. Allocates nothing. */
struct free_memory machine_free_memory(const char *root);

#endif
