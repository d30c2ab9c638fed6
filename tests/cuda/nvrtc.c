/* SPDX-License-Identifier: Apache-2.0 */
/* libnvrtc.so.MAJOR, which finds its builtins by name: a program's cubin is its text after one
 * line. */
#include "double.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MINOR  34 /* of no library yet */
#define EXPORT __attribute__((visibility("default")))

struct program {
    char *text, *cubin;
    bool failed;
};

EXPORT int nvrtcVersion(int *major, int *minor);
EXPORT int nvrtcCreateProgram(void **out, const char *text, const char *name, int count,
                              const char *const *headers, const char *const *names);
EXPORT int nvrtcDestroyProgram(void **program);
EXPORT int nvrtcCompileProgram(void *program, int count, const char *const *options);
EXPORT int nvrtcGetProgramLogSize(void *program, size_t *bytes);
EXPORT int nvrtcGetProgramLog(void *program, char *log);
EXPORT int nvrtcGetCUBINSize(void *program, size_t *bytes);
EXPORT int nvrtcGetCUBIN(void *program, char *cubin);
EXPORT int nvrtcGetNumSupportedArchs(int *count);
EXPORT int nvrtcGetSupportedArchs(int *archs);

static const int architectures[] = {80, 86, 89, 90, 100};
static const char log_text[] = "ptxas info : 0 bytes stack frame, 0 bytes spill stores, 0 bytes "
                               "spill loads\nptxas info : Used 32 registers, 0 bytes smem\n";

int nvrtcVersion(int *major, int *minor)
{
    *major = MAJOR;
    *minor = MINOR;
    return 0;
}

int nvrtcCreateProgram(void **out, const char *text, const char *name, int count,
                       const char *const *headers, const char *const *names)
{
    struct program *program = calloc(1, sizeof *program);
    (void)name, (void)headers, (void)names;
    program->text = strdup(text);
    *out = program;
    return count != 0;
}

int nvrtcDestroyProgram(void **handle)
{
    struct program *program = *handle;
    free(program->text);
    free(program->cubin);
    free(program);
    *handle = NULL;
    return 0;
}

int nvrtcCompileProgram(void *handle, int count, const char *const *options)
{
    static const char *const needed[] = {"--fmad=false", "--ftz=true", "--prec-div=true",
                                         "--prec-sqrt=true", "--no-cache"};
    struct program *program = handle;
    int arch = 0;
    size_t found = 0;
    for (int o = 0; o < count; o++) {
        sscanf(options[o], "--gpu-architecture=sm_%d", &arch);
        for (size_t n = 0; n < sizeof needed / sizeof *needed; n++)
            found += strcmp(options[o], needed[n]) == 0;
    }
    if (!arch || found != sizeof needed / sizeof *needed)
        return 5; /* invalid option */
    char builtins[64];
    snprintf(builtins, sizeof builtins, "libnvrtc-builtins.so.%d.%d", MAJOR, MINOR);
    program->failed = dlopen(builtins, RTLD_NOW) == NULL;
    if (program->failed)
        return 7; /* builtin operation failure */
    size_t bytes = strlen(program->text) + sizeof DOUBLE_CUBIN + 8;
    program->cubin = malloc(bytes);
    snprintf(program->cubin, bytes, DOUBLE_CUBIN "%s", MAJOR, arch, program->text);
    return 0;
}

int nvrtcGetProgramLogSize(void *program, size_t *bytes)
{
    (void)program;
    *bytes = sizeof log_text;
    return 0;
}

int nvrtcGetProgramLog(void *handle, char *log)
{
    const struct program *program = handle;
    snprintf(log, sizeof log_text, "%s",
             program->failed ? "nvrtc: error: failed to open its builtins" : log_text);
    return 0;
}

int nvrtcGetCUBINSize(void *handle, size_t *bytes)
{
    struct program *program = handle;
    *bytes = program->cubin ? strlen(program->cubin) + 1 : 0;
    return program->cubin == NULL;
}

int nvrtcGetCUBIN(void *handle, char *cubin)
{
    struct program *program = handle;
    strcpy(cubin, program->cubin);
    return 0;
}

int nvrtcGetNumSupportedArchs(int *count)
{
    *count = sizeof architectures / sizeof *architectures;
    return 0;
}

int nvrtcGetSupportedArchs(int *archs)
{
    memcpy(archs, architectures, sizeof architectures);
    return 0;
}
