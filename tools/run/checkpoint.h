/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints of a run: all that the next steps depend on, so that a run that is resumed has the
 * bits of one that was not interrupted.
 *
 * One is a safetensors file, step-0000000120.safetensors in the run's folder, with the parameters
 * and the optimizer's state under their names in the plan. The header's metadata has the rest:
 *     "format"          "remat-checkpoint/2"
 *     "step"            steps done
 *     "seed"            of random state and order of the data, which a step's number completes
 *     "batch", "seq"    of the plan, from which the place in the data follows
 *     "data_size"       bytes of a text, or sequences of token files, that are trained on
 *     "data_hash"       of sizes and beginnings of the files
 *     "input_hash"      of what --input gives; 0, or missing: nothing
 *     "parts"           microbatches of all ranks, whose gradients are added up;
 *                       0, or missing: not known
 *     "schedule", "lr", "min_lr", "warmup", "decay_steps"    of the learning rate
 * A file is there whole or not at all, and the newest two are kept. */
#ifndef REMAT_TOOLS_RUN_CHECKPOINT_H
#define REMAT_TOOLS_RUN_CHECKPOINT_H

#include "lr_schedule.h"
#include "peers.h"
#include "safetensors_reader.h"

#include <inttypes.h>

struct checkpoint_state {
    uint64_t step, seed, batch, seq, data_size, data_hash, input_hash, microbatches;
    struct schedule schedule;
};

#define CHECKPOINT_NAME "step-%010" PRIu64 ".safetensors"

/* Whether checkpoints of the plan can be written to `folder`, which is made if it is not there and
 * locked as long as the descriptor *lock is open (-1: none is). REMAT_ERROR_USAGE: another process
 * has locked it, or it has checkpoints, and is not `resumed`, from which the run begins (NULL: it
 * begins anew). */
remat_status checkpoint_prepare(remat_context *ctx, const char *folder, const char *resumed,
                                const remat_plan *plan, int *lock);

/* REMAT_ERROR_USAGE: the output `path`, which `label` names, is the folder, or has the name of a
 * checkpoint in it. `folder` is what `option` says; either may be NULL: there is none. */
remat_status checkpoint_check_output(remat_context *ctx, const char *option, const char *folder,
                                     const char *label, const char *path);

/* Whether ranks have parts of what a checkpoint has. */
bool checkpoint_has_parts(const remat_plan *plan);
/* Writes a checkpoint and removes all but the newest two. Takes 1 MiB and the header. Parts
 * are joined with `peers`: all other ranks call checkpoint_join meanwhile; NULL: there are no
 * parts. */
remat_status checkpoint_write(remat_context *ctx, const char *folder, const remat_plan *plan,
                              remat_session *session, const struct peers *peers,
                              const struct checkpoint_state *state);
remat_status checkpoint_join(remat_context *ctx, const remat_plan *plan, remat_session *session,
                             const struct peers *peers);

bool checkpoint_is_there(const char *folder); /* at least one */

struct checkpoint { /* zero-initialise */
    char *path;
    struct safetensors_file file;
    struct checkpoint_state state;
};
/* Opens the newest checkpoint of a folder. REMAT_ERROR_INVALID, with the tensor's name: it is not
 * one of this plan. */
remat_status checkpoint_open(remat_context *ctx, const char *folder, const remat_plan *plan,
                             struct checkpoint *out);
/* Into a rank's session that has run "init". */
remat_status checkpoint_restore(remat_context *ctx, const struct checkpoint *checkpoint,
                                const remat_plan *plan, uint32_t rank, remat_session *session);
void checkpoint_release(struct checkpoint *checkpoint); /* harmless when released */

#endif
