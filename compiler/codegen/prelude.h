/* SPDX-License-Identifier: Apache-2.0 */
/* Private to compiler/codegen: the .cu files as text, made by embed.py. */
#ifndef REMAT_CODEGEN_PRELUDE_H
#define REMAT_CODEGEN_PRELUDE_H

/* Pieces, NULL at the end: what every kernel begins with, and what those of attention go on with.
 */
extern const char *const cuda_prelude[], *const cuda_attention[];

#endif
