/* SPDX-License-Identifier: Apache-2.0 */
/* For this folder and compiler/library: the lines and figures of both forms of a report;
 * plan_report.c finds them. */
#ifndef REMAT_PLAN_REPORT_PARTS_H
#define REMAT_PLAN_REPORT_PARTS_H

#include "program.h"
#include "size.h"

/* At the begin of a line: it is prose, which may be broken at spaces; others are rows and commands.
 */
#define REMAT_PROSE "\001"

enum remat_arena_part {
    REMAT_ARENA_STATIC,
    REMAT_ARENA_GRADIENTS,
    REMAT_ARENA_ACTIVATIONS,
    REMAT_ARENA_PARTS
};

/* Bytes live at the peak, by what they hold. The rest of a live peak is activations. */
void remat_report_peak(const struct remat_program *program, uint64_t parts[REMAT_ARENA_PARTS]);
/* How often the first segment of a step runs. */
uint32_t remat_report_microbatches(const struct remat_program *program);
struct remat_throughput remat_report_throughput(const struct remat_program *program);

#endif
