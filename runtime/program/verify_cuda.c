/* SPDX-License-Identifier: Apache-2.0 */
/* CUDA code: tables, blocks, threads and shared memory are in range, and each address that a launch
 * passes lies in the arena or the workspace. What text and cubins do with it is not looked at. */
#include "verify.h"

static bool is_identifier(const char *text)
{
    if (!remat_is_letter(*text))
        return false;
    while (remat_is_letter(*text) || remat_is_digit(*text))
        text++;
    return !*text;
}

/* "sm_90", "sm_90a" */
static bool is_arch(const char *text)
{
    if (strncmp(text, "sm_", 3) != 0 || !remat_is_digit(text[3]) || strlen(text) > 8)
        return false;
    for (text += 3; remat_is_digit(*text);)
        text++;
    return !*text || (remat_is_letter(*text) && !text[1]);
}

static remat_status verify_kernel(struct remat_verifier *v, uint32_t i)
{
    const struct remat_cuda_code *code = &v->program->cuda;
    const struct remat_cuda_kernel *k = &code->kernels[i];
    if (!k->key || !k->symbol || !k->text)
        return remat_verify_error(v, "cuda.kernels", i, NULL, "no key, symbol or text");
    if (!is_identifier(k->symbol))
        return remat_verify_error(v, "cuda.kernels", i, k->key, "its symbol is no C identifier");
    if (k->prelude >= code->prelude_count)
        return remat_verify_error(v, "cuda.kernels", i, k->key,
                                  "prelude %u is out of range (%u preludes)", k->prelude,
                                  code->prelude_count);
    if (k->threads == 0 || k->threads % 32 || k->threads > REMAT_CUDA_THREADS_MAX)
        return remat_verify_error(v, "cuda.kernels", i, k->key,
                                  "%u threads, accepted: multiples of 32 up to %u", k->threads,
                                  REMAT_CUDA_THREADS_MAX);
    if (k->shared_bytes > REMAT_CUDA_SHARED_MAX)
        return remat_verify_error(v, "cuda.kernels", i, k->key,
                                  "%u bytes of shared memory, the limit is %u", k->shared_bytes,
                                  REMAT_CUDA_SHARED_MAX);
    if (k->tensor_words == 1 || k->tensor_words >= REMAT_CUDA_WORDS_MAX)
        return remat_verify_error(v, "cuda.kernels", i, k->key,
                                  "%u words of a tensor, accepted: 0 and 2 to %d", k->tensor_words,
                                  REMAT_CUDA_WORDS_MAX - 1);
    return REMAT_OK;
}

/* A device adds up launches of such a kernel: each begins as the launch of one tensor. */
static bool is_of_one_tensor(const struct remat_cuda_code *code, const struct remat_cuda_launch *l)
{
    uint32_t words = code->kernels[l->kernel].tensor_words;
    const struct remat_cuda_word *count = &code->words[l->word_begin],
                                 *block = &code->words[l->word_end - words];
    return l->word_end - l->word_begin > words && count->kind == REMAT_CUDA_VALUE &&
           count->value == 1 && block->kind == REMAT_CUDA_VALUE && block->value == 0;
}

static remat_status verify_launch(struct remat_verifier *v, uint32_t i)
{
    const struct remat_cuda_code *code = &v->program->cuda;
    const struct remat_cuda_launch *l = &code->launches[i];
    if (l->kernel >= code->kernel_count)
        return remat_verify_error(v, "cuda.launches", i, NULL,
                                  "kernel %u is out of range (%u kernels)", l->kernel,
                                  code->kernel_count);
    if (l->blocks == 0 || l->blocks > INT32_MAX)
        return remat_verify_error(v, "cuda.launches", i, code->kernels[l->kernel].key,
                                  "%u blocks, accepted: 1 to %d", l->blocks, INT32_MAX);
    if (l->word_begin > l->word_end || l->word_end > code->word_count ||
        l->word_end - l->word_begin > REMAT_CUDA_WORDS_MAX)
        return remat_verify_error(v, "cuda.launches", i, code->kernels[l->kernel].key,
                                  "words [%u, %u) of %u words, at most %d at once", l->word_begin,
                                  l->word_end, code->word_count, REMAT_CUDA_WORDS_MAX);
    if (code->kernels[l->kernel].tensor_words && !is_of_one_tensor(code, l))
        return remat_verify_error(v, "cuda.launches", i, code->kernels[l->kernel].key,
                                  "words [%u, %u) are not those of one tensor", l->word_begin,
                                  l->word_end);
    return REMAT_OK;
}

static remat_status verify_word(struct remat_verifier *v, uint32_t i)
{
    const struct remat_cuda_code *code = &v->program->cuda;
    const struct remat_cuda_word *w = &code->words[i];
    if (w->kind >= REMAT_CUDA_WORD_KINDS)
        return remat_verify_error(v, "cuda.words", i, NULL, "unknown kind %u", w->kind);
    uint64_t limit = w->kind == REMAT_CUDA_ARENA       ? v->program->arena_bytes
                     : w->kind == REMAT_CUDA_WORKSPACE ? code->workspace_bytes
                                                       : UINT64_MAX;
    if (limit != UINT64_MAX && w->value >= limit)
        return remat_verify_error(
            v, "cuda.words", i, NULL, "address %llu in %s of %llu bytes", (ull)w->value,
            w->kind == REMAT_CUDA_ARENA ? "an arena" : "a workspace", (ull)limit);
    return REMAT_OK;
}

static remat_status verify_ranges(struct remat_verifier *v)
{
    const struct remat_program *p = v->program;
    const uint32_t *begin = p->cuda.launch_begin;
    if (p->cuda.launch_count && !begin)
        return remat_error(v->ctx, REMAT_ERROR_INVALID, "cuda: launches of no command");
    if (begin && begin[0] != 0)
        return remat_verify_error(v, "cuda.launch_begin", 0, NULL, "%u, expected 0", begin[0]);
    for (uint32_t c = 0; begin && c < p->command_count; c++)
        if (begin[c] > begin[c + 1])
            return remat_verify_error(v, "cuda.launch_begin", c, p->commands[c].name,
                                      "launches [%u, %u)", begin[c], begin[c + 1]);
    if (begin && begin[p->command_count] != p->cuda.launch_count)
        return remat_verify_error(v, "cuda.launch_begin", p->command_count, NULL,
                                  "it ends at %u of %u launches", begin[p->command_count],
                                  p->cuda.launch_count);
    return REMAT_OK;
}

static remat_status verify_cubin(struct remat_verifier *v, uint32_t i)
{
    const struct remat_cuda_code *code = &v->program->cuda;
    const struct remat_cubin *c = &code->cubins[i], *before = i ? c - 1 : NULL;
    if (c->kernel >= code->kernel_count)
        return remat_verify_error(v, "cuda.cubins", i, NULL,
                                  "kernel %u is out of range (%u kernels)", c->kernel,
                                  code->kernel_count);
    if (!c->arch || !is_arch(c->arch))
        return remat_verify_error(v, "cuda.cubins", i, code->kernels[c->kernel].key,
                                  "no architecture as sm_90");
    if (!c->data || c->bytes == 0 || c->bytes > INT32_MAX || !c->warnings)
        return remat_verify_error(v, "cuda.cubins", i, code->kernels[c->kernel].key, "%llu bytes",
                                  (ull)c->bytes);
    if (before && (before->kernel > c->kernel ||
                   (before->kernel == c->kernel && strcmp(before->arch, c->arch) >= 0)))
        return remat_verify_error(v, "cuda.cubins", i, code->kernels[c->kernel].key,
                                  "not after cubin %u in kernel and architecture", i - 1);
    return REMAT_OK;
}

remat_status remat_verify_cuda(struct remat_verifier *v)
{
    remat_status st = REMAT_OK;
    const struct remat_program *p = v->program;
    const struct remat_cuda_code *code = &p->cuda;
    uint64_t limit = p->workspace_bytes ? p->workspace_bytes : REMAT_BYTES_MAX;
    if (code->workspace_bytes % REMAT_ALIGNMENT || code->workspace_bytes > limit)
        REMAT_FAIL(v->ctx, REMAT_ERROR_INVALID,
                   "cuda: its launches need %llu bytes of a workspace of at most %llu, a multiple "
                   "of %u",
                   (ull)code->workspace_bytes, (ull)limit, REMAT_ALIGNMENT);
    for (uint32_t i = 0; i < code->prelude_count; i++)
        if (!code->preludes[i])
            return remat_verify_error(v, "cuda.preludes", i, NULL, "no text");
    for (uint32_t i = 0; i < code->kernel_count; i++)
        REMAT_TRY(verify_kernel(v, i));
    for (uint32_t i = 0; i < code->launch_count; i++)
        REMAT_TRY(verify_launch(v, i));
    for (uint32_t i = 0; i < code->word_count; i++)
        REMAT_TRY(verify_word(v, i));
    REMAT_TRY(verify_ranges(v));
    for (uint32_t i = 0; i < code->cubin_count; i++)
        REMAT_TRY(verify_cubin(v, i));
fail:
    return st;
}
