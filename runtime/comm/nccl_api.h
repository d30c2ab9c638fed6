/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL's types and numbers as runtime/comm/nccl.c sees them, without its header, against which
 * tests/cuda/nccl_headers.cc holds them. */
#ifndef REMAT_NCCL_API_H
#define REMAT_NCCL_API_H

#include <stddef.h>

struct nccl_id {
    char data[128];
};
struct nccl_config { /* as of 2.14; what later versions added has its default then */
    size_t size;
    unsigned magic, version;
    int blocking;
};

enum nccl_constants {
    NCCL_CHAR = 0, /* a data type of one byte */
    NCCL_REMOTE_ERROR = 6,
    NCCL_IN_PROGRESS = 7,
    NCCL_CONFIG_VERSION = 21400, /* 10000 major + 100 minor + patch */
};
#define NCCL_CONFIG_MAGIC 0xcafebeefu

#endif
