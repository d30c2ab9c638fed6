/* SPDX-License-Identifier: Apache-2.0 */
#include "cuda_write.h"

#define COPY_TEXT(field) REMAT_TRY(remat_writer_text(w, from->field, &in.field))

REMAT_WRITE_TABLES(program_CudaKernel, struct remat_cuda_code, struct remat_cuda_kernel, kernels,
                   kernel_count, {
                       in.prelude = (int32_t)from->prelude;
                       in.threads = from->threads;
                       in.shared_bytes = from->shared_bytes;
                       in.tensor_words = from->tensor_words;
                       COPY_TEXT(key);
                       COPY_TEXT(symbol);
                       REMAT_TRY(remat_writer_lines(w, from->text, &in.text));
                   })

REMAT_WRITE_TABLES(program_Cubin, struct remat_cuda_code, struct remat_cubin, cubins, cubin_count, {
    in.kernel = (int32_t)from->kernel;
    in.data = (struct remat_fb_array){from->data, (uint32_t)from->bytes};
    in.registers = from->registers;
    in.spill_bytes = from->spill_bytes;
    in.shared_bytes = from->shared_bytes;
    COPY_TEXT(arch);
    COPY_TEXT(warnings);
})

static remat_status write_launches(struct remat_writer *w, const struct remat_cuda_code *code,
                                   uint32_t command_count, struct remat_fb_program_CudaCode *root)
{
    remat_status st = REMAT_OK;
    struct remat_fb_cuda_launch *launches;
    uint8_t *kinds;
    uint64_t *values;
    REMAT_TRY_NEW(w->scratch, launches, code->launch_count);
    REMAT_TRY_NEW(w->scratch, kinds, code->word_count);
    REMAT_TRY_NEW(w->scratch, values, code->word_count);
    for (uint32_t i = 0; i < code->launch_count; i++) {
        const struct remat_cuda_launch *from = &code->launches[i];
        launches[i] = (struct remat_fb_cuda_launch){from->kernel, from->blocks, from->word_begin,
                                                    from->word_end};
    }
    for (uint32_t i = 0; i < code->word_count; i++) {
        kinds[i] = code->words[i].kind;
        values[i] = code->words[i].value;
    }
    root->launches = (struct remat_fb_array){launches, code->launch_count};
    root->launch_begin =
        (struct remat_fb_array){code->launch_begin, code->launch_begin ? command_count + 1 : 0};
    root->word_kinds = (struct remat_fb_array){kinds, code->word_count};
    root->word_values = (struct remat_fb_array){values, code->word_count};
fail:
    return st;
}

uint64_t remat_cuda_features(const struct remat_cuda_code *code)
{
    for (uint32_t k = 0; k < code->kernel_count; k++)
        if (code->kernels[k].tensor_words)
            return REMAT_FEATURE_TENSORS;
    return 0;
}

remat_status remat_cuda_write(struct remat_writer *w, const struct remat_cuda_code *code,
                              uint32_t command_count, struct remat_fb_tables *out)
{
    remat_status st = REMAT_OK;
    struct remat_fb_program_CudaCode root = {.workspace_bytes = code->workspace_bytes,
                                             .nvrtc_version = code->nvrtc_version};
    uint32_t *id;
    if (!code->launch_begin && !code->kernel_count && !code->prelude_count && !code->word_count &&
        !code->workspace_bytes)
        return REMAT_OK;
    REMAT_TRY_NEW(w->scratch, id, 1);
    REMAT_TRY(remat_writer_texts(w, code->preludes, code->prelude_count, true, &root.preludes));
    REMAT_TRY(write_kernels(w, code, &root.kernels));
    REMAT_TRY(write_launches(w, code, command_count, &root));
    REMAT_TRY(write_cubins(w, code, &root.cubins));
    *id = remat_fb_write_program_CudaCode(w->builder, &root);
    *out = (struct remat_fb_tables){id, 1};
fail:
    return st;
}
