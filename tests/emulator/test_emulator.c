/* SPDX-License-Identifier: Apache-2.0 */
/* The emulator itself: every wrong kernel of wrong_kernels.def is refused, threads and blocks in
 * order with the message of its check, and in random orders; its correct twin is not.
 *
 *     test_emulator COMPILER */
#include "check.h"
#include "kernels.h"

#include <stdio.h>
#include <stdlib.h>

#define BYTES  7168 /* that the emulator knows of, with 1024 after them */
#define ORDERS 6

static const struct wrong {
    const char *what, *message;
    uint32_t blocks, threads, shared_bytes;
    const char *bodies[2]; /* wrong, right */
} wrongs[] = {
#define WRONG(what, message, blocks, threads, bytes, wrong, right)                                 \
    {what, message, blocks, threads, bytes, {wrong, right}},
#include "wrong_kernels.def"
#undef WRONG
};
#define WRONGS (sizeof wrongs / sizeof *wrongs)

static const struct wrong_launch {
    const char *message;
    uint32_t threads, shared_bytes;
} wrong_launches[] = {{NULL, 32, 101376},
                      {"more shared memory than a block can have", 32, 101380},
                      {NULL, 1024, 0},
                      {"threads that are not whole warps, at most 1024", 1056, 0},
                      {"threads that are not whole warps, at most 1024", 48, 0},
                      {"threads that are not whole warps, at most 1024", 0, 0}};

static char *memory;
static struct emulator *emulator;

/* wrong_0, right_0, wrong_1, ... */
static void *compile(remat_context *ctx, const char *compiler)
{
    struct remat_arena arena;
    remat_arena_init(&arena, ctx);
    struct remat_text text = {.arena = &arena};
    for (uint32_t w = 0; w < WRONGS; w++)
        for (uint32_t right = 0; right < 2; right++)
            remat_text_append(&text,
                              "KERNEL(%s_%u, %u)\n{\n"
                              "const u32 t = thread_index(), block = block_index();\n"
                              "u8 *const in = (u8 *)arguments.word[0], *const out = in + 2048;\n"
                              "u8 *const both = in + 4096, *const beyond = in + 6144;\n"
                              "%s\n}\n",
                              right ? "right" : "wrong", w, wrongs[w].threads,
                              wrongs[w].bodies[right]);
    void *library = kernels_compile(compiler, text.items);
    remat_arena_release(&arena);
    return library;
}

/* NULL, or what the emulator says. */
static const char *run(emulator_kernel *kernel, uint32_t blocks, uint32_t threads,
                       uint32_t shared_bytes, uint64_t order)
{
    const struct emulator_range ranges[] = {{memory + 1024, memory + 2048, true, false},
                                            {memory + 3072, memory + 4096, false, true},
                                            {memory + 5120, memory + 6144, true, true},
                                            {memory + 7168, memory + 8192, true, true}};
    const struct emulator_launch launch = {.kernel = kernel,
                                           .arguments.word[0] = (uintptr_t)(memory + 1024),
                                           .blocks = blocks,
                                           .threads = threads,
                                           .shared_bytes = shared_bytes,
                                           .ranges = ranges,
                                           .range_count = 4,
                                           .order = order};
    return emulator_run(emulator, &launch);
}

static void test_kernel(const struct wrong *wrong, emulator_kernel *kernel, bool right)
{
    for (uint64_t order = 0; order < ORDERS; order++) {
        const char *fault =
            run(kernel, wrong->blocks, wrong->threads, wrong->shared_bytes, order * 77);
        bool expected =
            right ? !fault : fault && (order > 0 || strstr(fault, wrong->message) != NULL);
        CHECK(expected, "%s, %s, order %u: %s", wrong->what, right ? "right" : "wrong",
              (uint32_t)order, fault ? fault : "not refused");
    }
}

static void test_launch(const struct wrong_launch *launch, emulator_kernel *kernel)
{
    const char *fault = run(kernel, 1, launch->threads, launch->shared_bytes, 0);
    bool expected = launch->message ? fault && strcmp(fault, launch->message) == 0 : !fault;
    CHECK(expected, "%u threads, %u bytes of shared memory: %s", launch->threads,
          launch->shared_bytes, fault ? fault : "not refused");
}

static void nothing(const struct arguments *arguments)
{
    (void)arguments;
}

int main(int argc, char **argv)
{
    (void)argc;
    remat_context *ctx = remat_context_create(NULL, NULL);
    void *library = compile(ctx, argv[1]);
    memory = aligned_alloc(1024, 8192);
    memset(memory, 0, 8192);
    emulator = emulator_create(memory, BYTES);
    for (uint32_t w = 0; w < WRONGS; w++)
        for (uint32_t right = 0; right < 2; right++) {
            char name[32];
            snprintf(name, sizeof name, "%s_%u", right ? "right" : "wrong", w);
            test_kernel(&wrongs[w], kernels_find(library, name), right);
        }
    for (uint32_t l = 0; l < sizeof wrong_launches / sizeof *wrong_launches; l++)
        test_launch(&wrong_launches[l], nothing);
    emulator_destroy(&emulator);
    free(memory);
    kernels_close(library);
    remat_context_destroy(&ctx);
    printf("%u wrong kernels\n", (uint32_t)WRONGS);
    return check_exit();
}
