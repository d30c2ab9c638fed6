/* SPDX-License-Identifier: Apache-2.0 */
#include "cuda_read.h"

static remat_status read_preludes(struct remat_reader *reader,
                                  const struct remat_fb_program_CudaCode *root,
                                  struct remat_cuda_code *code)
{
    remat_status st = REMAT_OK;
    REMAT_READER_NEW_TABLES(reader, root, code, preludes, prelude_count);
    for (uint32_t i = 0; i < code->prelude_count; i++) {
        struct remat_fb_text in;
        remat_fb_read_text(root->preludes, i, &in);
        REMAT_TRY(remat_reader_lines(reader, in, "cuda.preludes", i, &code->preludes[i]));
    }
fail:
    return st;
}

static remat_status read_kernels(struct remat_reader *reader,
                                 const struct remat_fb_program_CudaCode *root,
                                 struct remat_cuda_code *code)
{
    remat_status st = REMAT_OK;
    REMAT_READER_NEW_TABLES(reader, root, code, kernels, kernel_count);
    for (uint32_t i = 0; i < code->kernel_count; i++) {
        struct remat_fb_program_CudaKernel in;
        struct remat_cuda_kernel *out = &code->kernels[i];
        remat_fb_read_program_CudaKernel(root->kernels, i, &in);
        *out = (struct remat_cuda_kernel){.prelude = (uint32_t)in.prelude,
                                          .threads = in.threads,
                                          .shared_bytes = in.shared_bytes,
                                          .tensor_words = in.tensor_words};
        REMAT_TRY(remat_reader_text(reader, in.key, "cuda.kernels", i, &out->key));
        REMAT_TRY(remat_reader_text(reader, in.symbol, "cuda.kernels", i, &out->symbol));
        REMAT_TRY(remat_reader_lines(reader, in.text, "cuda.kernels", i, &out->text));
    }
fail:
    return st;
}

static remat_status read_launches(struct remat_reader *reader,
                                  const struct remat_fb_program_CudaCode *root,
                                  uint32_t command_count, struct remat_cuda_code *code)
{
    remat_status st = REMAT_OK;
    if (root->launch_begin.count && root->launch_begin.count != (uint64_t)command_count + 1)
        REMAT_FAIL(reader->ctx, REMAT_ERROR_INVALID, "%s: cuda.launch_begin: %u for %u commands",
                   reader->name, root->launch_begin.count, command_count);
    REMAT_TRY(
        remat_reader_claim(reader, root->launches.count, sizeof(struct remat_fb_cuda_launch)));
    REMAT_TRY(remat_reader_claim(reader, root->launch_begin.count, sizeof(uint32_t)));
    REMAT_TRY_NEW(reader->arena, code->launches, root->launches.count);
    code->launch_count = root->launches.count;
    for (uint32_t i = 0; i < code->launch_count; i++) {
        struct remat_fb_cuda_launch in;
        memcpy(&in, (const char *)root->launches.data + i * sizeof in, sizeof in);
        code->launches[i] =
            (struct remat_cuda_launch){in.kernel, in.blocks, in.word_begin, in.word_end};
    }
    if (!root->launch_begin.count)
        return REMAT_OK;
    REMAT_TRY_NEW(reader->arena, code->launch_begin, root->launch_begin.count);
    for (uint32_t i = 0; i < root->launch_begin.count; i++)
        code->launch_begin[i] = remat_fb_u32(root->launch_begin, i);
fail:
    return st;
}

static remat_status read_words(struct remat_reader *reader,
                               const struct remat_fb_program_CudaCode *root,
                               struct remat_cuda_code *code)
{
    remat_status st = REMAT_OK;
    if (root->word_kinds.count != root->word_values.count)
        REMAT_FAIL(reader->ctx, REMAT_ERROR_INVALID, "%s: cuda: %u word_kinds, %u word_values",
                   reader->name, root->word_kinds.count, root->word_values.count);
    REMAT_TRY(remat_reader_claim(reader, root->word_values.count, 1 + sizeof(uint64_t)));
    REMAT_TRY_NEW(reader->arena, code->words, root->word_values.count);
    code->word_count = root->word_values.count;
    for (uint32_t i = 0; i < code->word_count; i++)
        code->words[i] = (struct remat_cuda_word){remat_fb_u8(root->word_kinds, i),
                                                  remat_fb_u64(root->word_values, i)};
fail:
    return st;
}

static remat_status read_cubins(struct remat_reader *reader,
                                const struct remat_fb_program_CudaCode *root,
                                struct remat_cuda_code *code)
{
    remat_status st = REMAT_OK;
    REMAT_READER_NEW_TABLES(reader, root, code, cubins, cubin_count);
    for (uint32_t i = 0; i < code->cubin_count; i++) {
        struct remat_fb_program_Cubin in;
        struct remat_cubin *out = &code->cubins[i];
        remat_fb_read_program_Cubin(root->cubins, i, &in);
        *out = (struct remat_cubin){.kernel = (uint32_t)in.kernel,
                                    .data = in.data.data,
                                    .bytes = in.data.count,
                                    .registers = in.registers,
                                    .spill_bytes = in.spill_bytes,
                                    .shared_bytes = in.shared_bytes};
        REMAT_TRY(remat_reader_claim(reader, in.data.count, 1));
        REMAT_TRY(remat_reader_text(reader, in.arch, "cuda.cubins", i, &out->arch));
        REMAT_TRY(remat_reader_text(reader, in.warnings, "cuda.cubins", i, &out->warnings));
    }
fail:
    return st;
}

remat_status remat_cuda_read(struct remat_reader *reader, struct remat_fb_tables codes,
                             uint32_t command_count, struct remat_cuda_code *out)
{
    remat_status st = REMAT_OK;
    struct remat_fb_program_CudaCode root;
    *out = (struct remat_cuda_code){0};
    if (codes.count == 0)
        return REMAT_OK;
    if (codes.count > 1)
        REMAT_FAIL(reader->ctx, REMAT_ERROR_INVALID, "%s: cuda: %u tables, at most one is possible",
                   reader->name, codes.count);
    remat_fb_read_program_CudaCode(codes, 0, &root);
    out->workspace_bytes = root.workspace_bytes;
    out->nvrtc_version = root.nvrtc_version;
    REMAT_TRY(read_preludes(reader, &root, out));
    REMAT_TRY(read_kernels(reader, &root, out));
    REMAT_TRY(read_launches(reader, &root, command_count, out));
    REMAT_TRY(read_words(reader, &root, out));
    REMAT_TRY(read_cubins(reader, &root, out));
fail:
    return st;
}
