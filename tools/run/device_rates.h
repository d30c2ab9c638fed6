/* SPDX-License-Identifier: Apache-2.0 */
/* Times of commands to the rates of a device description with which their prices
 * (compiler/kernels/price.h) come nearest to them. */
#ifndef REMAT_TOOLS_RUN_DEVICE_RATES_H
#define REMAT_TOOLS_RUN_DEVICE_RATES_H

#include <stddef.h>
#include <stdint.h>

/* Plans that remat-compile makes when remat-run is built (probes.py, meson.build). */
enum {
    PROBE_FP32,   /* a layer of a GPT-2, and its loss */
    PROBE_BF16,   /* of a Llama */
    PROBE_NARROW, /* as PROBE_FP32, of fewer dimensions a head */
    PROBE_SHORT,  /* as PROBE_FP32, of fewer keys */
    PROBE_MEASURED,
    PROBE_COMMAND = PROBE_MEASURED, /* nothing but commands: tensors of a few elements */
    PROBE_COUNT
};

struct probe {
    const char *name;
    const void *plan;
    size_t bytes;
};
extern const struct probe probes[PROBE_COUNT];

enum timed_kind { TIMED_ATTENTION, TIMED_ATTENTION_BACKWARD, TIMED_MATMUL, TIMED_FUSED };

struct timed { /* a command */
    enum timed_kind kind;
    double flops, bytes, ns; /* without its launch */
    double keys, depth;      /* of attention: the mean number that a query sees, of a head */
};

struct timings {
    struct timed *items;
    uint32_t count;
};

struct attention_rate { /* as in a description */
    double efficiency, half_keys;
};

struct rates {
    double memory, pointwise;           /* bytes, flops a nanosecond */
    double matmul_fp32, matmul_bf16;    /* flops a nanosecond */
    struct attention_rate attention[2]; /* forward, backward */
    double half_width;
};

/* Each probe that is measured has commands of all kinds. */
void rates_fit(const struct timings timings[PROBE_MEASURED], struct rates *out);

#endif
