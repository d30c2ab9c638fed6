/* SPDX-License-Identifier: Apache-2.0 */
/* A part of remat_program_verify: what a command writes, beside all else that it uses. */
#ifndef REMAT_VERIFY_ALIAS_H
#define REMAT_VERIFY_ALIAS_H

#include "verify.h"

/* What a command writes lies apart from all else that it uses, or may alias; after the command. */
remat_status remat_verify_alias(struct remat_verifier *verifier, uint32_t index);
/* What the kernel of the command under check addresses of `operand`, its k-th one. */
struct remat_range remat_verify_range(const struct remat_verifier *verifier,
                                      const struct remat_operand *operand, uint32_t k);

#endif
