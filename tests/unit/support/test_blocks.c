/* SPDX-License-Identifier: Apache-2.0 */
/* Within a guard the blocks of a scratch arena that is closed serve those that are opened next; the
 * spare ones add nothing to the peak, and none is left after the guard. */
#include "check.h"
#include "unwind.h"

#include <stdlib.h>

enum { ARRAY_BYTES = 3 << 20, ROUNDS = 5 };

struct memory { /* what an allocator has given; each block begins with its size */
    uint64_t bytes, peak_bytes;
    uint32_t calls;
};

static void *reallocate(void *user, void *block, size_t bytes)
{
    struct memory *m = user;
    size_t *old = block ? (size_t *)block - 2 : NULL;
    m->bytes += bytes - (old ? *old : 0);
    m->peak_bytes = m->bytes > m->peak_bytes ? m->bytes : m->peak_bytes;
    m->calls += bytes > 0;
    if (bytes == 0) {
        free(old);
        return NULL;
    }
    size_t *made = realloc(old, bytes + 2 * sizeof *made);
    MUST(made);
    *made = bytes;
    return made + 2;
}

static void fill(remat_context *ctx, uint32_t bytes)
{
    struct remat_arena *scratch = remat_scratch_open(ctx);
    char *array;
    for (uint32_t k = 0; k < 3; k++) {
        REMAT_NEW(scratch, array, bytes);
        for (uint32_t i = 0; i < bytes; i += 4096)
            CHECK(array[i] == 0, "byte %u of a new array is %d", i, array[i]);
        memset(array, 1, bytes);
    }
    remat_scratch_close(scratch);
}

static remat_status test(void *user)
{
    remat_context *ctx = user;
    struct memory *m = ctx->allocator.user;
    fill(ctx, ARRAY_BYTES);
    uint32_t calls = m->calls;
    uint64_t peak_bytes = m->peak_bytes;
    for (uint32_t round = 0; round < ROUNDS; round++)
        fill(ctx, ARRAY_BYTES - (round << 12));
    CHECK(m->calls == calls + ROUNDS, "%u allocations for %u scratch arenas", m->calls - calls,
          ROUNDS);
    CHECK(m->peak_bytes == peak_bytes, "the peak rose from %llu B to %llu B",
          (unsigned long long)peak_bytes, (unsigned long long)m->peak_bytes);
    fill(ctx, 8 * ARRAY_BYTES); /* blocks that are too small make room */
    CHECK(m->peak_bytes < (3 * 8 + 3) * (uint64_t)ARRAY_BYTES, "the peak is %llu B",
          (unsigned long long)m->peak_bytes);
    return REMAT_OK;
}

int main(void)
{
    struct memory memory = {0};
    const remat_allocator allocator = {reallocate, &memory};
    remat_context *ctx = remat_context_create(&allocator, NULL);
    uint64_t before_bytes = memory.bytes;
    MUST_OK(ctx, remat_guard(ctx, test, ctx));
    CHECK(memory.bytes == before_bytes, "%llu B are left behind the guard",
          (unsigned long long)(memory.bytes - before_bytes));
    remat_context_destroy(&ctx);
    return check_exit();
}
