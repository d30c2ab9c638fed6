/* SPDX-License-Identifier: Apache-2.0 */
#include "check.h"

#include "body.h"
#include "codegen.h"
#include "tool.h"

#include <inttypes.h>
#include <unistd.h>

#define THREADS_MAX 64

static bool has_code(const struct remat_cuda_code *code)
{
    return code->launch_begin || code->kernel_count || code->prelude_count || code->word_count ||
           code->workspace_bytes;
}

static remat_status check_cubins(remat_context *ctx, struct remat_arena *arena,
                                 const struct remat_program *program, const char *folder,
                                 struct check *out)
{
    remat_status st = REMAT_OK;
    struct remat_nvrtc *nvrtc = NULL;
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    uint32_t threads = processors < 1             ? 1
                       : processors < THREADS_MAX ? (uint32_t)processors
                                                  : THREADS_MAX;
    st = remat_nvrtc_open(ctx, folder, 0, &nvrtc);
    if (st == REMAT_ERROR_IO && !folder) {
        out->uncompared = remat_arena_format(arena, "%s", remat_context_message(ctx));
        return out->uncompared ? REMAT_OK : REMAT_ERROR_MEMORY;
    }
    REMAT_TRY(st);
    REMAT_TRY(remat_cuda_check_cubins(ctx, arena, nvrtc, threads, program, &out->uncompared));
fail:
    remat_nvrtc_close(&nvrtc);
    return st;
}

/* Another version writes other text: then nobody has to have changed it. */
static remat_status explain(remat_context *ctx, struct remat_arena *arena, const char *path,
                            const struct remat_program *program)
{
    const char *difference = remat_arena_format(arena, "%s", remat_context_message(ctx));
    const char *producer = "";
    if (strcmp(program->producer, cli_producer()) != 0)
        producer = remat_arena_format(arena, " to %s (the plan says that it is by %.100s)",
                                      cli_producer(), program->producer);
    if (!difference || !producer)
        return REMAT_ERROR_MEMORY;
    return remat_error(ctx, REMAT_ERROR_INVALID,
                       "%s: its CUDA code is not what its commands mean%s: %s", path, producer,
                       difference);
}

remat_status check_plan(remat_context *ctx, struct remat_arena *arena, const char *path,
                        const struct remat_program *program, const char *nvrtc, struct check *out)
{
    remat_status st = REMAT_OK;
    *out = (struct check){.has_text = has_code(&program->cuda)};
    if (!out->has_text)
        return REMAT_OK;
    st = remat_cuda_check_text(ctx, arena, program);
    if (st == REMAT_OK && program->cuda.cubin_count)
        st = check_cubins(ctx, arena, program, nvrtc, out);
    return st == REMAT_ERROR_INVALID ? explain(ctx, arena, path, program) : st;
}

void check_print(const struct check *check, const struct remat_program *program,
                 struct remat_text *out)
{
    const struct remat_cuda_code *code = &program->cuda;
    if (!check->has_text) {
        remat_text_append(out, "CUDA text   none: there is nothing to check\n");
        return;
    }
    remat_text_append(out,
                      "CUDA text   as derived from the plan's commands: %" PRIu32
                      " kernels, %" PRIu32 " launches\n",
                      code->kernel_count, code->launch_count);
    if (code->cubin_count == 0)
        remat_text_append(out, "cubins      none\n");
    else if (check->uncompared)
        remat_text_append(out, "cubins      NOT COMPARABLE, %" PRIu32 " of them: %s\n",
                          code->cubin_count, check->uncompared);
    else
        remat_text_append(
            out,
            "cubins      as NVRTC %" PRIu32 ".%" PRIu32 " makes them of that text: %" PRIu32 "\n",
            code->nvrtc_version / 1000, code->nvrtc_version % 1000 / 10, code->cubin_count);
}

void check_set(const struct check *check, const struct remat_program *program,
               struct dump_json *out)
{
    const struct remat_cuda_code *code = &program->cuda;
    dump_set(out, "cuda_text", json_string(check->has_text ? "equal" : "none"));
    dump_set(out, "cuda_kernels", dump_bytes(code->kernel_count));
    dump_set(out, "cuda_launches", dump_bytes(code->launch_count));
    dump_set(out, "cubins",
             json_string(code->cubin_count == 0 ? "none"
                         : check->uncompared    ? "not comparable"
                                                : "equal"));
    dump_set(out, "cubin_count", dump_bytes(code->cubin_count));
    dump_set(out, "nvrtc_version", dump_bytes(code->nvrtc_version));
    dump_set(out, "reason", check->uncompared ? json_string(check->uncompared) : json_null());
}
