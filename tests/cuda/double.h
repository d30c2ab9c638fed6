/* SPDX-License-Identifier: Apache-2.0 */
/* Doubles of NVIDIA's libraries, for tests of the CUDA device without a GPU: libcuda.so.1 runs
 * launches in the emulator (tests/emulator), libnvrtc.so.13 and .12 keep the text as their cubin,
 * libcublasLt.so.13 and .12 multiply in plain loops, libnccl.so.2 moves bytes as files. The device
 * code and the tools are what a GPU runs. libnvtx3interop.so.1 lists ranges.
 *
 * Work is queued and done when somebody waits for its stream or an event on it, so that a missing
 * wait and a wrong stream show; the legacy stream waits for all blocking streams, and they for it.
 * What hardware refuses is refused: allocations, loading, waits and heuristics while the thread
 * captures (which ends the capture), captures of the legacy stream, the legacy stream while a
 * blocking stream captures, waits between what a capture has and what it has not, a stream that
 * joined one and is not waited for at its end, blocks of more threads than the kernel is compiled
 * for. And what a real driver may let pass is an error here: a call without the context, a handle
 * that is unknown, destroyed or of another kind, a blocking stream, a kernel captured before it
 * ever ran, an access outside live allocations or on another GPU, a wait that has no end while a
 * transfer between ranks is not done, anything still alive when the context is released. It is said
 * on standard error; the codes below end the process.
 *
 * The environment of a test:
 *     REMAT_DOUBLE_COMPILER    C compiler for kernels (cc)
 *     REMAT_DOUBLE_CACHE       a folder that keeps compiled kernels
 *     REMAT_DOUBLE_DRIVER      version that the driver supports (13000)
 *     REMAT_DOUBLE_NAME        of the GPU (NVIDIA H200)
 *     REMAT_DOUBLE_CAPABILITY  of the GPU, as 90 (90); 0: no GPU
 *     REMAT_DOUBLE_GPUS        how many there are (1)
 *     REMAT_DOUBLE_MEMORY      bytes of each GPU (134217728)
 *     REMAT_DOUBLE_SPLITS      parts of K in the algorithm that cuBLASLt's heuristic chooses (1)
 *     REMAT_DOUBLE_CUBLASLT    version of cuBLASLt (130100)
 *     REMAT_DOUBLE_PRODUCT     bytes that cuBLASLt takes at its first product (65536)
 *     REMAT_DOUBLE_GRAPH       bytes that an executable graph takes (65536)
 *     REMAT_DOUBLE_LEAK        bytes that each launch of a graph loses (0)
 *     REMAT_DOUBLE_FAIL        FUNCTION:RESULT: that function of the driver or cuBLASLt fails so,
 *                              and the thread's captures with it
 *     REMAT_DOUBLE_BLOCKING    1: blocking streams may be made, and captured
 *     REMAT_DOUBLE_DRY         a file: launches, products, fills and copies are only written
 *                              there, a line each (dry.c); kernels are not compiled, memory is
 *                              not touched
 *     REMAT_DOUBLE_NCCL        the folder in which NCCL's ranks meet (/tmp)
 *     REMAT_DOUBLE_NCCL_VERSION  as ncclGetVersion has it (22809)
 *     REMAT_DOUBLE_NCCL_BYTES  of the GPU that a communicator takes when it is first used (262144)
 *     REMAT_DOUBLE_NCCL_BREAK  RANK:N: that rank's NCCL says after N groups that another is gone
 *     REMAT_DOUBLE_NCCL_STOP   RANK:N: that rank's GPU does nothing more after N groups
 *     REMAT_DOUBLE_NVTX        a file that gets the ranges of NVTX's double
 *     REMAT_DOUBLE_LOG         a file that gets a line for each launch of a graph */
#ifndef TESTS_CUDA_DOUBLE_H
#define TESTS_CUDA_DOUBLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { DOUBLE_MISUSE = 97, DOUBLE_OUTSIDE, DOUBLE_LEAK }; /* exit codes */

#define DOUBLE_OPERATION_NS 1000 /* what events see of each launch, product, copy or fill */

#define DOUBLE_CUBIN "remat's double of a cubin, CUDA %d, sm_%d\n" /* what the text follows */

/* For the other doubles: queues run(data) on a stream; `data` is copied. */
typedef int double_enqueue(void *stream, void (*run)(const void *data), const void *data,
                           size_t bytes);
/* The same for what stands until it could be done, and is tried again until then. */
typedef int double_enqueue_try(void *stream, bool (*try)(const void *data), const void *data,
                               size_t bytes);
/* Takes memory that nobody addresses, gives it back where negative; false when it is not there. */
typedef bool double_charge_memory(long bytes);
/* Stops the process, saying what, unless the bytes lie in one live allocation. */
typedef void double_check_memory(const void *begin, size_t bytes, const char *what);
/* Whether the thread captures, so that `call` must fail; its capture is lost then. */
typedef bool double_refuse_capture(const char *call);
/* Whether an executable graph of the current GPU has transfers. */
typedef bool double_find_graph(void);
/* Ends the process for `what` the call was given. */
typedef void double_end_process(const char *call, const char *what);

#endif
