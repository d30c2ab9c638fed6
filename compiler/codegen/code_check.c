/* SPDX-License-Identifier: Apache-2.0 */
#include "code_check.h"

#include "cubins.h"
#include "unwind.h"

typedef unsigned long long ull;

#define DIFFERS(ctx, ...) remat_error((ctx), REMAT_ERROR_INVALID, __VA_ARGS__)

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

static remat_status compare_preludes(remat_context *ctx, const struct remat_cuda_code *have,
                                     const struct remat_cuda_code *want)
{
    if (have->prelude_count != want->prelude_count)
        return DIFFERS(ctx, "%u preludes, expected %u", have->prelude_count, want->prelude_count);
    for (uint32_t i = 0; i < want->prelude_count; i++) {
        uint32_t line = line_of_difference(have->preludes[i], want->preludes[i]);
        if (line)
            return DIFFERS(ctx, "prelude %u differs from line %u on", i, line);
    }
    return REMAT_OK;
}

static remat_status compare_kernel(remat_context *ctx, const struct remat_cuda_kernel *have,
                                   const struct remat_cuda_kernel *want, uint32_t index)
{
    const struct {
        const char *what;
        uint32_t have, want;
    } numbers[] = {{"prelude", have->prelude, want->prelude},
                   {"threads", have->threads, want->threads},
                   {"shared bytes", have->shared_bytes, want->shared_bytes},
                   {"words of a tensor", have->tensor_words, want->tensor_words}};
    if (strcmp(have->key, want->key) != 0)
        return DIFFERS(ctx, "kernel %u is \"%.300s\", expected \"%.300s\"", index, have->key,
                       want->key);
    if (strcmp(have->symbol, want->symbol) != 0)
        return DIFFERS(ctx, "kernel \"%.300s\": its function is %.200s, expected %.200s", want->key,
                       have->symbol, want->symbol);
    for (size_t n = 0; n < sizeof numbers / sizeof *numbers; n++)
        if (numbers[n].have != numbers[n].want)
            return DIFFERS(ctx, "kernel \"%.300s\": %s: %u, expected %u", want->key,
                           numbers[n].what, numbers[n].have, numbers[n].want);
    uint32_t line = line_of_difference(have->text, want->text);
    return line ? DIFFERS(ctx, "kernel \"%.300s\": its text differs from line %u on", want->key,
                          line)
                : REMAT_OK;
}

static remat_status compare_kernels(remat_context *ctx, const struct remat_cuda_code *have,
                                    const struct remat_cuda_code *want)
{
    remat_status st = REMAT_OK;
    for (uint32_t k = 0; k < have->kernel_count && k < want->kernel_count; k++)
        REMAT_CHECK(compare_kernel(ctx, &have->kernels[k], &want->kernels[k], k));
    if (have->kernel_count != want->kernel_count)
        st = DIFFERS(ctx, "%u kernels, expected %u", have->kernel_count, want->kernel_count);
    return st;
}

static remat_status compare_launch(remat_context *ctx, const struct remat_cuda_code *have,
                                   const struct remat_cuda_code *want, uint32_t launch,
                                   const char *command)
{
    const struct remat_cuda_launch *a = &have->launches[launch], *b = &want->launches[launch];
    const char *key = want->kernels[b->kernel].key;
    if (a->kernel != b->kernel)
        return DIFFERS(ctx,
                       "command \"%s\": launch %u is of kernel \"%.300s\", expected \"%.300s\"",
                       command, launch, have->kernels[a->kernel].key, key);
    if (a->blocks != b->blocks)
        return DIFFERS(ctx,
                       "command \"%s\": launch %u of kernel \"%.300s\": %u blocks, expected %u",
                       command, launch, key, a->blocks, b->blocks);
    if (a->word_begin != b->word_begin || a->word_end != b->word_end)
        return DIFFERS(ctx,
                       "command \"%s\": launch %u of kernel \"%.300s\": words [%u, %u), expected "
                       "[%u, %u)",
                       command, launch, key, a->word_begin, a->word_end, b->word_begin,
                       b->word_end);
    for (uint32_t w = b->word_begin; w < b->word_end; w++) {
        struct remat_cuda_word x = have->words[w], y = want->words[w];
        if (x.kind != y.kind || x.value != y.value)
            return DIFFERS(ctx,
                           "command \"%s\": launch %u of kernel \"%.300s\": word %u is %llu of "
                           "kind %u, expected %llu of kind %u",
                           command, launch, key, w - b->word_begin, (ull)x.value, x.kind,
                           (ull)y.value, y.kind);
    }
    return REMAT_OK;
}

static remat_status compare_launches(remat_context *ctx, const struct remat_program *program,
                                     const struct remat_cuda_code *want)
{
    remat_status st = REMAT_OK;
    const struct remat_cuda_code *have = &program->cuda;
    for (uint32_t c = 0; c < program->command_count; c++) {
        uint32_t begin = want->launch_begin[c], end = want->launch_begin[c + 1];
        uint32_t from = have->launch_begin ? have->launch_begin[c] : 0;
        uint32_t to = have->launch_begin ? have->launch_begin[c + 1] : 0;
        if (from != begin || to != end)
            return DIFFERS(ctx, "command \"%s\": launches [%u, %u), expected [%u, %u)",
                           program->commands[c].name, from, to, begin, end);
        for (uint32_t l = begin; l < end; l++)
            REMAT_CHECK(compare_launch(ctx, have, want, l, program->commands[c].name));
    }
    if (have->word_count != want->word_count)
        st = DIFFERS(ctx, "%u words, expected %u", have->word_count, want->word_count);
    return st;
}

remat_status remat_cuda_check_text(remat_context *ctx, struct remat_arena *arena,
                                   const struct remat_program *program)
{
    remat_status st = REMAT_OK;
    const struct remat_cuda_code *have = &program->cuda;
    struct remat_cuda_settings settings = REMAT_CUDA_DEFAULTS;
    struct remat_cuda_code want;
    settings.workspace_bytes = program->workspace_bytes; /* that lowering set aside; 0: no limit */
    REMAT_CHECK(remat_cuda_emit(ctx, arena, program, &settings, &want));
    REMAT_CHECK(compare_preludes(ctx, have, &want));
    REMAT_CHECK(compare_kernels(ctx, have, &want));
    REMAT_CHECK(compare_launches(ctx, program, &want));
    if (have->workspace_bytes != want.workspace_bytes)
        st = DIFFERS(ctx, "a workspace of %llu bytes, expected %llu", (ull)have->workspace_bytes,
                     (ull)want.workspace_bytes);
    return st;
}

/* --- cubins --- */

static remat_status compare_cubin(remat_context *ctx, const struct remat_cubin *have,
                                  const struct remat_cubin *want, const char *key)
{
    if (have->bytes != want->bytes || memcmp(have->data, want->data, want->bytes) != 0)
        return DIFFERS(ctx, "kernel \"%.300s\": its cubin for %s is not of its text", key,
                       want->arch);
    if (have->registers != want->registers || have->spill_bytes != want->spill_bytes ||
        have->shared_bytes != want->shared_bytes || strcmp(have->warnings, want->warnings) != 0)
        return DIFFERS(ctx,
                       "kernel \"%.300s\": what the plan says of its cubin for %s (%u registers, "
                       "%u bytes spilled, %u shared, warnings \"%.100s\") is not what NVRTC says",
                       key, want->arch, have->registers, have->spill_bytes, have->shared_bytes,
                       have->warnings);
    return REMAT_OK;
}

/* `want` has a cubin of every kernel for every architecture that `have` knows, in the same order.
 */
static remat_status compare_cubins(remat_context *ctx, const struct remat_cuda_code *have,
                                   const struct remat_cuda_code *want)
{
    for (uint32_t c = 0; c < want->cubin_count; c++) {
        const struct remat_cubin *a = &have->cubins[c], *b = &want->cubins[c];
        const char *key = want->kernels[b->kernel].key;
        if (c >= have->cubin_count || a->kernel != b->kernel || strcmp(a->arch, b->arch) != 0)
            return remat_error(ctx, REMAT_ERROR_INVALID, "kernel \"%.300s\" has no cubin for %s",
                               key, b->arch);
        REMAT_CHECK(compare_cubin(ctx, a, b, key));
    }
    return REMAT_OK;
}

static const char **list_architectures(struct remat_arena *arena,
                                       const struct remat_cuda_code *code)
{
    uint32_t count = 0;
    const char **out;
    REMAT_NEW(arena, out, (size_t)code->cubin_count + 1);
    for (uint32_t c = 0; c < code->cubin_count; c++) {
        uint32_t a = 0;
        while (a < count && strcmp(out[a], code->cubins[c].arch) != 0)
            a++;
        if (a == count)
            out[count++] = code->cubins[c].arch;
    }
    return out;
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
    const char **architectures = list_architectures(arena, have);
    *incomparable = NULL;
    if (have->nvrtc_version != remat_nvrtc_number(nvrtc)) {
        *incomparable = explain_version(arena, have->nvrtc_version, remat_nvrtc_number(nvrtc));
        return REMAT_OK;
    }
    for (const char **arch = architectures; *arch && !*incomparable; arch++)
        if (remat_nvrtc_check(nvrtc, *arch) != REMAT_OK)
            *incomparable = REMAT_FORMAT(arena, "%s", remat_context_message(ctx));
    if (*incomparable)
        return REMAT_OK;
    struct remat_cubin_settings settings = {.architectures = architectures, .threads = threads};
    REMAT_CHECK(remat_cubins_make(ctx, arena, nvrtc, &settings, &want, &counts));
    return compare_cubins(ctx, have, &want);
}
