/* SPDX-License-Identifier: Apache-2.0 */
/* A product of bf16 matrices by cuBLASLt: the first choice of its heuristic, which the CUDA device
 * takes, beside the fastest of eight.
 *
 *     gpu_products LIBRARIES TURNS TRANSPOSES M N K LDA LDB LDD
 *
 * in cuBLASLt's terms: column-major, TRANSPOSES as "TN". Operands are random, never zero. Prints
 * JSON; times are means of TURNS runs, "best" counts usable choices from 0. */
#include "worker.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define CHOICES     8
#define WORKSPACE   (UINT64_C(32) << 20)
#define BLOCK_BYTES (UINT64_C(16) << 20) /* of random numbers, again and again */

struct product {
    const struct gpu *gpu;
    struct cublaslt lt;
    void *handle, *description, *layouts[3]; /* A, B, D */
    uint64_t operands[3], workspace;
    const struct cublaslt_algorithm *algorithm;
};

static void lt_must(int result, const char *what)
{
    if (result == 0)
        return;
    printf("FAILED cuBLASLt: %s: status %d\n", what, result);
    exit(1);
}
#define LT_MUST(p, function, ...) lt_must((p)->lt.function(__VA_ARGS__), #function)

static void run_product(const void *data, void *stream)
{
    const struct product *p = data;
    const float one = 1, zero = 0;
    void *address[3];
    memcpy(address, p->operands, sizeof address);
    LT_MUST(p, cublasLtMatmul, p->handle, p->description, &one, address[0], p->layouts[0],
            address[1], p->layouts[1], &zero, address[2], p->layouts[2], address[2], p->layouts[2],
            p->algorithm, (void *)(uintptr_t)p->workspace, WORKSPACE, stream);
}

/* Of either sign, from an eighth to two. */
static uint64_t make_operand(const struct gpu *gpu, uint64_t bytes, void *stream)
{
    static uint16_t block[BLOCK_BYTES / sizeof(uint16_t)];
    uint64_t address, state = 1;
    for (size_t i = 0; i < sizeof block / sizeof *block && !block[i]; i++) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        block[i] = (uint16_t)(0x3e00 | (state >> 40 & 0x81ff));
    }
    GPU_MUST(gpu, cuMemAlloc_v2, &address, bytes);
    for (uint64_t done = 0; done < bytes; done += BLOCK_BYTES)
        GPU_MUST(gpu, cuMemcpyHtoDAsync_v2, address + done, block,
                 bytes - done < BLOCK_BYTES ? bytes - done : BLOCK_BYTES, stream);
    GPU_MUST(gpu, cuStreamSynchronize, stream);
    return address;
}

/* As the CUDA device describes it. */
static void describe(struct product *p, const char *transposes, const uint64_t size[3],
                     const uint64_t leading[3], void *stream)
{
    const int32_t transpose = CUBLASLT_OP_T;
    const uint64_t shapes[3][2] = {{size[0], size[2]}, {size[2], size[1]}, {size[0], size[1]}};
    LT_MUST(p, cublasLtCreate, &p->handle);
    LT_MUST(p, cublasLtMatmulDescCreate, &p->description, CUBLASLT_COMPUTE_32F, CUBLASLT_R_32F);
    for (int o = 0; o < 3; o++) {
        bool transposed = o < 2 && transposes[o] == 'T';
        uint64_t rows = shapes[o][transposed], columns = shapes[o][!transposed];
        if (transposed)
            LT_MUST(p, cublasLtMatmulDescSetAttribute, p->description,
                    o ? CUBLASLT_DESC_TRANSB : CUBLASLT_DESC_TRANSA, &transpose, sizeof transpose);
        LT_MUST(p, cublasLtMatrixLayoutCreate, &p->layouts[o], CUBLASLT_R_16BF, rows, columns,
                (int64_t)leading[o]);
        p->operands[o] = make_operand(p->gpu, 2 * leading[o] * columns, stream);
    }
    GPU_MUST(p->gpu, cuMemAlloc_v2, &p->workspace, WORKSPACE);
}

static int choose(const struct product *p, struct cublaslt_choice choices[CHOICES])
{
    const uint64_t workspace = WORKSPACE;
    const uint32_t reductions = CUBLASLT_REDUCTION_COMPUTE_TYPE;
    void *preference;
    int count = 0;
    LT_MUST(p, cublasLtMatmulPreferenceCreate, &preference);
    LT_MUST(p, cublasLtMatmulPreferenceSetAttribute, preference, CUBLASLT_PREF_MAX_WORKSPACE_BYTES,
            &workspace, sizeof workspace);
    LT_MUST(p, cublasLtMatmulPreferenceSetAttribute, preference,
            CUBLASLT_PREF_REDUCTION_SCHEME_MASK, &reductions, sizeof reductions);
    LT_MUST(p, cublasLtMatmulAlgoGetHeuristic, p->handle, p->description, p->layouts[0],
            p->layouts[1], p->layouts[2], p->layouts[2], preference, CHOICES, choices, &count);
    p->lt.cublasLtMatmulPreferenceDestroy(preference);
    return count;
}

static void release(struct product *p, void *stream)
{
    GPU_MUST(p->gpu, cuMemFree_v2, p->workspace);
    for (int o = 0; o < 3; o++) {
        GPU_MUST(p->gpu, cuMemFree_v2, p->operands[o]);
        p->lt.cublasLtMatrixLayoutDestroy(p->layouts[o]);
    }
    p->lt.cublasLtMatmulDescDestroy(p->description);
    p->lt.cublasLtDestroy(p->handle);
    cublaslt_close(&p->lt);
    GPU_MUST(p->gpu, cuStreamDestroy_v2, stream);
}

static void measure(struct product *p, int turns, double flops, void *stream)
{
    struct cublaslt_choice choices[CHOICES] = {0};
    int count = choose(p, choices), used = 0, best = 0;
    float first_ms = 0, best_ms = 0;
    for (int c = 0; c < count; c++) {
        if (choices[c].state != 0 || choices[c].workspace_bytes > WORKSPACE)
            continue;
        p->algorithm = &choices[c].algorithm;
        float ms = gpu_time(p->gpu, turns, stream, run_product, p) / (float)turns;
        first_ms = used == 0 ? ms : first_ms;
        if (used == 0 || ms < best_ms)
            best_ms = ms, best = used;
        used++;
    }
    if (used == 0) {
        printf("FAILED cuBLASLt has no algorithm for it\n");
        exit(1);
    }
    printf("{\"first_ns\": %.0f, \"best_ns\": %.0f, \"best\": %d, \"choices\": %d, "
           "\"flops\": %.0f}\n",
           1e6 * (double)first_ms, 1e6 * (double)best_ms, best, used, flops);
}

int products_main(int argc, char **argv)
{
    uint64_t size[3], leading[3];
    struct gpu gpu;
    struct product product = {.gpu = &gpu};
    void *stream;
    if (argc != 10)
        return 2;
    for (int k = 0; k < 3; k++) {
        size[k] = strtoull(argv[4 + k], NULL, 10);
        leading[k] = strtoull(argv[7 + k], NULL, 10);
    }
    gpu_open(&gpu, argv[1]);
    gpu_must(&gpu, cublaslt_open(gpu.ctx, strcmp(argv[1], "-") != 0 ? argv[1] : NULL,
                                 gpu.driver.version, &product.lt));
    GPU_MUST(&gpu, cuStreamCreate, &stream, CUDA_STREAM_NON_BLOCKING);
    describe(&product, argv[3], size, leading, stream);
    measure(&product, atoi(argv[2]), 2 * (double)size[0] * (double)size[1] * (double)size[2],
            stream);
    release(&product, stream);
    gpu_close(&gpu);
    return 0;
}
