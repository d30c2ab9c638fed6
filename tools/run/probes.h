/* SPDX-License-Identifier: Apache-2.0 */
/* Plans that remat-compile makes when remat-run is built (probes.py, meson.build). */
#ifndef REMAT_TOOLS_RUN_PROBES_H
#define REMAT_TOOLS_RUN_PROBES_H

#include <stddef.h>

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

#endif
