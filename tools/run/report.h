/* SPDX-License-Identifier: Apache-2.0 */
/* Predicted against measured, after the last step. */
#ifndef REMAT_TOOLS_RUN_REPORT_H
#define REMAT_TOOLS_RUN_REPORT_H

#include "run.h"
#include <stdbool.h>
#include <stdio.h>

struct measured {
    const uint64_t *rank_step_ns; /* of several ranks, by rank */
    uint64_t steps;               /* of this process */
    uint64_t last_step;           /* of the run */
    bool completed;               /* all steps were done, by all ranks */
    uint64_t saved_step;          /* of the last good checkpoint, 0: none */
    const char *saved_in;         /* its folder */
    const char
        *not_finite;  /* in the last: "the loss", "a gradient", "a parameter"; NULL: nothing */
    uint64_t step_ns; /* mean */
    uint64_t resident_bytes;       /* the most the process held (VmHWM), 0: unknown */
    uint64_t address_bytes;        /* its largest address space (VmPeak), 0: unknown */
    uint64_t device_bytes;         /* in use on the GPU, 0 on a CPU */
    uint64_t settled_device_bytes; /* after step 2, when all is loaded */
    const char *device;
    uint32_t threads;
    uint32_t ranks_here;     /* in this process */
    const char *place;       /* where ranks are, and how they met */
    uint64_t engine_bytes;   /* that the engine took of a GPU */
    uint32_t ranks_together; /* of these on one GPU, or on the CPU, at most */
    const char *engine_name; /* that moves bytes between ranks; NULL: there is one rank */
};

/* Reads /proc/self/status. */
void report_measure_memory(struct measured *measured);
/* Model flops of a step at the peak of the target, if that is this machine; 0: not known. */
uint64_t report_model_ns(const remat_plan_info *plan, const struct measured *measured);
void report_print(FILE *out, const remat_plan_info *plan, const struct measured *measured);
remat_status report_write(remat_context *ctx, struct remat_outputs *outputs, const char *path,
                          const remat_plan_info *plan, const struct measured *measured);

#endif
