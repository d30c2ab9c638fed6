/* SPDX-License-Identifier: Apache-2.0 */
/* remat-run --measure-device: the rates of this machine's processor as a device description, for
 * remat-compile --target (docs/cost_model.md). */
#ifndef REMAT_TOOLS_RUN_MEASURE_DEVICE_H
#define REMAT_TOOLS_RUN_MEASURE_DEVICE_H

#include "run.h"

/* REMAT_ERROR_USAGE: another option than --threads, or a plan, is given as well. */
remat_status measure_device(remat_context *ctx, const struct cli_arguments *args);

#endif
