/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels.h"

#include "check.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Kept until the process ends: other cases and plans have the same text. */
static struct made {
    struct made *next;
    char *text;
    void *library;
} * all_made;

static void *compile(const char *compiler, const char *text)
{
    char directory[] = "/tmp/remat-emulator-XXXXXX", source[64], library[64], command[1024];
    MUST(mkdtemp(directory));
    snprintf(source, sizeof source, "%s/kernels.cu", directory);
    snprintf(library, sizeof library, "%s/kernels.so", directory);
    FILE *file = fopen(source, "w");
    MUST(file && fputs(text, file) >= 0 && fclose(file) == 0, "%s", source);
    snprintf(command, sizeof command, "%s -O0 " EMULATOR_FLAGS " -o %s %s " EMULATOR_FLAGS_AFTER,
             compiler, library, source);
    MUST(system(command) == 0, "%s", command);
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    MUST(handle, "%s", dlerror());
    unlink(source);
    unlink(library);
    rmdir(directory);
    return handle;
}

void *kernels_compile(const char *compiler, const char *text)
{
    struct made *made = all_made;
    while (made && strcmp(made->text, text) != 0)
        made = made->next;
    if (!made) {
        MUST(made = malloc(sizeof *made));
        *made = (struct made){all_made, strdup(text), compile(compiler, text)};
        all_made = made;
    }
    return made->library;
}

emulator_kernel *kernels_find(void *library, const char *symbol)
{
    emulator_kernel *kernel;
    void *address = dlsym(library, symbol);
    MUST(address, "%s", symbol);
    memcpy(&kernel, &address, sizeof kernel);
    return kernel;
}

/* The library is kept for the next that has the same text. On a GPU there is something to close. */
void kernels_close(void *library)
{
    (void)library;
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

static uint32_t add_ranges(const struct remat_program *program, uint32_t c, char *memory,
                           struct emulator_range *ranges)
{
    const struct remat_command *command = &program->commands[c];
    for (uint32_t o = command->operand_begin; o < command->operand_end; o++) {
        const struct remat_operand *operand = &program->operands[o];
        uint32_t bytes = remat_dtype_bytes((remat_dtype)operand->dtype);
        char *begin = memory +
                      program->buffers[program->values[operand->value].buffer].offset_bytes +
                      operand->offset_elements * bytes;
        *ranges++ = (struct emulator_range){begin, begin + reach_of(command, operand) * bytes,
                                            operand->access != REMAT_ACCESS_WRITE,
                                            operand->access != REMAT_ACCESS_READ};
    }
    return command->operand_end - command->operand_begin;
}

struct kernels_launch { /* of struct remat_cuda_launch, or of a group */
    uint32_t kernel, blocks, word_count;
    const struct remat_cuda_word *words;
    const struct emulator_range *ranges;
    uint32_t range_count;
};

static const char *run(const struct kernels_place *place, const struct kernels_launch *launch)
{
    const struct remat_cuda_kernel *kernel = &place->code->kernels[launch->kernel];
    struct emulator_touch touched[REMAT_CUDA_WORDS_MAX] = {{0}};
    MUST(!place->read_bytes || launch->range_count <= REMAT_CUDA_WORDS_MAX);
    struct emulator_launch out = {
        .kernel = place->kernels[launch->kernel],
        .arguments = kernels_arguments(launch->words, launch->word_count, place->seed,
                                       (uintptr_t)place->memory, (uintptr_t)place->workspace),
        .blocks = launch->blocks,
        .threads = kernel->threads,
        .shared_bytes = kernel->shared_bytes,
        .ranges = launch->ranges,
        .range_count = launch->range_count,
        .touched = place->read_bytes ? touched : NULL,
        .order = place->order};
    const char *fault = emulator_run(place->emulator, &out);
    for (uint32_t r = 0; place->read_bytes && r < launch->range_count; r++)
        *place->read_bytes += touched[r].read_bytes;
    return fault;
}

const char *kernels_run(const struct kernels_place *place, uint32_t c)
{
    const struct remat_cuda_code *code = place->code;
    struct emulator_range ranges[REMAT_CUDA_WORDS_MAX];
    uint32_t count = add_ranges(place->program, c, place->memory, ranges);
    ranges[count++] = (struct emulator_range){place->workspace,
                                              place->workspace + code->workspace_bytes, true, true};
    for (uint32_t l = code->launch_begin[c]; l < code->launch_begin[c + 1]; l++) {
        const struct remat_cuda_launch *launch = &code->launches[l];
        const char *fault =
            run(place, &(struct kernels_launch){launch->kernel, launch->blocks,
                                                launch->word_end - launch->word_begin,
                                                &code->words[launch->word_begin], ranges, count});
        if (fault)
            return fault;
    }
    return NULL;
}

const char *kernels_run_group(const struct kernels_place *place,
                              const struct remat_cuda_groups *groups, uint32_t group)
{
    struct emulator_range *ranges = NULL;
    struct remat_cuda_joint joint;
    uint32_t count = 0;
    remat_cuda_groups_join(place->code, groups, group, &joint);
    for (uint32_t i = groups->begin[group]; i < groups->begin[group + 1]; i++) {
        const struct remat_command *command = &place->program->commands[groups->commands[i]];
        size_t more = count + command->operand_end - command->operand_begin;
        ranges = realloc(ranges, more * sizeof *ranges);
        MUST(ranges);
        count += add_ranges(place->program, groups->commands[i], place->memory, &ranges[count]);
    }
    const char *fault =
        run(place, &(struct kernels_launch){joint.kernel, joint.blocks, joint.word_count,
                                            joint.words, ranges, count});
    free(ranges);
    return fault;
}
