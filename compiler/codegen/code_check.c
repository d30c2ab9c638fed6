/* SPDX-License-Identifier: Apache-2.0 */
#include "codegen.h"

#include "unwind.h"

#define EXPECT(holds, ...)                                                                         \
    do {                                                                                           \
        if (!(holds))                                                                              \
            return remat_error(ctx, REMAT_ERROR_INVALID, __VA_ARGS__);                             \
    } while (0)
#define EQUAL(have, want, ...) EXPECT((have) == (want), __VA_ARGS__, have, want)

/* The number of the first line that differs; 0: none does. */
static uint32_t line_of_difference(const char *a, const char *b)
{
    uint32_t line = 1;
    for (; *a == *b; a++, b++) {
        if (*a == 0)
            return 0;
        line += *a == '\n';
    }
    return line;
}

static remat_status compare_kernel(remat_context *ctx, const struct remat_cuda_kernel *have,
                                   const struct remat_cuda_kernel *want, uint32_t index)
{
    const char *key = want->key;
    uint32_t line = line_of_difference(have->text, want->text);
    EXPECT(strcmp(have->key, key) == 0, "kernel %u is \"%.300s\", expected \"%.300s\"", index,
           have->key, key);
    EXPECT(strcmp(have->symbol, want->symbol) == 0,
           "kernel \"%.300s\": its function is %.200s, expected %.200s", key, have->symbol,
           want->symbol);
#define EQUAL_OF(what, field)                                                                      \
    EQUAL(have->field, want->field, "kernel \"%.300s\": " what ": %u, expected %u", key)
    EQUAL_OF("prelude", prelude);
    EQUAL_OF("threads", threads);
    EQUAL_OF("shared bytes", shared_bytes);
    EQUAL_OF("words of a tensor", tensor_words);
    EXPECT(line == 0, "kernel \"%.300s\": its text differs from line %u on", key, line);
    return REMAT_OK;
}

/* `have` has the launch, too. */
static remat_status compare_launch(remat_context *ctx, const struct remat_cuda_code *have,
                                   const struct remat_cuda_code *want, uint32_t launch,
                                   const char *command)
{
    const struct remat_cuda_launch *a = &have->launches[launch], *b = &want->launches[launch];
    const char *key = want->kernels[b->kernel].key;
    EXPECT(a->kernel == b->kernel,
           "command \"%s\": launch %u is of kernel \"%.300s\", expected \"%.300s\"", command,
           launch, have->kernels[a->kernel].key, key);
#define LAUNCH "command \"%s\": launch %u of kernel \"%.300s\": "
    EQUAL(a->blocks, b->blocks, LAUNCH "%u blocks, expected %u", command, launch, key);
    EXPECT(a->word_begin == b->word_begin && a->word_end == b->word_end,
           LAUNCH "words [%u, %u), expected [%u, %u)", command, launch, key, a->word_begin,
           a->word_end, b->word_begin, b->word_end);
    for (uint32_t w = b->word_begin; w < b->word_end; w++) {
        struct remat_cuda_word x = have->words[w], y = want->words[w];
        EXPECT(x.kind == y.kind && x.value == y.value,
               LAUNCH "word %u is %llu of kind %u, expected %llu of kind %u", command, launch, key,
               w - b->word_begin, (ull)x.value, x.kind, (ull)y.value, y.kind);
    }
    return REMAT_OK;
}

static remat_status compare(remat_context *ctx, const struct remat_program *program,
                            const struct remat_cuda_code *want)
{
    const struct remat_cuda_code *have = &program->cuda;
    EQUAL(have->prelude_count, want->prelude_count, "%u preludes, expected %u");
    for (uint32_t i = 0; i < want->prelude_count; i++) {
        uint32_t line = line_of_difference(have->preludes[i], want->preludes[i]);
        EXPECT(line == 0, "prelude %u differs from line %u on", i, line);
    }
    for (uint32_t k = 0; k < have->kernel_count && k < want->kernel_count; k++)
        REMAT_CHECK(compare_kernel(ctx, &have->kernels[k], &want->kernels[k], k));
    EQUAL(have->kernel_count, want->kernel_count, "%u kernels, expected %u");
    for (uint32_t c = 0; c < program->command_count; c++) {
        uint32_t begin = want->launch_begin[c], end = want->launch_begin[c + 1];
        uint32_t from = have->launch_begin ? have->launch_begin[c] : 0;
        uint32_t to = have->launch_begin ? have->launch_begin[c + 1] : 0;
        EXPECT(from == begin && to == end, "command \"%s\": launches [%u, %u), expected [%u, %u)",
               program->commands[c].name, from, to, begin, end);
        for (uint32_t l = begin; l < end; l++)
            REMAT_CHECK(compare_launch(ctx, have, want, l, program->commands[c].name));
    }
    EQUAL(have->word_count, want->word_count, "%u words, expected %u");
    EQUAL((ull)have->workspace_bytes, (ull)want->workspace_bytes,
          "a workspace of %llu bytes, expected %llu");
    return REMAT_OK;
}

remat_status remat_cuda_check_text(remat_context *ctx, struct remat_arena *arena,
                                   const struct remat_program *program)
{
    struct remat_cuda_settings settings = REMAT_CUDA_DEFAULTS;
    struct remat_cuda_code want;
    settings.workspace_bytes = program->workspace_bytes; /* that lowering set aside; 0: no limit */
    REMAT_CHECK(remat_cuda_emit(ctx, arena, program, &settings, &want));
    return compare(ctx, program, &want);
}

/* --- cubins --- */

/* `want` has a cubin of every kernel for every architecture that `have` knows, in the same order.
 */
static remat_status compare_cubins(remat_context *ctx, const struct remat_cuda_code *have,
                                   const struct remat_cuda_code *want)
{
    for (uint32_t c = 0; c < want->cubin_count; c++) {
        const struct remat_cubin *a = &have->cubins[c], *b = &want->cubins[c];
        const char *key = want->kernels[b->kernel].key;
        EXPECT(c < have->cubin_count && a->kernel == b->kernel && strcmp(a->arch, b->arch) == 0,
               "kernel \"%.300s\" has no cubin for %s", key, b->arch);
        EXPECT(a->bytes == b->bytes && memcmp(a->data, b->data, b->bytes) == 0,
               "kernel \"%.300s\": its cubin for %s is not of its text", key, b->arch);
        EXPECT(a->registers == b->registers && a->spill_bytes == b->spill_bytes &&
                   a->shared_bytes == b->shared_bytes && strcmp(a->warnings, b->warnings) == 0,
               "kernel \"%.300s\": what the plan says of its cubin for %s (%u registers, "
               "%u bytes spilled, %u shared, warnings \"%.100s\") is not what NVRTC says",
               key, b->arch, a->registers, a->spill_bytes, a->shared_bytes, a->warnings);
    }
    return REMAT_OK;
}

static const char *explain_version(struct remat_arena *arena, uint32_t have, uint32_t this)
{
    return have ? REMAT_FORMAT(arena, "NVRTC %u.%u made them, and this one is %u.%u", have / 1000,
                               have % 1000 / 10, this / 1000, this % 1000 / 10)
                : REMAT_FORMAT(arena, "the plan does not say which NVRTC made them");
}

remat_status remat_cuda_check_cubins(remat_context *ctx, struct remat_arena *arena,
                                     const struct remat_nvrtc *nvrtc, uint32_t threads,
                                     const struct remat_program *program, const char **incomparable)
{
    const struct remat_cuda_code *have = &program->cuda;
    struct remat_cuda_code want = *have;
    struct remat_cubin_counts counts;
    const char **architectures; /* those given twice are one */
    *incomparable = NULL;
    if (have->nvrtc_version != remat_nvrtc_number(nvrtc)) {
        *incomparable = explain_version(arena, have->nvrtc_version, remat_nvrtc_number(nvrtc));
        return REMAT_OK;
    }
    REMAT_NEW(arena, architectures, (size_t)have->cubin_count + 1);
    for (uint32_t c = 0; c < have->cubin_count && !*incomparable; c++) {
        architectures[c] = have->cubins[c].arch;
        if (remat_nvrtc_check(nvrtc, architectures[c]) != REMAT_OK)
            *incomparable = REMAT_FORMAT(arena, "%s", remat_context_message(ctx));
    }
    if (*incomparable)
        return REMAT_OK;
    struct remat_cubin_settings settings = {.architectures = architectures, .threads = threads};
    REMAT_CHECK(remat_cubins_make(ctx, arena, nvrtc, &settings, &want, &counts));
    return compare_cubins(ctx, have, &want);
}
