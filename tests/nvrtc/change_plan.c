/* SPDX-License-Identifier: Apache-2.0 */
/* Changes one thing in the CUDA code of a plan, so that it still passes verification.
 *
 *     change_plan                     lists the cases: a name and what remat-dump --check says
 *     change_plan PLAN CASE CHANGED   writes the plan so changed */
#include "file.h"
#include "program.h"

#include <files.h>
#include <program.h>
#include <stdio.h>

static struct remat_arena arena;
static struct remat_program *program;
static struct remat_cuda_code *code;

/* One byte of a text that others may share. */
static const char *change_byte(const char *text, size_t at)
{
    char *copy = remat_arena_string(&arena, text, strlen(text));
    copy[at] = (char)(copy[at] == 'x' ? 'y' : 'x');
    return copy;
}

static struct remat_cuda_kernel *last_kernel(void)
{
    return &code->kernels[code->kernel_count - 1];
}

static uint32_t find_kernel(bool tensors, uint32_t prelude)
{
    uint32_t k = 0;
    while (k < code->kernel_count - 1 &&
           ((code->kernels[k].tensor_words > 0) != tensors || code->kernels[k].prelude != prelude))
        k++;
    return k;
}

/* Not of a kernel whose launches may be one: what those may have is verified. */
static struct remat_cuda_launch *find_launch(void)
{
    uint32_t l = 0;
    while (l < code->launch_count - 1 && code->kernels[code->launches[l].kernel].tensor_words)
        l++;
    return &code->launches[l];
}

static struct remat_cuda_word *find_word(uint32_t kind)
{
    uint32_t w = 0;
    while (w < code->word_count - 1 && code->words[w].kind != kind)
        w++;
    return &code->words[w];
}

/* A copy of `items` with one more at the end, as the last one is. */
#define GROW(items, item_count)                                                                    \
    do {                                                                                           \
        void *grown_ = remat_arena_array(&arena, code->item_count + 1, sizeof *code->items);       \
        memcpy(grown_, code->items, code->item_count * sizeof *code->items);                       \
        code->items = grown_;                                                                      \
        code->items[code->item_count] = code->items[code->item_count - 1];                         \
        code->item_count++;                                                                        \
    } while (0)

/* The first command that launches something, and one after it, of which the first takes one more.
 */
static void move_launch(void)
{
    uint32_t c = 0;
    while (code->launch_begin[c + 1] == code->launch_begin[c + 2])
        c++;
    code->launch_begin[c + 1]++;
}

static void cut_cubins(uint32_t at)
{
    code->cubin_count--;
    memmove(code->cubins + at, code->cubins + at + 1,
            (code->cubin_count - at) * sizeof *code->cubins);
}

/* CASE(name, what --check says, the change) */
#define CASES                                                                                      \
    CASE(prelude, "prelude 0 differs from line 1 on",                                              \
         code->preludes[0] = change_byte(code->preludes[0], 0))                                    \
    CASE(prelude_end, "prelude 0 differs from line ",                                              \
         code->preludes[0] = change_byte(code->preludes[0], strlen(code->preludes[0]) - 2))        \
    CASE(prelude_more, "preludes, expected ", GROW(preludes, prelude_count))                       \
    CASE(text, "its text differs from line 1 on",                                                  \
         code->kernels[0].text = change_byte(code->kernels[0].text, 0))                            \
    CASE(text_middle, "its text differs from line ",                                               \
         last_kernel()->text = change_byte(last_kernel()->text, strlen(last_kernel()->text) / 2))  \
    CASE(text_end, "its text differs from line ",                                                  \
         last_kernel()->text = change_byte(last_kernel()->text, strlen(last_kernel()->text) - 1))  \
    CASE(key, "kernel 0 is \"x", code->kernels[0].key = change_byte(code->kernels[0].key, 0))      \
    CASE(symbol, ": its function is ",                                                             \
         last_kernel()->symbol = change_byte(last_kernel()->symbol, 3))                            \
    CASE(kernel_prelude, ": prelude: 0, expected 1",                                               \
         code->kernels[find_kernel(false, 1)].prelude = 0)                                         \
    CASE(threads, ": threads: ", last_kernel()->threads = last_kernel()->threads == 32 ? 64 : 32)  \
    CASE(shared, ": shared bytes: ", last_kernel()->shared_bytes ^= 1)                             \
    CASE(tensor_words, ": words of a tensor: 0, expected ",                                        \
         code->kernels[find_kernel(true, 0)].tensor_words = 0)                                     \
    CASE(kernel_more, " kernels, expected ", GROW(kernels, kernel_count))                          \
    CASE(launch_kernel, " is of kernel ", find_launch()->kernel = find_kernel(false, 1))           \
    CASE(blocks, " blocks, expected ", code->launches[code->launch_count - 1].blocks ^= 2)         \
    CASE(words, ": words [", find_launch()->word_end--)                                            \
    CASE(word, "of kind 0, expected ", find_word(REMAT_CUDA_VALUE)[1].value ^= 1)                  \
    CASE(word_address, "of kind 1, expected ", find_word(REMAT_CUDA_ARENA)->value ^= 256)          \
    CASE(word_kind, "of kind 3, expected ", find_word(REMAT_CUDA_ARENA)->kind = REMAT_CUDA_SEED)   \
    CASE(word_more, " words, expected ", GROW(words, word_count))                                  \
    CASE(launch_begin, ": launches [", move_launch())                                              \
    CASE(launch_more, ": launches [", GROW(launches, launch_count);                                \
         code->launch_begin[program->command_count]++)                                             \
    CASE(workspace, "a workspace of ", code->workspace_bytes += REMAT_ALIGNMENT)                   \
    CASE(cubin, "is not of its text", code->cubins[0].data = change_byte(code->cubins[0].data, 0)) \
    CASE(cubin_bytes, "is not of its text", code->cubins[code->cubin_count - 1].bytes--)           \
    CASE(registers, "is not what NVRTC says", code->cubins[0].registers ^= 1)                      \
    CASE(spill, "is not what NVRTC says", code->cubins[0].spill_bytes ^= 1)                        \
    CASE(cubin_shared, "is not what NVRTC says", code->cubins[0].shared_bytes ^= 1)                \
    CASE(warnings, "is not what NVRTC says", code->cubins[0].warnings = "x")                       \
    CASE(cubin_less, " has no cubin for ", cut_cubins(0))                                          \
    CASE(cubin_last, " has no cubin for ", cut_cubins(code->cubin_count - 1))                      \
    CASE(version, "NOT COMPARABLE", code->nvrtc_version += 10)                                     \
    CASE(no_version, "NOT COMPARABLE", code->nvrtc_version = 0)                                    \
    CASE(no_cubins, "cubins      none", code->cubin_count = 0)                                     \
    CASE(no_code, "CUDA text   none", *code = (struct remat_cuda_code){0})

#define CASE(name, said, change)                                                                   \
    static void change_##name(void)                                                                \
    {                                                                                              \
        change;                                                                                    \
    }
CASES
#undef CASE

static const struct {
    const char *name, *said;
    void (*change)(void);
} cases[] = {
#define CASE(name, said, change) {#name, said, change_##name},
    CASES
#undef CASE
};
enum { CASE_COUNT = sizeof cases / sizeof *cases };

int main(int argc, char **argv)
{
    remat_context *ctx = remat_context_create(NULL, NULL);
    char *data;
    const void *changed;
    size_t bytes;
    remat_arena_init(&arena, ctx);
    for (size_t i = 0; argc < 4 && i < CASE_COUNT; i++)
        printf("%s\t%s\n", cases[i].name, cases[i].said);
    if (argc < 4) {
        remat_context_destroy(&ctx);
        return 0;
    }
    if (remat_file_read(ctx, argv[1], &arena, &data, &bytes) ||
        remat_program_read(ctx, argv[1], data, bytes, &arena, &program)) {
        printf("%s\n", remat_context_message(ctx));
        return 1;
    }
    code = &program->cuda;
    for (size_t i = 0; i < CASE_COUNT; i++)
        if (strcmp(cases[i].name, argv[2]) == 0)
            cases[i].change();
    if (remat_program_write(ctx, program, &arena, &changed, &bytes) ||
        remat_file_write(ctx, argv[3], changed, bytes)) {
        printf("%s\n", remat_context_message(ctx));
        return 1;
    }
    remat_arena_release(&arena);
    remat_context_destroy(&ctx);
    return 0;
}
