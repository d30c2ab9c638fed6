/* SPDX-License-Identifier: Apache-2.0 */
/* A part of remat_program_verify: CUDA code. */
#ifndef REMAT_VERIFY_CUDA_H
#define REMAT_VERIFY_CUDA_H

#include "verify.h"

/* program->cuda; the commands are verified already. */
remat_status remat_verify_cuda(struct remat_verifier *verifier);

#endif
