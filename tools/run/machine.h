/* SPDX-License-Identifier: Apache-2.0 */
/* Memory and cores that the kernel still gives. A process that touches more memory is killed, and
 * nobody learns which number was too small; one that shares its cores is slow, and nobody learns
 * why. */
#ifndef REMAT_TOOLS_RUN_MACHINE_H
#define REMAT_TOOLS_RUN_MACHINE_H

#include <stddef.h>
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

/* The processor's name, "cpu" where it is not known. A description that is measured here begins its
 * own name with it. */
void machine_processor(char *out, size_t bytes);

/* Cores that this process may use, at least one. */
uint32_t machine_cores(void);
/* Time that the machine's cores have worked, added up, for whatever process or virtual machine; 0:
 * not known. */
uint64_t machine_busy_ns(const char *root);

#endif
