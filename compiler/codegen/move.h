/* SPDX-License-Identifier: Apache-2.0 */
/* Built-in kernels that move or fill, for others too. */
#ifndef REMAT_CODEGEN_MOVE_H
#define REMAT_CODEGEN_MOVE_H

#include "emitter.h"

/* `value` to all of `out`, an operand of the command. */
remat_status cuda_fill(struct cuda_emitter *e, const struct remat_command *command,
                       const struct remat_operand *out, double value);

#endif
