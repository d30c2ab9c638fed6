#include "cuda_write.h"

static remat_status write_kernels(struct remat_writer *w, const struct remat_cuda_code *code,
                                  struct remat_fb_program_CudaCode *root)
{
    remat_status st = REMAT_OK;
    uint32_t *preludes, *kernels;
    REMAT_NEW(w->scratch, preludes, code->prelude_count);
    REMAT_NEW(w->scratch, kernels, code->kernel_count);
    for (uint32_t i = 0; i < code->prelude_count; i++)
        preludes[i] = remat_fb_write_text(w->builder, code->preludes[i], strlen(code->preludes[i]));
    for (uint32_t i = 0; i < code->kernel_count; i++) {
        const struct remat_cuda_kernel *from = &code->kernels[i];
        struct remat_fb_program_CudaKernel in = {.prelude = (int32_t)from->prelude,
                                                 .threads = from->threads,
                                                 .shared_bytes = from->shared_bytes};
        REMAT_TRY(remat_writer_text(w, from->key, &in.key));
        REMAT_TRY(remat_writer_text(w, from->symbol, &in.symbol));
        REMAT_TRY(remat_writer_text(w, from->text, &in.text));
        kernels[i] = remat_fb_write_program_CudaKernel(w->builder, &in);
    }
    root->preludes = (struct remat_fb_tables){preludes, code->prelude_count};
    root->kernels = (struct remat_fb_tables){kernels, code->kernel_count};
fail:
    return st;
}

static remat_status write_launches(struct remat_writer *w, const struct remat_cuda_code *code,
                                   uint32_t command_count, struct remat_fb_program_CudaCode *root)
{
    remat_status st = REMAT_OK;
    struct remat_fb_cuda_launch *launches;
    uint8_t *kinds;
    uint64_t *values;
    REMAT_NEW(w->scratch, launches, code->launch_count);
    REMAT_NEW(w->scratch, kinds, code->word_count);
    REMAT_NEW(w->scratch, values, code->word_count);
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

static remat_status write_cubins(struct remat_writer *w, const struct remat_cuda_code *code,
                                 struct remat_fb_program_CudaCode *root)
{
    remat_status st = REMAT_OK;
    uint32_t *ids;
    REMAT_NEW(w->scratch, ids, code->cubin_count);
    for (uint32_t i = 0; i < code->cubin_count; i++) {
        const struct remat_cubin *from = &code->cubins[i];
        struct remat_fb_program_Cubin in = {.kernel = (int32_t)from->kernel,
                                            .data = {from->data, (uint32_t)from->bytes},
                                            .registers = from->registers,
                                            .spill_bytes = from->spill_bytes,
                                            .shared_bytes = from->shared_bytes};
        REMAT_TRY(remat_writer_text(w, from->arch, &in.arch));
        REMAT_TRY(remat_writer_text(w, from->warnings, &in.warnings));
        ids[i] = remat_fb_write_program_Cubin(w->builder, &in);
    }
    root->cubins = (struct remat_fb_tables){ids, code->cubin_count};
fail:
    return st;
}

remat_status remat_cuda_write(struct remat_writer *w, const struct remat_cuda_code *code,
                              uint32_t command_count, struct remat_fb_tables *out)
{
    remat_status st = REMAT_OK;
    struct remat_fb_program_CudaCode root = {.workspace_bytes = code->workspace_bytes};
    uint32_t *id;
    if (!code->launch_begin && !code->kernel_count && !code->prelude_count && !code->word_count &&
        !code->workspace_bytes)
        return REMAT_OK;
    REMAT_NEW(w->scratch, id, 1);
    REMAT_TRY(write_kernels(w, code, &root));
    REMAT_TRY(write_launches(w, code, command_count, &root));
    REMAT_TRY(write_cubins(w, code, &root));
    *id = remat_fb_write_program_CudaCode(w->builder, &root);
    *out = (struct remat_fb_tables){id, 1};
fail:
    return st;
}
