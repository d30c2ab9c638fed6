/* SPDX-License-Identifier: Apache-2.0 */
/* NVIDIA's libraries as the CUDA device sees them: opened with dlopen, so that remat builds and
 * starts without them. Prototypes are in driver.def and cublaslt.def; tests/cuda compares all that
 * is written here with NVIDIA's headers where these are installed. */
#ifndef REMAT_CUDA_API_H
#define REMAT_CUDA_API_H

#include "base.h"

#define CUDA_DRIVER_VERSION_MIN 12000 /* 1000 major + 10 minor */

enum cuda_constants { /* of cuda.h, by its names without the prefix */
                      CUDA_DEVICE_MULTIPROCESSOR_COUNT = 16,
                      CUDA_DEVICE_COMPUTE_CAPABILITY_MAJOR = 75,
                      CUDA_DEVICE_COMPUTE_CAPABILITY_MINOR = 76,
                      CUDA_LIMIT_STACK_SIZE = 0,
                      CUDA_STREAM_NON_BLOCKING = 1,
                      CUDA_STREAM_CAPTURE_MODE_THREAD_LOCAL = 1,
                      CUDA_EVENT_DEFAULT = 0,
                      CUDA_EVENT_DISABLE_TIMING = 2,
                      CUDA_FUNC_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8,
                      CUDA_OUT_OF_MEMORY = 2,
                      CUDA_NO_DEVICE = 100,
                      CUDA_NOT_READY = 600,
                      CUDA_STREAM_CAPTURE_IMPLICIT = 906,
};
#define CUDA_STREAM_LEGACY     ((void *)0x1) /* NULL is the same */
#define CUDA_STREAM_PER_THREAD ((void *)0x2)

enum cublaslt_constants { /* of cublasLt.h and what it includes */
                          CUBLASLT_ALLOC_FAILED = 3,
                          CUBLASLT_R_32F = 0,
                          CUBLASLT_R_16BF = 14,
                          CUBLASLT_COMPUTE_32F = 68,
                          CUBLASLT_OP_T = 1,
                          CUBLASLT_DESC_TRANSA = 3,
                          CUBLASLT_DESC_TRANSB = 4,
                          CUBLASLT_LAYOUT_BATCH_COUNT = 5,
                          CUBLASLT_LAYOUT_STRIDED_BATCH_OFFSET = 6,
                          CUBLASLT_PREF_MAX_WORKSPACE_BYTES = 1,
                          CUBLASLT_PREF_REDUCTION_SCHEME_MASK = 3,
                          CUBLASLT_PREF_MIN_ALIGNMENT_A_BYTES = 5,
                          CUBLASLT_PREF_MIN_ALIGNMENT_B_BYTES = 6,
                          CUBLASLT_PREF_MIN_ALIGNMENT_C_BYTES = 7,
                          CUBLASLT_PREF_MIN_ALIGNMENT_D_BYTES = 8,
                          CUBLASLT_REDUCTION_COMPUTE_TYPE = 2,
};

struct cublaslt_algorithm {
    uint64_t data[8];
};
struct cublaslt_choice { /* what a heuristic or a check says of an algorithm */
    struct cublaslt_algorithm algorithm;
    size_t workspace_bytes;
    int state; /* 0: usable */
    float waves;
    int reserved[4];
};

struct cuda_driver {
    void *library;
    int version; /* that the driver supports, 1000 major + 10 minor */
#define FUNCTION(symbol, ...) int (*symbol)(__VA_ARGS__);
#include "driver.def"
#undef FUNCTION
};

struct cublaslt {
    void *library;
    uint64_t version;
    size_t (*cublasLtGetVersion)(void);
#define FUNCTION(symbol, ...) int (*symbol)(__VA_ARGS__);
#include "cublaslt.def"
#undef FUNCTION
};

/* NVTX, for profilers; every member is NULL where it is not installed. */
struct cuda_nvtx {
    void *library;
    int (*nvtxRangePushA)(const char *);
    int (*nvtxRangePop)(void);
};

/* A library of NVIDIA's in `folder`, or NULL as above; NULL: it is not there. It stays. */
void *cuda_library_open(const char *folder, const char *soname);
/* `result` becomes the address of a function; a pointer to an object is one to a function here. */
bool cuda_library_find(void *library, const char *symbol, void *result);

/* Opens libcuda.so.1, in `folder` where that has one (NULL: nowhere), else where the system's
 * loader looks, and initialises it. REMAT_ERROR_IO with what to do when there is none, it is too
 * old, or no GPU is there. */
remat_status cuda_driver_open(remat_context *ctx, const char *folder, struct cuda_driver *out);
void cuda_driver_close(struct cuda_driver *driver); /* harmless when closed */

/* The GPU's primary context, for cuDevicePrimaryCtxRelease_v2 to give back, or what the driver
 * returned. A context that nobody had made has stacks of a quarter of the usual size: the driver
 * sets them aside for every thread that the GPU can hold, 277 MB of an H100 otherwise. Kernels
 * that need more, by what their code says, get it from the driver when they are launched. */
int cuda_context_retain(const struct cuda_driver *driver, int ordinal, void **context);

/* Opens libcublasLt.so.13 or .12, the newest that the driver supports; in `folder`, or NULL as
 * above. REMAT_ERROR_IO. */
remat_status cublaslt_open(remat_context *ctx, const char *folder, int driver_version,
                           struct cublaslt *out);
void cublaslt_close(struct cublaslt *library);

/* In `folder` where that has it (NULL: nowhere), else where the system's loader looks. */
void cuda_nvtx_open(const char *folder, struct cuda_nvtx *out);
void cuda_nvtx_close(struct cuda_nvtx *nvtx);

struct cuda_fault { /* "CUDA_ERROR_NAME (its text)" */
    char text[200];
};
struct cuda_fault cuda_fault_of(const struct cuda_driver *driver, int result);

/* OK for result 0; else stores "`what`: NAME (text)" and returns REMAT_ERROR_OTHER, or
 * REMAT_ERROR_MEMORY with what to do. */
remat_status cuda_check(remat_context *ctx, const struct cuda_driver *driver, int result,
                        const char *what);
#define CUDA_TRY(ctx, driver, function, ...)                                                       \
    REMAT_TRY(cuda_check((ctx), (driver), (driver)->function(__VA_ARGS__), #function))

#endif
