/* SPDX-License-Identifier: Apache-2.0 */
/* The loss on data that a run does not train on, between its steps. */
#ifndef REMAT_TOOLS_RUN_EVALUATE_H
#define REMAT_TOOLS_RUN_EVALUATE_H

#include "feed.h"
#include "train.h"

/* Mean of the losses of settings->eval_steps batches, the same each time, without dropout. All
 * ranks call it, and get the same mean. Nothing is traced. */
remat_status evaluate(const struct train_settings *settings, const struct feed *feed, double *mean);

#endif
