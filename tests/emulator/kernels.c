#include "kernels.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void die(const char *what)
{
    fprintf(stderr, "FAILED %s\n", what);
    exit(1);
}

void *kernels_compile(const char *compiler, const char *text)
{
    char directory[] = "/tmp/remat-emulator-XXXXXX", source[64], library[64], command[1024];
    if (!mkdtemp(directory))
        die("mkdtemp");
    snprintf(source, sizeof source, "%s/kernels.cu", directory);
    snprintf(library, sizeof library, "%s/kernels.so", directory);
    FILE *file = fopen(source, "w");
    if (!file || fputs(text, file) < 0 || fclose(file) != 0)
        die("writing the kernels' text");
    snprintf(command, sizeof command,
             "%s -x c -std=c11 -O1 -w -fPIC -shared -ffp-contract=off -fno-math-errno -include "
             "%s/primitives.h -o %s %s",
             compiler, EMULATOR_FOLDER, library, source);
    if (system(command) != 0)
        die(command);
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        die(dlerror());
    unlink(source);
    unlink(library);
    rmdir(directory);
    return handle;
}

emulator_kernel *kernels_find(void *library, const char *symbol)
{
    emulator_kernel *kernel;
    void *address = dlsym(library, symbol);
    if (!address)
        die(symbol);
    memcpy(&kernel, &address, sizeof kernel);
    return kernel;
}

void kernels_close(void *library)
{
    dlclose(library);
}

char *kernels_text(const struct remat_cuda_code *code)
{
    size_t length = 1;
    for (uint32_t i = 0; i < code->prelude_count; i++)
        length += strlen(code->preludes[i]);
    for (uint32_t k = 0; k < code->kernel_count; k++)
        length += strlen(code->kernels[k].text);
    char *text = malloc(length), *end = text;
    if (!text)
        die("out of memory");
    for (uint32_t i = 0; i < code->prelude_count; i++)
        end = stpcpy(end, code->preludes[i]);
    for (uint32_t k = 0; k < code->kernel_count; k++)
        end = stpcpy(end, code->kernels[k].text);
    *end = 0;
    return text;
}

static uint64_t reach_of(const struct remat_command *command, const struct remat_operand *operand)
{
    uint64_t reach = 1;
    for (uint32_t k = 0; k < operand->rank; k++) {
        int64_t length = operand->rank == command->rank && operand->shape[k] < command->space[k]
                             ? command->space[k]
                             : operand->shape[k];
        reach += (uint64_t)(length - 1) * (uint64_t)operand->strides[k];
    }
    return reach;
}

const char *kernels_run(struct emulator *emulator, const struct remat_program *program,
                        const struct remat_cuda_code *code, emulator_kernel *const *kernels,
                        uint32_t c, uint64_t seed, char *memory, char *workspace, uint64_t order)
{
    const struct remat_command *command = &program->commands[c];
    struct emulator_range ranges[REMAT_CUDA_WORDS_MAX];
    uint32_t count = 0;
    for (uint32_t o = command->operand_begin; o < command->operand_end; o++) {
        const struct remat_operand *operand = &program->operands[o];
        uint32_t bytes = remat_dtype_bytes((remat_dtype)operand->dtype);
        char *begin = memory +
                      program->buffers[program->values[operand->value].buffer].offset_bytes +
                      operand->offset_elements * bytes;
        ranges[count++] = (struct emulator_range){begin, begin + reach_of(command, operand) * bytes,
                                                  operand->access != REMAT_ACCESS_WRITE,
                                                  operand->access != REMAT_ACCESS_READ};
    }
    ranges[count++] =
        (struct emulator_range){workspace, workspace + code->workspace_bytes, true, true};
    for (uint32_t l = code->launch_begin[c]; l < code->launch_begin[c + 1]; l++) {
        const struct remat_cuda_launch *launch = &code->launches[l];
        struct emulator_launch run = {.kernel = kernels[launch->kernel],
                                      .blocks = launch->blocks,
                                      .threads = code->kernels[launch->kernel].threads,
                                      .shared_bytes = code->kernels[launch->kernel].shared_bytes,
                                      .ranges = ranges,
                                      .range_count = count,
                                      .order = order};
        for (uint32_t w = launch->word_begin; w < launch->word_end; w++) {
            const struct remat_cuda_word *word = &code->words[w];
            const char *base = word->kind == REMAT_CUDA_ARENA       ? memory
                               : word->kind == REMAT_CUDA_WORKSPACE ? workspace
                                                                    : NULL;
            run.arguments.word[w - launch->word_begin] = base ? (uintptr_t)(base + word->value)
                                                         : word->kind == REMAT_CUDA_SEED
                                                             ? seed
                                                             : word->value;
        }
        const char *fault = emulator_run(emulator, &run);
        if (fault)
            return fault;
    }
    return NULL;
}
