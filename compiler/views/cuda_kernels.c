/* SPDX-License-Identifier: Apache-2.0 */
/* --kernels, second part: the CUDA kernels of a plan, and what NVRTC made of them. */
#include "views.h"

#include "cuda_groups.h"
#include "size.h"

#include <inttypes.h>

struct launches { /* by kernel */
    uint32_t *counts;
    uint32_t *grouped; /* where those of a group are one */
};

static remat_status count_launches(struct remat_arena *arena, const struct remat_program *program,
                                   struct launches *out)
{
    remat_status st = REMAT_OK;
    const struct remat_cuda_code *code = &program->cuda;
    struct remat_cuda_groups groups;
    REMAT_TRY_NEW(arena, out->counts, code->kernel_count);
    REMAT_TRY_NEW(arena, out->grouped, code->kernel_count);
    REMAT_TRY(remat_cuda_groups_find(arena, program, &groups));
    for (uint32_t l = 0; l < code->launch_count; l++)
        out->counts[code->launches[l].kernel]++;
    memcpy(out->grouped, out->counts, code->kernel_count * sizeof *out->counts);
    for (uint32_t g = 0; g < groups.count; g++) {
        uint32_t first = code->launch_begin[groups.commands[groups.begin[g]]];
        out->grouped[code->launches[first].kernel] -= groups.begin[g + 1] - groups.begin[g] - 1;
    }
fail:
    return st;
}

/* The end of the kernel's cubins, which begin at `begin`. */
static uint32_t cubins_end(const struct remat_cuda_code *code, uint32_t begin, uint32_t kernel)
{
    while (begin < code->cubin_count && code->cubins[begin].kernel == kernel)
        begin++;
    return begin;
}

static void print_cubin(const struct remat_cuda_kernel *kernel, const struct remat_cubin *c,
                        struct remat_text *out)
{
    remat_text_append(out, " %-7s %9" PRIu32 " %8" PRIu32 " %8" PRIu32 " %8" PRIu64, c->arch,
                      c->registers, c->spill_bytes, c->shared_bytes + kernel->shared_bytes,
                      c->bytes);
}

remat_status dump_cuda_text(struct remat_arena *arena, const struct remat_program *program,
                            struct remat_text *out)
{
    remat_status st = REMAT_OK;
    const struct remat_cuda_code *code = &program->cuda;
    struct launches launches;
    if (code->kernel_count == 0)
        return REMAT_OK;
    REMAT_TRY(count_launches(arena, program, &launches));
    remat_text_append(out, "\n%8s %7s %7s", "launches", "grouped", "threads");
    if (code->cubin_count)
        remat_text_append(out, " %-7s %9s %8s %8s %8s", "arch", "registers", "spilled", "shared",
                          "bytes");
    remat_text_append(out, "  CUDA kernel\n");
    for (uint32_t k = 0, begin = 0, end; k < code->kernel_count; k++, begin = end) {
        end = cubins_end(code, begin, k);
        for (uint32_t c = begin; c < end || c == begin; c++) {
            remat_text_append(out, "%8" PRIu32 " %7" PRIu32 " %7" PRIu32, launches.counts[k],
                              launches.grouped[k], code->kernels[k].threads);
            if (c < end)
                print_cubin(&code->kernels[k], &code->cubins[c], out);
            else if (code->cubin_count)
                remat_text_append(out, " %-7s %9s %8s %8s %8s", "-", "-", "-", "-", "-");
            remat_text_append(out, "  %s\n", code->kernels[k].key);
            if (c < end && *code->cubins[c].warnings)
                remat_text_append(out, "    %s\n", code->cubins[c].warnings);
        }
    }
fail:
    return st;
}

static json_t *make_cubin(const struct remat_cubin *c)
{
    return json_pack("{s:s,s:I,s:I,s:I,s:I,s:s}", "arch", c->arch, "registers",
                     (json_int_t)c->registers, "spill_bytes", (json_int_t)c->spill_bytes,
                     "shared_bytes", (json_int_t)c->shared_bytes, "bytes", (json_int_t)c->bytes,
                     "warnings", c->warnings);
}

remat_status dump_cuda_json(struct remat_arena *arena, const struct remat_program *program,
                            struct dump_json *out)
{
    remat_status st = REMAT_OK;
    const struct remat_cuda_code *code = &program->cuda;
    struct launches launches;
    REMAT_TRY(count_launches(arena, program, &launches));
    json_t *kernels = json_array();
    for (uint32_t k = 0, begin = 0, end; k < code->kernel_count; k++, begin = end) {
        json_t *cubins = json_array();
        end = cubins_end(code, begin, k);
        for (uint32_t c = begin; c < end; c++)
            dump_push(out, cubins, make_cubin(&code->cubins[c]));
        dump_push(out, kernels,
                  json_pack("{s:s,s:I,s:I,s:I,s:I,s:o}", "key", code->kernels[k].key, "threads",
                            (json_int_t)code->kernels[k].threads, "dynamic_shared_bytes",
                            (json_int_t)code->kernels[k].shared_bytes, "launches",
                            (json_int_t)launches.counts[k], "grouped_launches",
                            (json_int_t)launches.grouped[k], "cubins", cubins));
    }
    dump_set(out, "cuda_kernels", kernels);
fail:
    return st;
}

/* "sm_80, sm_90", each architecture once, in order of appearance. */
static void print_architectures(const struct remat_cuda_code *code, struct remat_text *out)
{
    uint32_t printed = 0;
    for (uint32_t c = 0; c < code->cubin_count; c++) {
        uint32_t before = 0;
        while (before < c && strcmp(code->cubins[before].arch, code->cubins[c].arch) != 0)
            before++;
        if (before == c)
            remat_text_append(out, "%s%s", printed++ ? ", " : "", code->cubins[c].arch);
    }
}

void dump_cuda_summary(const struct remat_program *program, struct remat_text *out)
{
    const struct remat_cuda_code *code = &program->cuda;
    if (code->kernel_count == 0) {
        remat_text_append(out, "cuda        no text\n");
        return;
    }
    remat_text_append(out, "cuda        %" PRIu32 " kernels, %" PRIu32 " launches, %s",
                      code->kernel_count, code->launch_count,
                      code->cubin_count ? "cubins for " : "no cubins");
    print_architectures(code, out);
    remat_text_append(out, "; they need %s of workspace\n",
                      remat_exact_text(code->workspace_bytes).text);
}
