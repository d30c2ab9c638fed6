/* SPDX-License-Identifier: Apache-2.0 */
/* Inputs of a run beside its plan: data, inputs, and parameters from a file or a checkpoint. */
#ifndef REMAT_TOOLS_RUN_BEGINNING_H
#define REMAT_TOOLS_RUN_BEGINNING_H

#include "checkpoint.h"
#include "given.h"
#include "init.h"
#include "train.h"
#include "weights_files.h"

struct run_data {            /* zero-initialise */
    struct data train, eval; /* eval: where it has files of its own */
};

/* Contents that a session begins with; zero-initialise. */
struct beginning {
    struct given_inputs given;
    struct weights_files files;
    struct initial_weights weights;
    struct checkpoint checkpoint;
};

/* Opens and checks all of it; settings get what the checkpoint says. The data refer to the model.
 */
remat_status beginning_read(remat_context *ctx, struct remat_arena *arena,
                            const struct cli_arguments *args, struct train_settings *settings,
                            const remat_plan *plan, struct model *model, struct run_data *data,
                            struct beginning *from);
/* Initialises the session of a rank. */
remat_status beginning_write(remat_context *ctx, const struct beginning *from,
                             const remat_plan *plan, uint32_t rank, remat_session *session);
void beginning_release(struct beginning *from); /* harmless when released */

#endif
