/* SPDX-License-Identifier: Apache-2.0 */
#include "check.h"
#include "kernels.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

char *kernels_text(const struct remat_cuda_code *code)
{
    size_t length = 1;
    for (uint32_t i = 0; i < code->prelude_count; i++)
        length += strlen(code->preludes[i]);
    for (uint32_t k = 0; k < code->kernel_count; k++)
        length += strlen(code->kernels[k].text);
    char *text = malloc(length), *end = text;
    MUST(text, "%zu bytes", length);
    for (uint32_t i = 0; i < code->prelude_count; i++)
        end = stpcpy(end, code->preludes[i]);
    for (uint32_t k = 0; k < code->kernel_count; k++)
        end = stpcpy(end, code->kernels[k].text);
    *end = 0;
    return text;
}

struct arguments kernels_arguments(const struct remat_cuda_word *words, uint32_t count,
                                   uint64_t seed, uint64_t memory, uint64_t workspace)
{
    struct arguments arguments = {{0}};
    for (uint32_t w = 0; w < count; w++)
        arguments.word[w] = words[w].kind == REMAT_CUDA_ARENA       ? memory + words[w].value
                            : words[w].kind == REMAT_CUDA_WORKSPACE ? workspace + words[w].value
                            : words[w].kind == REMAT_CUDA_SEED      ? seed
                                                                    : words[w].value;
    return arguments;
}

/* Where `find` ends in a text that begins with it; NULL: this one does not. */
static const char *end_of(const char *text, const char *find)
{
    for (; *find; find++) {
        if (*find == ' ')
            continue;
        while (isspace((unsigned char)*text) && *text != *find)
            text++;
        if (*text++ != *find)
            return NULL;
    }
    return text;
}

const char *kernels_has(const char *text, const char *find, const char **out_end)
{
    for (; *text; text++)
        if (!isspace((unsigned char)*text) && (*out_end = end_of(text, find)))
            return text;
    return NULL;
}

char *kernels_replace(const char *text, const char *find, const char *replacement)
{
    size_t count = 0;
    const char *end;
    for (const char *at = text; kernels_has(at, find, &end); at = end)
        count++;
    char *out = malloc(strlen(text) + count * strlen(replacement) + 1), *to = out;
    for (const char *at; (at = kernels_has(text, find, &end)); text = end) {
        to = mempcpy(to, text, (size_t)(at - text));
        to = stpcpy(to, replacement);
    }
    strcpy(to, text);
    return out;
}
