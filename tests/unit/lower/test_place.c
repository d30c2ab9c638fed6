/* SPDX-License-Identifier: Apache-2.0 */
/* Calls on one line, by hand: a buffer that lives on in the next call, and calls that share
 * nothing. */
#include "check.h"
#include "place.h"

#include <inttypes.h>

/* In points of the whole line, from the definition. */
static void check_apart(const struct remat_lifespans *a, const struct remat_lifespans *b)
{
    for (uint32_t i = 0; i < a->buffer_count; i++)
        for (uint32_t j = 0; j < b->buffer_count; j++) {
            const struct remat_placed_buffer *x = &a->buffers[i], *y = &b->buffers[j];
            bool together = a->first_point + x->begin < b->first_point + y->end &&
                            b->first_point + y->begin < a->first_point + x->end;
            CHECK(x == y || !together || x->offset_bytes + x->bytes <= y->offset_bytes ||
                      y->offset_bytes + y->bytes <= x->offset_bytes,
                  "buffers %u and %u", i, j);
        }
}

#define TRANSIENT(begin_point, end_point, size)                                                    \
    {                                                                                              \
        .begin = (begin_point), .end = (end_point), .bytes = (size), .persistent = REMAT_NO_TENSOR \
    }

int main(void)
{
    remat_context *ctx = remat_context_create(NULL, NULL);
    struct remat_arena arena;
    remat_arena_init(&arena, ctx);
    struct remat_persistent_tensor tensors[] = {{NULL, 0, 200}, {NULL, 256, 700}};
    const struct remat_persistent persistent = {.items = tensors, .count = 2, .total_bytes = 1024};
    /* Live bytes: 1024, 3072, 2048 in the first call; 2560, 2560, 2048, 1536 in the second if the
     * buffer of 2048 lives until its point 2. */
    struct remat_placed_buffer first[] = {
        {.begin = 0, .end = 3, .bytes = 700, .persistent = {1}},
        TRANSIENT(0, 2, 1000),
        TRANSIENT(1, 5, 2048),
    };
    struct remat_placed_buffer second[] = {TRANSIENT(0, 3, 512), TRANSIENT(2, 4, 1500)};
    struct remat_lifespans a = {.points = 3, .buffers = first, .buffer_count = 3};
    struct remat_lifespans b = {.points = 4, .buffers = second, .buffer_count = 2};
    struct remat_lifespans *const calls[] = {&a, &b};
    uint64_t bytes;
    CHECK_OK(ctx, remat_place(ctx, &persistent, calls, 2, &bytes));
    CHECK(a.first_point == 0 && b.first_point == 3, "the line: %u, %u", a.first_point,
          b.first_point);
    CHECK(first[0].offset_bytes == 256, "the persistent one: %" PRIu64, first[0].offset_bytes);
    CHECK(bytes == 1024 + 3072, "%" PRIu64, bytes);
    check_apart(&a, &a);
    check_apart(&a, &b);
    check_apart(&b, &b);
    first[2].end = 3; /* nothing lives between the calls */
    CHECK_OK(ctx, remat_place(ctx, &persistent, calls, 2, &bytes));
    uint64_t one = remat_packed_bytes(ctx, &persistent, &a);
    uint64_t other = remat_packed_bytes(ctx, &persistent, &b);
    for (uint32_t i = 0; i < b.buffer_count; i++)
        CHECK(second[i].offset_bytes + second[i].bytes <= other, "buffer %u, as alone", i);
    CHECK(bytes == one && one > other, "%" PRIu64 " of %" PRIu64 " and %" PRIu64, bytes, one,
          other);
    remat_arena_release(&arena);
    remat_context_destroy(&ctx);
    return check_exit();
}
