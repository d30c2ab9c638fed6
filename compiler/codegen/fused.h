/* SPDX-License-Identifier: Apache-2.0 */
/* The command of a fused kernel. */
#ifndef REMAT_CODEGEN_FUSED_H
#define REMAT_CODEGEN_FUSED_H

#include "emitter.h"

remat_status cuda_emit_fused(struct cuda_emitter *e, const struct remat_command *command);

#endif
