#include "nvrtc.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#define OPTIONS_MAX 16

/* FUNCTION(name without "nvrtc", arguments): as nvrtc.h has them; 0 is success. */
#define FUNCTIONS                                                                                  \
    FUNCTION(CreateProgram, void **, const char *, const char *, int, const char *const *,         \
             const char *const *)                                                                  \
    FUNCTION(DestroyProgram, void **)                                                              \
    FUNCTION(CompileProgram, void *, int, const char *const *)                                     \
    FUNCTION(GetProgramLogSize, void *, size_t *)                                                  \
    FUNCTION(GetProgramLog, void *, char *)                                                        \
    FUNCTION(GetCUBINSize, void *, size_t *)                                                       \
    FUNCTION(GetCUBIN, void *, char *)                                                             \
    FUNCTION(GetNumSupportedArchs, int *)                                                          \
    FUNCTION(GetSupportedArchs, int *)

struct remat_nvrtc {
    remat_context *ctx;
    void *builtins, *library;
#define FUNCTION(name, ...) int (*name)(__VA_ARGS__);
    FUNCTIONS
#undef FUNCTION
};

static const char *const sonames[] = {"libnvrtc.so.13", "libnvrtc.so.12"};
static const char *const builtins[] = {"libnvrtc-builtins.so.13.0", "libnvrtc-builtins.so.13.1",
                                       "libnvrtc-builtins.so.13.2", "libnvrtc-builtins.so.12.8",
                                       "libnvrtc-builtins.so.12.9"};

/* libnvrtc looks for its builtins by name only, so those beside it have to be there before. */
static void *open_in(struct remat_nvrtc *nvrtc, const char *folder, const char *soname)
{
    char path[1024];
    for (size_t b = 0; folder && b < sizeof builtins / sizeof *builtins && !nvrtc->builtins; b++) {
        snprintf(path, sizeof path, "%s/%s", folder, builtins[b]);
        nvrtc->builtins = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    }
    snprintf(path, sizeof path, "%s%s%s", folder ? folder : "", folder ? "/" : "", soname);
    return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

static remat_status find_functions(struct remat_nvrtc *nvrtc)
{
    void *address;
#define FUNCTION(name, ...)                                                                        \
    address = dlsym(nvrtc->library, "nvrtc" #name);                                                \
    if (!address)                                                                                  \
        return remat_error(nvrtc->ctx, REMAT_ERROR_IO, "NVRTC has no function nvrtc" #name);       \
    memcpy(&nvrtc->name, &address, sizeof address);
    FUNCTIONS
#undef FUNCTION
    return REMAT_OK;
}

remat_status remat_nvrtc_open(remat_context *ctx, const char *folder, struct remat_nvrtc **out)
{
    remat_status st = REMAT_OK;
    struct remat_nvrtc *nvrtc = remat_reallocate(ctx, NULL, sizeof *nvrtc);
    *out = nvrtc;
    if (!nvrtc)
        return REMAT_ERROR_MEMORY;
    *nvrtc = (struct remat_nvrtc){.ctx = ctx};
    for (size_t s = 0; s < sizeof sonames / sizeof *sonames && !nvrtc->library; s++)
        nvrtc->library = open_in(nvrtc, folder, sonames[s]);
    if (!nvrtc->library)
        REMAT_FAIL(ctx, REMAT_ERROR_IO,
                   "cannot open NVRTC, %s or %s%s%s: install a CUDA toolkit or the wheel "
                   "nvidia-cuda-nvrtc, or name the folder of the library",
                   sonames[0], sonames[1], folder ? ", in " : "", folder ? folder : "");
    REMAT_TRY(find_functions(nvrtc));
    return REMAT_OK;
fail:
    remat_nvrtc_close(out);
    return st;
}

void remat_nvrtc_close(struct remat_nvrtc **nvrtc)
{
    if (!*nvrtc)
        return;
    if ((*nvrtc)->library)
        dlclose((*nvrtc)->library);
    if ((*nvrtc)->builtins)
        dlclose((*nvrtc)->builtins);
    remat_reallocate((*nvrtc)->ctx, *nvrtc, 0);
    *nvrtc = NULL;
}

/* "sm_90a" is known where 90 is. */
static remat_status check_arch(struct remat_nvrtc *nvrtc, struct remat_arena *arena,
                               const char *arch)
{
    remat_status st = REMAT_OK;
    int count = 0, *known;
    long number = strncmp(arch, "sm_", 3) == 0 ? strtol(arch + 3, NULL, 10) : 0;
    struct remat_text text = {.arena = arena};
    if (nvrtc->GetNumSupportedArchs(&count))
        count = 0;
    REMAT_NEW(arena, known, (size_t)count);
    if (count && nvrtc->GetSupportedArchs(known))
        count = 0;
    for (int k = 0; k < count; k++) {
        if (known[k] == number)
            return REMAT_OK;
        remat_text_append(&text, "%ssm_%d", k ? ", " : "", known[k]);
    }
    st = remat_error(nvrtc->ctx, REMAT_ERROR_USAGE,
                     "architecture '%s' is unknown to this NVRTC (accepted: %s)", arch,
                     text.items ? text.items : "");
fail:
    return st;
}

/* The number before the text, 0 without it. */
static uint32_t number_before(const char *log, const char *text)
{
    const char *at = strstr(log, text);
    while (at && at > log && at[-1] == ' ')
        at--;
    while (at && at > log && at[-1] >= '0' && at[-1] <= '9')
        at--;
    return at ? (uint32_t)strtoul(at, NULL, 10) : 0;
}

/* The first error of the log, and the line of the text that it names. */
static remat_status report_error(struct remat_nvrtc *nvrtc, const char *key, const char *text,
                                 const char *arch, const char *log)
{
    const char *error = strstr(log, "error"), *line = error ? error : log;
    while (line > log && line[-1] != '\n')
        line--;
    const char *parenthesis = strchr(line, '(');
    unsigned long number = parenthesis ? strtoul(parenthesis + 1, NULL, 10) : 0;
    const char *source = text;
    for (unsigned long n = 1; n < number && source; n++) {
        source = strchr(source, '\n');
        source += source != NULL;
    }
    source = number && source ? source : "";
    return remat_error(nvrtc->ctx, REMAT_ERROR_INTERNAL,
                       "kernel %s for %s does not compile: %.*s; line %lu: %.*s", key, arch,
                       (int)strcspn(line, "\n"), line, number, (int)strcspn(source, "\n"), source);
}

static remat_status read_results(struct remat_nvrtc *nvrtc, struct remat_arena *arena,
                                 void *program, const char *log, struct remat_cubin *out)
{
    remat_status st = REMAT_OK;
    char *data;
    size_t bytes;
    if (nvrtc->GetCUBINSize(program, &bytes))
        REMAT_FAIL(nvrtc->ctx, REMAT_ERROR_INTERNAL, "NVRTC made no cubin");
    REMAT_NEW(arena, data, bytes);
    out->bytes = bytes;
    if (nvrtc->GetCUBIN(program, data))
        REMAT_FAIL(nvrtc->ctx, REMAT_ERROR_INTERNAL, "NVRTC made no cubin");
    out->data = data;
    out->registers = number_before(log, " registers");
    out->spill_bytes =
        number_before(log, " bytes spill stores") + number_before(log, " bytes spill loads");
    out->shared_bytes = number_before(log, " bytes smem");
    if (out->registers == 0)
        st = remat_error(nvrtc->ctx, REMAT_ERROR_INTERNAL, "ptxas did not say what it used");
fail:
    return st;
}

remat_status remat_nvrtc_compile(struct remat_nvrtc *nvrtc, struct remat_arena *arena,
                                 const struct remat_cuda_code *code, uint32_t kernel,
                                 const char *arch, struct remat_cubin *out)
{
    remat_status st = REMAT_OK;
    const char *key = code->kernels[kernel].key, *text;
    void *program = NULL;
    size_t log_bytes = 0;
    char *log, option[32];
    /* Its default is to change the limits of the process. */
    const char *options[OPTIONS_MAX] = {option, "--ptxas-options=-v", "--modify-stack-limit=false"};
    int count = 3;
    REMAT_TRY(check_arch(nvrtc, arena, arch));
    REMAT_TRY(remat_cuda_source(arena, code, kernel, &text));
    snprintf(option, sizeof option, "--gpu-architecture=%.10s", arch);
    for (const char *const *o = remat_cuda_options; *o && count < OPTIONS_MAX; o++)
        options[count++] = *o;
    if (nvrtc->CreateProgram(&program, text, code->kernels[kernel].symbol, 0, NULL, NULL))
        REMAT_FAIL(nvrtc->ctx, REMAT_ERROR_INTERNAL, "kernel %s: NVRTC does not take the text",
                   key);
    int failed = nvrtc->CompileProgram(program, count, options);
    if (nvrtc->GetProgramLogSize(program, &log_bytes))
        log_bytes = 0;
    REMAT_NEW(arena, log, log_bytes + 1);
    if (log_bytes && nvrtc->GetProgramLog(program, log))
        log[0] = 0;
    st = failed ? report_error(nvrtc, key, text, arch, log)
                : read_results(nvrtc, arena, program, log, out);
fail:
    if (program)
        nvrtc->DestroyProgram(&program);
    return st;
}
