/* SPDX-License-Identifier: Apache-2.0 */
/* A part of remat_program_verify: names of tensors and gradients. */
#ifndef REMAT_VERIFY_NAMES_H
#define REMAT_VERIFY_NAMES_H

#include "verify.h"

/* Tensors have names of their own, and so have the gradients that commands write, but for those
 * that are parts of a tensor. Everything else is verified already. */
remat_status remat_verify_names(struct remat_verifier *verifier);

#endif
