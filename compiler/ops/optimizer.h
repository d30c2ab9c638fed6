/* SPDX-License-Identifier: Apache-2.0 */
/* Flags of optimizer ops. */
#ifndef REMAT_OPTIMIZER_H
#define REMAT_OPTIMIZER_H

#include "ops.h"

/* The input that is a flag, which the node sets (ops.def); REMAT_NONE: it has none. */
uint32_t remat_op_flag(const struct remat_node_info *node);

#endif
