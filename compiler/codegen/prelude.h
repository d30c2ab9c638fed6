/* Private to compiler/codegen: primitives.cu and functions.cu as text, made by embed.py. */
#ifndef REMAT_CODEGEN_PRELUDE_H
#define REMAT_CODEGEN_PRELUDE_H

extern const char *const cuda_prelude[]; /* pieces, NULL at the end */

#endif
