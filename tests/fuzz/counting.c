/* SPDX-License-Identifier: Apache-2.0 */
#include "counting.h"

#include <stdlib.h>

#define HEADER 16 /* holds the size, keeps the alignment */

static void *counting_reallocate(void *user, void *pointer, size_t bytes)
{
    struct counting *c = user;
    char *old = pointer ? (char *)pointer - HEADER : NULL;
    uint64_t old_bytes = 0;
    if (old)
        memcpy(&old_bytes, old, sizeof old_bytes);
    if (bytes == 0) {
        c->live_bytes -= old_bytes;
        free(old);
        return NULL;
    }
    if (++c->calls == c->fail_at)
        return NULL;
    uint64_t live = c->live_bytes - old_bytes + bytes;
    if (c->limit_bytes && live > c->limit_bytes) {
        c->exceeded = true;
        return NULL;
    }
    char *block = realloc(old, HEADER + bytes);
    if (!block)
        return NULL;
    uint64_t size = bytes;
    memcpy(block, &size, sizeof size);
    c->live_bytes = live;
    c->peak_bytes = live > c->peak_bytes ? live : c->peak_bytes;
    return block + HEADER;
}

remat_allocator counting_allocator(struct counting *counting)
{
    return (remat_allocator){counting_reallocate, counting};
}
