/* SPDX-License-Identifier: Apache-2.0 */
/* Faults planted into the emitted text (mutants.def): each must make a sample or an update of
 * tensors fail or, where none of these has that text, attention; or the emulator, the samples and
 * the sizes prove little.
 *
 * Planted are all, every third from N on, or that of a number.
 *
 *     test_mutants COMPILER samples|attention [all|slice:N|NUMBER] */
#include "attention.h"
#include "check.h"
#include "cpu_pool.h"
#include "item.h"
#include "tensors.h"

#include <stdio.h>
#include <stdlib.h>

#define SAMPLES 52
#define SLICES  3

/* Samples that a mutant needs; then any. */
static const uint64_t chosen[] = {3, 88, 89, 215, 219, 587, 661, 683, 862};
#define CHOSEN (sizeof chosen / sizeof *chosen)

static const struct mutant {
    const char *what, *find, *replacement;
} mutants[] = {
#define MUTANT(what, find, replacement) {what, find, replacement},
#include "planted_mutants.def"
#undef MUTANT
};

static const struct attention_sizes sizes[] = {
    {1, 4, 2, 76, 76, 64, true, 0.25, REMAT_BF16, ATTENTION_PACKED, SEGMENTS_NONE},
    {1, 2, 1, 40, 36, 24, true, 0.1, REMAT_F32, ATTENTION_LOOSE, SEGMENTS_NONE},
    {1, 1, 1, 67, 131, 64, true, 0, REMAT_BF16, ATTENTION_DENSE, SEGMENTS_NONE},
    {1, 3, 1, 131, 67, 80, false, 0.1, REMAT_BF16, ATTENTION_LOOSE, SEGMENTS_NONE},
    {2, 2, 1, 70, 70, 32, true, 0, REMAT_BF16, ATTENTION_DENSE, SEGMENTS_BOTH},
};
#define CASES (sizeof sizes / sizeof *sizes)

static const int64_t lengths[] = {8, 2048, 64, 4104, 13, 2, 2061};

#define UPDATES 2

static struct item items[SAMPLES];
static struct tensors updates[UPDATES];
static struct attention_case cases[CASES];

/* Subjects are samples, then updates, then attention. */
#define FIRST_CASE (SAMPLES + UPDATES)

static const struct remat_cuda_code *code_of(uint32_t subject)
{
    return subject < SAMPLES      ? &items[subject].code
           : subject < FIRST_CASE ? &updates[subject - SAMPLES].program.cuda
                                  : &cases[subject - FIRST_CASE].code;
}

static bool uses(uint32_t subject, const char *find)
{
    const struct remat_cuda_code *code = code_of(subject);
    const char *end;
    for (uint32_t i = 0; i < code->prelude_count; i++)
        if (kernels_has(code->preludes[i], find, &end))
            return true;
    for (uint32_t k = 0; k < code->kernel_count; k++)
        if (kernels_has(code->kernels[k].text, find, &end))
            return true;
    return false;
}

static const char *run(remat_context *ctx, uint32_t subject, void *library)
{
    uint64_t hash = 0;
    return subject < SAMPLES      ? item_run(ctx, &items[subject], library, 3)
           : subject < FIRST_CASE ? tensors_run(&updates[subject - SAMPLES], library, 2)
                                  : attention_run(&cases[subject - FIRST_CASE], library, 2, &hash);
}

/* The subject of [begin, end) that shows it, `end` without any; compiled together. */
static uint32_t find_among(remat_context *ctx, const char *compiler, const struct mutant *mutant,
                           uint32_t begin, uint32_t end, char message[256])
{
    struct remat_arena arena;
    remat_arena_init(&arena, ctx);
    struct remat_text text = {.arena = &arena};
    uint32_t found = end;
    for (uint32_t i = begin; i < end; i++)
        if (uses(i, mutant->find)) {
            char *kernels = kernels_text(code_of(i));
            remat_text_append(&text, "%s", kernels);
            free(kernels);
        }
    if (text.count) {
        char *mutated = kernels_replace(text.items, mutant->find, mutant->replacement);
        void *library = kernels_compile(compiler, mutated);
        for (uint32_t i = begin; i < end && found == end; i++) {
            const char *fault = uses(i, mutant->find) ? run(ctx, i, library) : NULL;
            if (fault) {
                found = i;
                snprintf(message, 256, "%s", fault);
            }
        }
        kernels_close(library);
        free(mutated);
    }
    remat_arena_release(&arena);
    return found;
}

/* Mostly one of the first shows it, and most time goes into compiling. */
static uint32_t find_mutant(remat_context *ctx, const char *compiler, const struct mutant *mutant,
                            uint32_t begin, uint32_t end, char message[256])
{
    for (uint32_t count = 3, next; begin < end; begin = next, count *= 3) {
        next = end - begin < count ? end : begin + count;
        uint32_t found = find_among(ctx, compiler, mutant, begin, next, message);
        if (found < next)
            return found;
    }
    return end;
}

static bool any_uses(const char *find)
{
    for (uint32_t i = 0; i < FIRST_CASE; i++)
        if (uses(i, find))
            return true;
    return false;
}

int main(int argc, char **argv)
{
    uint32_t count = sizeof mutants / sizeof *mutants, tried = 0;
    const char *which = argc > 3 ? argv[3] : "all";
    bool sliced = strncmp(which, "slice:", 6) == 0;
    uint32_t slice = sliced ? (uint32_t)atoi(which + 6) : 0;
    uint32_t only = sliced || strcmp(which, "all") == 0 ? count : (uint32_t)atoi(which);
    bool samples = argc > 2 && strcmp(argv[2], "samples") == 0;
    remat_context *ctx = remat_context_create(NULL, NULL);
    struct remat_arena arena;
    remat_arena_init(&arena, ctx);
    uint32_t state = cpu_flush_subnormals();
    for (uint32_t i = 0; i < SAMPLES; i++)
        item_make(ctx, &arena, i < CHOSEN ? chosen[i] : 100 + i - CHOSEN, &items[i]);
    for (uint32_t i = 0; i < UPDATES; i++)
        tensors_make(ctx, &arena, i ? TENSORS_ADAMW_MASTER : TENSORS_SGD, 14, lengths, 7,
                     &(uint64_t){0}, 1, &updates[i]);
    tensors_spoil(ctx, &updates[0], 0, 0x7f800000u);
    for (uint32_t i = 0; i < CASES; i++)
        attention_make(ctx, &arena, &sizes[i],
                       &(struct remat_cuda_settings){1, 64, 0, REMAT_COLUMN_SUMS}, &cases[i]);
    for (uint32_t m = 0; m < count; m++) {
        char message[256] = "NOT FOUND";
        if ((only < count && only != m) || any_uses(mutants[m].find) != samples)
            continue;
        if (sliced && m % SLICES != slice)
            continue;
        uint32_t end = samples ? FIRST_CASE : FIRST_CASE + CASES;
        uint32_t found =
            find_mutant(ctx, argv[1], &mutants[m], samples ? 0 : FIRST_CASE, end, message);
        printf("%2u %s: %d: %s\n", m, mutants[m].what, found < end ? (int)found : -1, message);
        CHECK(found < end, "%u %s", m, mutants[m].what);
        tried++;
    }
    cpu_restore_float_state(state);
    for (uint32_t i = 0; i < CASES; i++)
        free(cases[i].initial);
    for (uint32_t i = 0; i < UPDATES; i++)
        tensors_release(&updates[i]);
    remat_arena_release(&arena);
    remat_context_destroy(&ctx);
    CHECK(only < count || tried >= 10, "%u mutants", tried);
    return check_exit();
}
