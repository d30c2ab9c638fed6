/* SPDX-License-Identifier: Apache-2.0 */
// What cuda_api.h and its lists say against NVIDIA's headers, at compile time; and cuBLASLt's
// library, where it is installed, has every function. Exit code 77 where it is not.
#include <cublasLt.h>
#include <cuda.h>

#include "prototypes.h"
#include <cstdio>

extern "C" {
#include "cuda_api.h"
}

#define FUNCTION(symbol, ...)                                                                      \
    static_assert(same_function(decltype (&symbol)(nullptr), (int (*)(__VA_ARGS__)) nullptr),      \
                  #symbol);
#include "driver.def"

#include "cublaslt.def"
#undef FUNCTION

#define SAME(ours, theirs) static_assert((long)(ours) == (long)(theirs), #theirs)
SAME(CUDA_DEVICE_MULTIPROCESSOR_COUNT, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
SAME(CUDA_DEVICE_COMPUTE_CAPABILITY_MAJOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
SAME(CUDA_DEVICE_COMPUTE_CAPABILITY_MINOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
SAME(CUDA_LIMIT_STACK_SIZE, CU_LIMIT_STACK_SIZE);
SAME(CUDA_STREAM_NON_BLOCKING, CU_STREAM_NON_BLOCKING);
SAME(CUDA_STREAM_CAPTURE_MODE_THREAD_LOCAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
SAME(CUDA_EVENT_DEFAULT, CU_EVENT_DEFAULT);
SAME(CUDA_EVENT_DISABLE_TIMING, CU_EVENT_DISABLE_TIMING);
SAME(CUDA_STREAM_CAPTURE_IMPLICIT, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
SAME(CUDA_FUNC_MAX_DYNAMIC_SHARED_SIZE_BYTES, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
SAME(CUDA_OUT_OF_MEMORY, CUDA_ERROR_OUT_OF_MEMORY);
SAME(CUDA_NO_DEVICE, CUDA_ERROR_NO_DEVICE);
SAME(CUDA_NOT_READY, CUDA_ERROR_NOT_READY);
SAME(CUBLASLT_ALLOC_FAILED, CUBLAS_STATUS_ALLOC_FAILED);
SAME(CUBLASLT_R_32F, CUDA_R_32F);
SAME(CUBLASLT_R_16BF, CUDA_R_16BF);
SAME(CUBLASLT_COMPUTE_32F, CUBLAS_COMPUTE_32F);
SAME(CUBLASLT_OP_T, CUBLAS_OP_T);
SAME(CUBLASLT_DESC_TRANSA, CUBLASLT_MATMUL_DESC_TRANSA);
SAME(CUBLASLT_DESC_TRANSB, CUBLASLT_MATMUL_DESC_TRANSB);
SAME(CUBLASLT_LAYOUT_BATCH_COUNT, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT);
SAME(CUBLASLT_LAYOUT_STRIDED_BATCH_OFFSET, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET);
SAME(CUBLASLT_PREF_MAX_WORKSPACE_BYTES, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
SAME(CUBLASLT_PREF_REDUCTION_SCHEME_MASK, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK);
SAME(CUBLASLT_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
SAME(CUBLASLT_PREF_MIN_ALIGNMENT_B_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES);
SAME(CUBLASLT_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES);
SAME(CUBLASLT_PREF_MIN_ALIGNMENT_D_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
SAME(CUBLASLT_REDUCTION_COMPUTE_TYPE, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
SAME(sizeof(cublaslt_algorithm), sizeof(cublasLtMatmulAlgo_t));
SAME(sizeof(cublaslt_choice), sizeof(cublasLtMatmulHeuristicResult_t));
SAME(offsetof(cublaslt_choice, workspace_bytes),
     offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize));
SAME(offsetof(cublaslt_choice, state), offsetof(cublasLtMatmulHeuristicResult_t, state));
SAME(offsetof(cublaslt_choice, waves), offsetof(cublasLtMatmulHeuristicResult_t, wavesCount));

int main()
{
    remat_context *ctx = remat_context_create(nullptr, nullptr);
    struct cublaslt library;
    remat_status status = cublaslt_open(ctx, nullptr, CUDA_VERSION, &library);
    std::printf("%s\n", status ? remat_context_message(ctx) : "cuBLASLt has every function");
    if (CUDA_STREAM_LEGACY != CU_STREAM_LEGACY || CUDA_STREAM_PER_THREAD != CU_STREAM_PER_THREAD)
        return 1;
    bool absent = status && std::strstr(remat_context_message(ctx), "cannot open");
    if (!status)
        cublaslt_close(&library);
    remat_context_destroy(&ctx);
    return absent ? 77 : status != 0;
}
