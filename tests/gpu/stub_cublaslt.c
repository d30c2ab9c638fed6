/* SPDX-License-Identifier: Apache-2.0 */
/* libcublasLt.so.13, which accepts everything, offers as many algorithms as it is asked for, and
 * multiplies nothing. */
#include "cuda_api.h"

#define EXPORT                __attribute__((visibility("default")))
#define FUNCTION(symbol, ...) EXPORT int symbol(__VA_ARGS__);
#include "cublaslt.def"
#undef FUNCTION
EXPORT size_t cublasLtGetVersion(void);

#pragma GCC diagnostic ignored "-Wunused-parameter"
#define ACCEPTS(symbol, ...)                                                                       \
    int symbol(__VA_ARGS__)                                                                        \
    {                                                                                              \
        return 0;                                                                                  \
    }
#define MAKES(symbol, ...)                                                                         \
    int symbol(__VA_ARGS__)                                                                        \
    {                                                                                              \
        *handle = (void *)0x100;                                                                   \
        return 0;                                                                                  \
    }

size_t cublasLtGetVersion(void)
{
    return 130100;
}

int cublasLtMatmulAlgoGetHeuristic(void *handle, void *description, void *a, void *b, void *c,
                                   void *d, void *preference, int wanted,
                                   struct cublaslt_choice *choices, int *count)
{
    memset(choices, 0, (size_t)wanted * sizeof *choices);
    *count = wanted;
    return 0;
}

int cublasLtMatmulAlgoCheck(void *handle, void *description, void *a, void *b, void *c, void *d,
                            const struct cublaslt_algorithm *algorithm,
                            struct cublaslt_choice *verdict)
{
    *verdict = (struct cublaslt_choice){.algorithm = *algorithm};
    return 0;
}

MAKES(cublasLtCreate, void **handle)
MAKES(cublasLtMatmulDescCreate, void **handle, int compute, int scale)
MAKES(cublasLtMatrixLayoutCreate, void **handle, int type, uint64_t rows, uint64_t columns,
      int64_t leading)
MAKES(cublasLtMatmulPreferenceCreate, void **handle)
ACCEPTS(cublasLtDestroy, void *handle)
ACCEPTS(cublasLtMatmulDescDestroy, void *description)
ACCEPTS(cublasLtMatmulDescSetAttribute, void *description, int attribute, const void *value,
        size_t bytes)
ACCEPTS(cublasLtMatrixLayoutDestroy, void *layout)
ACCEPTS(cublasLtMatrixLayoutSetAttribute, void *layout, int attribute, const void *value,
        size_t bytes)
ACCEPTS(cublasLtMatmulPreferenceDestroy, void *preference)
ACCEPTS(cublasLtMatmulPreferenceSetAttribute, void *preference, int attribute, const void *value,
        size_t bytes)
ACCEPTS(cublasLtMatmul, void *handle, void *description, const void *alpha, const void *a,
        void *a_layout, const void *b, void *b_layout, const void *beta, const void *c,
        void *c_layout, void *d, void *d_layout, const struct cublaslt_algorithm *algorithm,
        void *workspace, size_t bytes, void *stream)
