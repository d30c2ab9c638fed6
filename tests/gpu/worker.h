/* SPDX-License-Identifier: Apache-2.0 */
/* The programs of gpu_worker: their files are compiled with these names for main. */
#ifndef TESTS_GPU_WORKER_H
#define TESTS_GPU_WORKER_H

#include "cuda_api.h"

int run_main(int argc, char **argv);         /* tools/run */
int session_main(int argc, char **argv);     /* tests/bench/bench_session.c */
int conformance_main(int argc, char **argv); /* tests/cuda/conformance.c */
int samples_main(int argc, char **argv);     /* tests/emulator/test_samples.c */
int attention_main(int argc, char **argv);   /* tests/emulator/test_attention.c */
int named_main(int argc, char **argv);       /* tests/emulator/test_builtin.c */

/* products.c, probe.c */
int products_main(int argc, char **argv);
int copy_main(int argc, char **argv);
int probe_main(int argc, char **argv);

/* The first GPU, its context current until the process ends. */
struct gpu {
    remat_context *ctx;
    struct cuda_driver driver;
};

/* Ends the process: exit code 77 and one line where there is no GPU. `libraries`: a folder or "-".
 */
void gpu_open(struct gpu *gpu, const char *libraries);
void gpu_close(struct gpu *gpu);
/* Ends the process with exit code 1 and the message unless the status is 0. */
void gpu_must(const struct gpu *gpu, remat_status status);
#define GPU_MUST(gpu, function, ...)                                                               \
    gpu_must(gpu, cuda_check((gpu)->ctx, &(gpu)->driver, (gpu)->driver.function(__VA_ARGS__),      \
                             #function))

/* Milliseconds on the GPU that `turns` runs of `run` take, after one that does not count. */
float gpu_time(const struct gpu *gpu, int turns, void *stream,
               void (*run)(const void *data, void *stream), const void *data);

#endif
