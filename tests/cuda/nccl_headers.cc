// SPDX-License-Identifier: Apache-2.0
// What runtime/comm says of NCCL without its header, held against it at compile time.
#include <nccl.h>

#include "prototypes.h"
#include <cstddef>

#include "nccl_api.h"

#define NCCL_FUNCTION(result, name, ...)                                                           \
    static_assert(                                                                                 \
        same_function(decltype (&nccl##name)(nullptr), (result(*)(__VA_ARGS__)) nullptr), #name);
#include "nccl.def"
#undef NCCL_FUNCTION

static_assert(sizeof(nccl_id) == sizeof(ncclUniqueId));
static_assert(offsetof(nccl_config, size) == offsetof(ncclConfig_t, size));
static_assert(offsetof(nccl_config, magic) == offsetof(ncclConfig_t, magic));
static_assert(offsetof(nccl_config, version) == offsetof(ncclConfig_t, version));
static_assert(offsetof(nccl_config, blocking) == offsetof(ncclConfig_t, blocking));
static_assert(sizeof(nccl_config) <= sizeof(ncclConfig_t));
static_assert(NCCL_CHAR == (int)ncclChar && NCCL_IN_PROGRESS == (int)ncclInProgress);
static_assert(NCCL_REMOTE_ERROR == (int)ncclRemoteError);
static_assert((int)ncclSuccess == 0 && NCCL_CONFIG_VERSION == NCCL_VERSION(2, 14, 0));

int main()
{
    const ncclConfig_t initial = NCCL_CONFIG_INITIALIZER;
    return initial.magic != NCCL_CONFIG_MAGIC;
}
