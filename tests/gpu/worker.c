/* SPDX-License-Identifier: Apache-2.0 */
/* The programs of the stages in one process, which keeps the GPU's context from each to the next.
 *
 *     gpu_worker PROGRAM [ARGUMENT...]    runs one of them
 *     gpu_worker serve LIBRARIES          for each line PATH of standard input runs the lines of
 *                                         PATH.args, a program and its arguments; its input is
 *                                         PATH.in, if that is there, its output PATH.out and
 *                                         PATH.err; prints its exit code
 *
 * LIBRARIES: a folder, or "-" for the system's loader. A program may end the process. One that
 * fails may leave static variables or a broken context; the caller then starts another
 * process. */
#include "worker.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define ARGUMENTS_MAX 64
#define PATH_BYTES    4096

static const struct program {
    const char *name;
    int (*main)(int argc, char **argv);
} programs[] = {{"remat-run", run_main},
                {"bench_session", session_main},
                {"cuda_conformance", conformance_main},
                {"gpu_samples", samples_main},
                {"gpu_attention", attention_main},
                {"gpu_named", named_main},
                {"gpu_products", products_main},
                {"gpu_copy", copy_main},
                {"gpu_probe", probe_main}};

static int run_program(int argc, char **argv)
{
    for (size_t p = 0; p < sizeof programs / sizeof *programs; p++)
        if (argc > 0 && strcmp(argv[0], programs[p].name) == 0)
            return programs[p].main(argc, argv);
    fprintf(stderr, "gpu_worker: there is no program %s\n", argc > 0 ? argv[0] : "");
    return 2;
}

/* --- serving --- */

static void redirect(const char *base, const char *ending, int flags, int descriptor)
{
    char path[PATH_BYTES + 8];
    snprintf(path, sizeof path, "%s.%s", base, ending);
    int file = open(path, flags | O_CLOEXEC, 0644);
    if (file < 0)
        file = open("/dev/null", O_RDWR | O_CLOEXEC);
    dup2(file, descriptor);
    close(file);
}

static int read_arguments(const char *base, char *text, size_t bytes, char **argv)
{
    char path[PATH_BYTES + 8];
    int argc = 0;
    snprintf(path, sizeof path, "%s.args", base);
    FILE *file = fopen(path, "r");
    text[file ? fread(text, 1, bytes - 1, file) : 0] = 0;
    if (file)
        fclose(file);
    for (char *line = strtok(text, "\n"); line && argc < ARGUMENTS_MAX; line = strtok(NULL, "\n"))
        argv[argc++] = line;
    argv[argc] = NULL;
    return argc;
}

static int serve_one(const char *base)
{
    static char text[1 << 16];
    char *argv[ARGUMENTS_MAX + 1];
    int argc = read_arguments(base, text, sizeof text, argv);
    redirect(base, "in", O_RDONLY, 0);
    redirect(base, "out", O_WRONLY | O_CREAT | O_TRUNC, 1);
    redirect(base, "err", O_WRONLY | O_CREAT | O_TRUNC, 2);
    int code = run_program(argc, argv);
    while (getchar() != EOF)
        ;
    clearerr(stdin);
    fflush(stdout);
    return code;
}

static int serve(const char *libraries)
{
    remat_context *ctx = remat_context_create(NULL, NULL);
    struct cuda_driver driver;
    void *context; /* never released: the process keeps it */
    char base[PATH_BYTES];
    FILE *requests = fdopen(fcntl(0, F_DUPFD_CLOEXEC, 3), "r");
    FILE *replies = fdopen(fcntl(1, F_DUPFD_CLOEXEC, 3), "w");
    const char *folder = strcmp(libraries, "-") != 0 ? libraries : NULL;
    if (cuda_driver_open(ctx, folder, &driver) == REMAT_OK)
        cuda_context_retain(&driver, 0, &context); /* where that fails the programs say so */
    while (requests && replies && fgets(base, sizeof base, requests)) {
        base[strcspn(base, "\n")] = 0;
        fprintf(replies, "%d\n", serve_one(base));
        fflush(replies);
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "serve") == 0)
        return serve(argv[2]);
    return run_program(argc - 1, argv + 1);
}
