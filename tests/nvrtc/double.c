/* SPDX-License-Identifier: Apache-2.0 */
/* A look-alike of NVRTC: its cubins are "ARCH OPTIONS\n" and the text, of sm_80 and sm_90; a line
 * with #error does not compile (#error slowly: after 20 ms), one with #warning warns. It is 13.0,
 * or 13.NVRTC_DOUBLE_MINOR of the environment. No state, so threads may share it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PUBLIC __attribute__((visibility("default")))

struct program {
    char *text, *cubin, log[512];
};

PUBLIC int nvrtcVersion(int *major, int *minor);
PUBLIC int nvrtcGetNumSupportedArchs(int *count);
PUBLIC int nvrtcGetSupportedArchs(int *architectures);
PUBLIC int nvrtcCreateProgram(void **program, const char *text, const char *name, int headers,
                              const char *const *sources, const char *const *names);
PUBLIC int nvrtcDestroyProgram(void **program);
PUBLIC int nvrtcCompileProgram(void *program, int count, const char *const *options);
PUBLIC int nvrtcGetProgramLogSize(void *program, size_t *bytes);
PUBLIC int nvrtcGetProgramLog(void *program, char *log);
PUBLIC int nvrtcGetCUBINSize(void *program, size_t *bytes);
PUBLIC int nvrtcGetCUBIN(void *program, char *cubin);

int nvrtcVersion(int *major, int *minor)
{
    const char *set = getenv("NVRTC_DOUBLE_MINOR");
    *major = 13;
    *minor = set ? atoi(set) : 0;
    return 0;
}

int nvrtcGetNumSupportedArchs(int *count)
{
    *count = 2;
    return 0;
}

int nvrtcGetSupportedArchs(int *architectures)
{
    architectures[0] = 80;
    architectures[1] = 90;
    return 0;
}

int nvrtcCreateProgram(void **program, const char *text, const char *name, int headers,
                       const char *const *sources, const char *const *names)
{
    (void)name, (void)headers, (void)sources, (void)names;
    struct program *p = calloc(1, sizeof *p);
    *program = p;
    return !p || !(p->text = strdup(text));
}

int nvrtcDestroyProgram(void **program)
{
    struct program *p = *program;
    free(p->text);
    free(p->cubin);
    free(p);
    *program = NULL;
    return 0;
}

static int line_of(const char *text, const char *at)
{
    int line = 1;
    for (; text < at; text++)
        line += *text == '\n';
    return line;
}

int nvrtcCompileProgram(void *program, int count, const char *const *options)
{
    struct program *p = program;
    const char *error = strstr(p->text, "#error"), *warning = strstr(p->text, "#warning");
    if (error) {
        if (strncmp(error, "#error slowly", 13) == 0)
            usleep(20000);
        snprintf(p->log, sizeof p->log, "kernel.cu(%d): error: planted\n", line_of(p->text, error));
        return 6;
    }
    size_t bytes = strlen(p->text) + 4096;
    p->cubin = calloc(1, bytes);
    if (!p->cubin)
        return 1;
    for (int o = 0; o < count; o++)
        strcat(strcat(p->cubin, options[o]), " ");
    strcat(strcat(p->cubin, "\n"), p->text);
    snprintf(p->log, sizeof p->log,
             "%sptxas info    : Used %zu registers, used 0 barriers, 128 bytes smem\n"
             "    %d bytes stack frame, 12 bytes spill stores, 4 bytes spill loads\n",
             warning ? "kernel.cu(1): warning #1-D: planted\n" : "", 1 + strlen(p->text) % 255,
             strstr(p->text, "#array") ? 40 : 8);
    return 0;
}

int nvrtcGetProgramLogSize(void *program, size_t *bytes)
{
    *bytes = strlen(((struct program *)program)->log) + 1;
    return 0;
}

int nvrtcGetProgramLog(void *program, char *log)
{
    strcpy(log, ((struct program *)program)->log);
    return 0;
}

int nvrtcGetCUBINSize(void *program, size_t *bytes)
{
    *bytes = strlen(((struct program *)program)->cubin);
    return 0;
}

int nvrtcGetCUBIN(void *program, char *cubin)
{
    memcpy(cubin, ((struct program *)program)->cubin, strlen(((struct program *)program)->cubin));
    return 0;
}
