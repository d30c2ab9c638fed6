/* SPDX-License-Identifier: Apache-2.0 */
#include "cuda_code.h"

#include <assert.h>

remat_status remat_cuda_source(struct remat_arena *arena, const struct remat_cuda_code *code,
                               uint32_t kernel, const char **out)
{
    assert(kernel < code->kernel_count);
    remat_status st = REMAT_OK;
    const char *prelude = code->preludes[code->kernels[kernel].prelude];
    const char *text = code->kernels[kernel].text;
    size_t prelude_bytes = strlen(prelude), text_bytes = strlen(text) + 1;
    char *source;
    REMAT_TRY_NEW(arena, source, prelude_bytes + text_bytes);
    memcpy(source, prelude, prelude_bytes);
    memcpy(source + prelude_bytes, text, text_bytes);
    *out = source;
fail:
    return st;
}

const struct remat_cubin *remat_cubin_find(const struct remat_cuda_code *code, uint32_t kernel,
                                           const char *arch)
{
    assert(kernel < code->kernel_count && arch);
    uint32_t begin = 0, end = code->cubin_count;
    while (begin < end) {
        uint32_t middle = begin + (end - begin) / 2;
        const struct remat_cubin *cubin = &code->cubins[middle];
        int order = (cubin->kernel > kernel) - (cubin->kernel < kernel);
        order = order ? order : strcmp(cubin->arch, arch);
        if (order == 0)
            return cubin;
        if (order < 0)
            begin = middle + 1;
        else
            end = middle;
    }
    return NULL;
}
