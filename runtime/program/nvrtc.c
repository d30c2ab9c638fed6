/* SPDX-License-Identifier: Apache-2.0 */
#include "nvrtc.h"

#include <dlfcn.h>
#include <stdlib.h>

#define LINES_SHOWN  2 /* before and after the one at fault */
#define WARNINGS_MAX 1000

enum { OUT_OF_MEMORY = 1 }; /* nvrtcResult */

/* What the numerics rules need: no contraction, and subnormals flushed as the CPU device does. */
static const char *const numerics_options[] = {
    "--fmad=false",        "--ftz=true", "--prec-div=true", "--prec-sqrt=true", "--std=c++17",
    "--diag-suppress=177", NULL};

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
    FUNCTION(GetSupportedArchs, int *)                                                             \
    FUNCTION(Version, int *, int *)

struct remat_nvrtc {
    remat_context *ctx;
    void *builtins, *library;
#define FUNCTION(name, ...) int (*name)(__VA_ARGS__);
    FUNCTIONS
#undef FUNCTION
};

static const struct {
    const char *soname;
    int version;
} candidates[] = {{"libnvrtc.so.13", 13000}, {"libnvrtc.so.12", 12000}};

static void *open_in(const char *folder, const char *soname, int flags)
{
    char path[4096];
    int length =
        snprintf(path, sizeof path, "%s%s%s", folder ? folder : "", folder ? "/" : "", soname);
    return length < (int)sizeof path ? dlopen(path, RTLD_NOW | flags) : NULL;
}

/* When it compiles, libnvrtc looks for its builtins by name only, so those beside it have to be
 * open before. */
static void open_builtins(struct remat_nvrtc *nvrtc, const char *folder)
{
    char soname[64];
    int major, minor;
    remat_nvrtc_version(nvrtc, &major, &minor);
    snprintf(soname, sizeof soname, "libnvrtc-builtins.so.%d.%d", major, minor);
    nvrtc->builtins = open_in(folder, soname, RTLD_GLOBAL);
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

remat_status remat_nvrtc_open(remat_context *ctx, const char *folder, int driver_version,
                              struct remat_nvrtc **out)
{
    remat_status st = REMAT_OK;
    struct remat_nvrtc *nvrtc = remat_reallocate(ctx, NULL, sizeof *nvrtc);
    *out = nvrtc;
    if (!nvrtc)
        return REMAT_ERROR_MEMORY;
    *nvrtc = (struct remat_nvrtc){.ctx = ctx};
    bool newest = !driver_version || driver_version >= candidates[0].version;
    for (size_t c = newest ? 0 : 1; c < sizeof candidates / sizeof *candidates; c++)
        if (!nvrtc->library)
            nvrtc->library = open_in(folder, candidates[c].soname, RTLD_LOCAL);
    if (!nvrtc->library)
        REMAT_FAIL(ctx, REMAT_ERROR_IO,
                   "cannot open NVRTC, %slibnvrtc.so.12%s%s: install a CUDA toolkit or the wheel "
                   "nvidia-cuda-nvrtc%s, or name the folder of the library with %s",
                   newest ? "libnvrtc.so.13 or " : "", folder ? ", in " : "", folder ? folder : "",
                   newest ? "" : "-cu12", driver_version ? "--cuda-libraries" : "--nvrtc");
    REMAT_TRY(find_functions(nvrtc));
    if (folder)
        open_builtins(nvrtc, folder);
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

void remat_nvrtc_version(const struct remat_nvrtc *nvrtc, int *major, int *minor)
{
    if (nvrtc->Version(major, minor))
        *major = *minor = 0;
}

uint32_t remat_nvrtc_number(const struct remat_nvrtc *nvrtc)
{
    int major, minor;
    remat_nvrtc_version(nvrtc, &major, &minor);
    return (uint32_t)(1000 * major + 10 * minor);
}

remat_status remat_nvrtc_check(const struct remat_nvrtc *nvrtc, const char *arch)
{
    int count = 0, known[64], old = 0;
    char list[64 * 16] = "", name[16];
    if (nvrtc->GetNumSupportedArchs(&count) || count > 64 || nvrtc->GetSupportedArchs(known))
        count = 0;
    for (int k = 0; k < count; k++) {
        if (known[k] < REMAT_LEAST_ARCH)
            continue;
        snprintf(name, sizeof name, "sm_%d", known[k]);
        if (strcmp(name, arch) == 0)
            return REMAT_OK;
        snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s", *list ? ", " : "", name);
    }
    if (sscanf(arch, "sm_%9d", &old) == 1 && old > 0 && old < REMAT_LEAST_ARCH)
        return remat_error(
            nvrtc->ctx, REMAT_ERROR_USAGE,
            "architecture '%s' is too old: kernels need sm_%d or later (accepted: %s)", arch,
            REMAT_LEAST_ARCH, list);
    return remat_error(nvrtc->ctx, REMAT_ERROR_USAGE,
                       "architecture '%s' is unknown to this NVRTC (accepted: %s)", arch, list);
}

/* --- what the log says --- */

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

/* The lines of the text around line `number`, numbered, in one. */
static void number_lines(const char *text, unsigned long number, struct remat_text *out)
{
    const char *line = text;
    for (unsigned long n = 1; *line && n <= number + LINES_SHOWN; n++) {
        size_t length = strcspn(line, "\n");
        if (n + LINES_SHOWN >= number)
            remat_text_append(out, " | %s%lu  %.*s", n == number ? "> " : "", n,
                              (int)(length < 100 ? length : 100), line);
        line += length + (line[length] == '\n');
    }
}

/* The first error of the log, and the lines of the text that it is about. */
static remat_status report_error(remat_context *ctx, struct remat_arena *arena, const char *key,
                                 const char *text, const char *arch, const char *log)
{
    const char *error = strstr(log, "error"), *line = error ? error : log;
    while (line > log && line[-1] != '\n')
        line--;
    size_t length = strcspn(line, "\n");
    const char *parenthesis = memchr(line, '(', length);
    unsigned long number = parenthesis ? strtoul(parenthesis + 1, NULL, 10) : 0;
    struct remat_text source = {.arena = arena};
    if (number)
        number_lines(text, number, &source);
    return remat_error(ctx, REMAT_ERROR_INTERNAL, "kernel %.200s for %s does not compile: %.*s%s",
                       key, arch, (int)(length < 300 ? length : 300), line,
                       source.count ? source.items : "");
}

/* The lines that have "warning" in them, as one. */
static const char *join_warnings(struct remat_arena *arena, const char *log)
{
    struct remat_text out = {.arena = arena};
    for (const char *line = log; *line;) {
        size_t length = strcspn(line, "\n");
        const char *found = strstr(line, "warning");
        if (found && found < line + length && out.count + length < WARNINGS_MAX)
            remat_text_append(&out, "%s%.*s", out.count ? "; " : "", (int)length, line);
        line += length + (line[length] == '\n');
    }
    for (size_t i = 0; i < out.count; i++)
        if (out.items[i] < ' ' || out.items[i] > '~')
            out.items[i] = ' ';
    return out.failed ? NULL : out.count ? out.items : "";
}

/* --- compiling --- */

static remat_status read_results(const struct remat_nvrtc *nvrtc, struct remat_arena *arena,
                                 void *program, const char *log, struct remat_cubin *out)
{
    remat_status st = REMAT_OK;
    remat_context *ctx = arena->ctx;
    char *data;
    size_t bytes;
    if (nvrtc->GetCUBINSize(program, &bytes))
        REMAT_FAIL(ctx, REMAT_ERROR_INTERNAL, "NVRTC made no cubin");
    REMAT_TRY_NEW(arena, data, bytes);
    if (nvrtc->GetCUBIN(program, data))
        REMAT_FAIL(ctx, REMAT_ERROR_INTERNAL, "NVRTC made no cubin");
    out->data = data;
    out->bytes = bytes;
    out->registers = number_before(log, " registers");
    uint32_t spills =
        number_before(log, " bytes spill stores") + number_before(log, " bytes spill loads");
    uint32_t frame = number_before(log, " bytes stack frame"); /* also of arrays in local memory */
    out->spill_bytes = spills > frame ? spills : frame;
    out->shared_bytes = number_before(log, " bytes smem");
    out->warnings = join_warnings(arena, log);
    if (!out->warnings)
        return REMAT_ERROR_MEMORY;
    if (out->registers == 0)
        st = remat_error(ctx, REMAT_ERROR_INTERNAL, "ptxas did not say what it used");
fail:
    return st;
}

void remat_nvrtc_options(const struct remat_nvrtc *nvrtc, const char *arch,
                         struct remat_nvrtc_options *out)
{
    out->count = 0;
    snprintf(out->arch, sizeof out->arch, "--gpu-architecture=%.10s", arch);
    out->items[out->count++] = out->arch;
    out->items[out->count++] = "--ptxas-options=-v";
    /* Its default is to change the limits of the process. */
    out->items[out->count++] = "--modify-stack-limit=false";
    /* What it finds in the driver's cache has no log. */
    if (remat_nvrtc_number(nvrtc) >= 12090)
        out->items[out->count++] = "--no-cache";
    for (const char *const *o = numerics_options; *o && out->count < REMAT_NVRTC_OPTIONS_MAX; o++)
        out->items[out->count++] = *o;
}

remat_status remat_nvrtc_compile(const struct remat_nvrtc *nvrtc, struct remat_arena *arena,
                                 const char *key, const char *text, const char *arch,
                                 struct remat_cubin *out)
{
    remat_status st = REMAT_OK;
    void *program = NULL;
    size_t log_bytes = 0;
    char *log;
    struct remat_nvrtc_options options;
    remat_nvrtc_options(nvrtc, arch, &options);
    int created = nvrtc->CreateProgram(&program, text, "kernel.cu", 0, NULL, NULL),
        failed = created;
    if (!created)
        failed = nvrtc->CompileProgram(program, (int)options.count, options.items);
    if (failed == OUT_OF_MEMORY)
        REMAT_FAIL(arena->ctx, REMAT_ERROR_MEMORY, "kernel %.200s: NVRTC is out of memory", key);
    if (created)
        REMAT_FAIL(arena->ctx, REMAT_ERROR_INTERNAL, "kernel %s: NVRTC does not take the text",
                   key);
    if (nvrtc->GetProgramLogSize(program, &log_bytes))
        log_bytes = 0;
    REMAT_TRY_NEW(arena, log, log_bytes + 1);
    if (log_bytes && nvrtc->GetProgramLog(program, log))
        log[0] = 0;
    st = failed ? report_error(arena->ctx, arena, key, text, arch, log)
                : read_results(nvrtc, arena, program, log, out);
fail:
    if (program)
        nvrtc->DestroyProgram(&program);
    return st;
}
