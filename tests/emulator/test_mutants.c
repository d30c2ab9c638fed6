/* Faults planted into the emitted text (mutants.def): each must make a sample fail, or the emulator
 * and the samples prove little.
 *
 *     test_mutants COMPILER [NUMBER] */
#include "cpu_pool.h"
#include "item.h"

#include <stdio.h>
#include <stdlib.h>

#define SAMPLES 50

/* Samples that a mutant needs; then any. */
static const uint64_t chosen[] = {3, 88, 89, 661, 683, 862};
#define CHOSEN (sizeof chosen / sizeof *chosen)

static const struct mutant {
    const char *what, *find, *replacement;
} mutants[] = {
#define MUTANT(what, find, replacement) {what, find, replacement},
#include "mutants.def"
#undef MUTANT
};

static struct item items[SAMPLES];

static bool uses(const struct item *item, const char *find)
{
    for (uint32_t i = 0; i < item->code.prelude_count; i++)
        if (strstr(item->code.preludes[i], find))
            return true;
    for (uint32_t k = 0; k < item->code.kernel_count; k++)
        if (strstr(item->code.kernels[k].text, find))
            return true;
    return false;
}

static char *replace(const char *text, const char *find, const char *replacement)
{
    size_t count = 0, length = strlen(find);
    for (const char *at = strstr(text, find); at; at = strstr(at + length, find))
        count++;
    char *out = malloc(strlen(text) + count * strlen(replacement) + 1), *end = out;
    for (const char *at; (at = strstr(text, find)); text = at + length) {
        end = mempcpy(end, text, (size_t)(at - text));
        end = stpcpy(end, replacement);
    }
    strcpy(end, text);
    return out;
}

/* The sample that shows it, SAMPLES without any. */
static uint32_t find_mutant(remat_context *ctx, const char *compiler, const struct mutant *mutant,
                            char message[256])
{
    struct remat_arena arena;
    remat_arena_init(&arena, ctx);
    struct remat_text text = {.arena = &arena};
    for (uint32_t i = 0; i < SAMPLES; i++)
        if (uses(&items[i], mutant->find))
            item_append_text(&items[i], &text);
    uint32_t found = SAMPLES;
    if (text.count) {
        char *mutated = replace(text.items, mutant->find, mutant->replacement);
        void *library = kernels_compile(compiler, mutated);
        for (uint32_t i = 0; i < SAMPLES && found == SAMPLES; i++) {
            const char *fault =
                uses(&items[i], mutant->find) ? item_run(ctx, &items[i], library, 3) : NULL;
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

int main(int argc, char **argv)
{
    uint32_t count = sizeof mutants / sizeof *mutants, missed = 0;
    uint32_t only = argc > 2 ? (uint32_t)atoi(argv[2]) : count;
    remat_context *ctx = remat_context_create(NULL, NULL);
    struct remat_arena arena;
    remat_arena_init(&arena, ctx);
    uint32_t state = cpu_flush_subnormals();
    for (uint32_t i = 0; i < SAMPLES; i++)
        item_make(ctx, &arena, i < CHOSEN ? chosen[i] : 100 + i - CHOSEN, &items[i]);
    for (uint32_t m = 0; m < count; m++) {
        char message[256] = "NOT FOUND";
        if (only < count && only != m)
            continue;
        uint32_t found = find_mutant(ctx, argv[1], &mutants[m], message);
        printf("%2u %s: %s: %s\n", m, mutants[m].what, found < SAMPLES ? items[found].key : "-",
               message);
        missed += found == SAMPLES;
    }
    cpu_restore_float_state(state);
    remat_arena_release(&arena);
    remat_context_destroy(&ctx);
    printf("%u mutants, %u not found\n", count, missed);
    return missed != 0;
}
