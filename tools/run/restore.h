/* SPDX-License-Identifier: Apache-2.0 */
/* From a file into a session. */
#ifndef REMAT_TOOLS_RUN_RESTORE_H
#define REMAT_TOOLS_RUN_RESTORE_H

#include "safetensors_reader.h"

#define RESTORE_BYTES (1u << 20)

/* Writes into `to`, of which the session's rank may have a part, what it has of `from`, a tensor of
 * the same dtype and of the whole's shape. `buffer`: of RESTORE_BYTES. */
remat_status restore_tensor(remat_context *ctx, const struct safetensors_file *file,
                            const struct safetensors_tensor *from, const remat_tensor_info *to,
                            uint32_t rank, remat_session *session, void *buffer);

#endif
