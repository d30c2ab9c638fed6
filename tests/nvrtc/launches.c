/* SPDX-License-Identifier: Apache-2.0 */
/* What a plan's commands launch, one line of JSON a command that has CUDA text: what the price of
 * the command and the instructions of its kernels can be compared by.
 *
 *     launches PLAN */
#include "file.h"
#include "program.h"

#include <program.h>
#include <stdio.h>
#include <stdlib.h>

static void print_launch(const struct remat_cuda_code *code, const struct remat_cuda_launch *l)
{
    const struct remat_cuda_kernel *kernel = &code->kernels[l->kernel];
    printf("{\"symbol\": \"%s\", \"blocks\": %u, \"threads\": %u, \"words\": [", kernel->symbol,
           l->blocks, kernel->threads);
    for (uint32_t w = l->word_begin; w < l->word_end; w++)
        printf("%s%llu", w > l->word_begin ? ", " : "", (unsigned long long)code->words[w].value);
    printf("]}");
}

static void print_operands(const struct remat_program *p, const struct remat_command *c)
{
    for (uint32_t k = c->operand_begin; k < c->operand_end; k++) {
        const struct remat_operand *o = &p->operands[k];
        printf("%s{\"value\": %u, \"previous\": %d, \"access\": %u, \"element_bytes\": %u, "
               "\"axes\": [",
               k > c->operand_begin ? ", " : "", o->value, (int)o->previous, o->access,
               remat_dtype_bytes((remat_dtype)o->dtype));
        for (uint32_t a = 0; a < o->rank; a++)
            printf("%s[%lld, %lld]", a ? ", " : "", (long long)o->shape[a],
                   (long long)o->strides[a]);
        printf("]}");
    }
}

int main(int argc, char **argv)
{
    remat_context *ctx = remat_context_create(NULL, NULL);
    struct remat_arena arena;
    struct remat_program *p;
    char *data;
    size_t bytes;
    remat_arena_init(&arena, ctx);
    if (argc != 2 || remat_file_read(ctx, argv[1], &arena, &data, &bytes) ||
        remat_program_read(ctx, argv[1], data, bytes, &arena, &p)) {
        fprintf(stderr, "%s\n", remat_context_message(ctx));
        return 1;
    }
    for (uint32_t c = 0; c < p->command_count && p->cuda.launch_begin; c++) {
        const struct remat_command *command = &p->commands[c];
        if (p->cuda.launch_begin[c] == p->cuda.launch_begin[c + 1] || !command->estimated_ns)
            continue;
        printf("{\"kernel\": \"%s\", \"kind\": \"%s\", \"ns\": %llu, \"moved_bytes\": %llu, "
               "\"launches\": [",
               p->kernels[command->kernel].key,
               remat_kernel_kind_name(p->kernels[command->kernel].kind),
               (unsigned long long)command->estimated_ns, (unsigned long long)command->moved_bytes);
        for (uint32_t l = p->cuda.launch_begin[c]; l < p->cuda.launch_begin[c + 1]; l++) {
            printf("%s", l > p->cuda.launch_begin[c] ? ", " : "");
            print_launch(&p->cuda, &p->cuda.launches[l]);
        }
        printf("], \"operands\": [");
        print_operands(p, command);
        printf("]}\n");
    }
    remat_arena_release(&arena);
    remat_context_destroy(&ctx);
    return 0;
}
