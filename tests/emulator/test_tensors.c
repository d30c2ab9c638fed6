/* SPDX-License-Identifier: Apache-2.0 */
/* AdamW, with and without fp32 masters, and SGD of many tensors (tensors.h): lengths around
 * vectors, tiles and blocks, more tensors than a launch holds, and places that are not aligned.
 *
 *     test_tensors COMPILER */
#include "check.h"
#include "tensors.h"

#include <stdio.h>
#include <stdlib.h>

#define COUNT(array) (uint32_t)(sizeof array / sizeof *array)

/* The largest bf16, which AdamW's square makes infinite; minus infinity, NaN. */
static const uint32_t spoilt[] = {0x7f7f0000u, 0xff800000u, 0x7fc00000u};

static uint32_t largest_group(const struct tensors *t)
{
    uint32_t most = 0;
    for (uint32_t g = 0; g < t->groups.count; g++) {
        uint32_t size = t->groups.begin[g + 1] - t->groups.begin[g];
        most = size > most ? size : most;
    }
    return most;
}

/* Launches and tensors of the largest are expected. */
static void test(const char *compiler, enum tensors_update update, uint32_t count,
                 const int64_t *lengths, uint32_t length_count, const uint64_t *offsets,
                 uint32_t offset_count, uint32_t launches, uint32_t most)
{
    remat_context *ctx = remat_context_create(NULL, NULL);
    struct remat_arena arena;
    struct tensors t;
    remat_arena_init(&arena, ctx);
    tensors_make(ctx, &arena, update, count, lengths, length_count, offsets, offset_count, &t);
    char *text = kernels_text(&t.program.cuda);
    void *library = kernels_compile(compiler, text);
    const char *fault = tensors_run(&t, library, 3);
    bool flagged = tensors_flag(&t) == 0;
    for (uint32_t k = update != TENSORS_SGD; k < COUNT(spoilt) && !fault; k++) {
        tensors_spoil(ctx, &t, (k * k + k) * count / 7, spoilt[k]);
        flagged &= tensors_flag(&t) == (k > 0);
        fault = tensors_run(&t, library, 1);
    }
    uint32_t found = t.program.cuda.launch_count - t.groups.begin[t.groups.count] + t.groups.count;
    printf("%s: %u tensors, %u kernels, %u launches, %u of one at most: %s\n",
           t.program.kernels[0].key, count, t.program.cuda.kernel_count, found, largest_group(&t),
           fault ? fault : "ok");
    CHECK(!fault && flagged, "%s", fault ? fault : "the flag is wrong");
    CHECK(found == launches && largest_group(&t) == most, "%u launches, %u at most", found,
          largest_group(&t));
    kernels_close(library);
    free(text);
    tensors_release(&t);
    remat_arena_release(&arena);
    remat_context_destroy(&ctx);
}

int main(int argc, char **argv)
{
    static const int64_t edges[] = {2,    3,    5,    7,    8,    9,    31,   32,   33,
                                    255,  256,  257,  1021, 1023, 1024, 1025, 2039, 2047,
                                    2048, 2049, 2056, 4093, 4095, 4096, 4097, 6151};
    static const int64_t with_one[] = {1, 64, 1, 2048, 100}, even[] = {64, 768, 8, 2304};
    static const uint64_t none[] = {0}, odd[] = {0, 1, 4, 0, 8, 2};
    const char *compiler = argv[1];
    (void)argc;
    /* Lengths that vectors divide and others are two kernels; (512 - 5) / 9 and / 10 tensors fit,
     * of SGD's (512 - 3) / 5. */
    test(compiler, TENSORS_ADAMW, 26, edges, 26, none, 1, 2, 19);
    test(compiler, TENSORS_ADAMW_MASTER, 26, edges, 26, none, 1, 2, 19);
    test(compiler, TENSORS_SGD, 26, edges, 26, none, 1, 2, 19);
    test(compiler, TENSORS_ADAMW, 113, even, 4, none, 1, 3, 56);
    test(compiler, TENSORS_ADAMW_MASTER, 101, even, 4, none, 1, 3, 50);
    test(compiler, TENSORS_SGD, 103, even, 4, none, 1, 2, 101);
    test(compiler, TENSORS_ADAMW_MASTER, 10, with_one, 5, none, 1, 6, 4);
    test(compiler, TENSORS_ADAMW_MASTER, 24, even, 4, odd, 6, 4, 12);
    return check_exit();
}
