/* SPDX-License-Identifier: Apache-2.0 */
/* Before the first step: whether all processes of a plan of several ranks run the same. */
#ifndef REMAT_TOOLS_RUN_AGREE_H
#define REMAT_TOOLS_RUN_AGREE_H

#include "beginning.h"

/* Processes compare the files of plan and libremat, byte for byte by hashes of them, the options
 * that decide what a rank does, and what they begin with, by names, shapes and first bytes of its
 * tensors. All call it, before they gather anything else; before they can, it does nothing.
 * REMAT_ERROR_USAGE: "rank 3 has another plan than rank 0". */
remat_status agree(remat_context *ctx, const struct cli_arguments *args,
                   const struct train_settings *settings, const struct beginning *from);

#endif
