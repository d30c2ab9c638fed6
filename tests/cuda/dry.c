/* SPDX-License-Identifier: Apache-2.0 */
/* What the CUDA device asks of the driver for a plan too large to run here: every launch, product
 * and fill as the double writes it down (REMAT_DOUBLE_DRY), against the plan's own numbers: blocks,
 * threads, shared memory, words, addresses, bytes.
 *
 *     dry PLAN LIBRARIES LOG */
#include "cuda_api.h"
#include "plan.h"

#include <remat/remat.h>

#include <stdio.h>
#include <stdlib.h>

static int faults;

static void must(remat_context *ctx, remat_status status)
{
    if (status) {
        printf("FAILED %s\n", remat_context_message(ctx));
        exit(1);
    }
}

static int look(void *user, const remat_trace_event *event)
{
    (void)user, (void)event;
    return 0;
}

/* The next line must be `expected`. */
static void check(FILE *log, const char *expected, const char *what)
{
    char line[2048] = "nothing\n";
    if (!fgets(line, sizeof line, log) || strcmp(line, expected) != 0) {
        if (faults++ == 0)
            printf("FAILED %s: %sand should be %s", what, line, expected);
    }
}

static void check_launch(FILE *log, const struct remat_program *p, uint64_t arena, uint32_t l,
                         const char *what)
{
    const struct remat_cuda_launch *launch = &p->cuda.launches[l];
    const struct remat_cuda_kernel *kernel = &p->cuda.kernels[launch->kernel];
    const uint64_t bases[] = {[REMAT_CUDA_VALUE] = 0,
                              [REMAT_CUDA_ARENA] = arena,
                              [REMAT_CUDA_WORKSPACE] = arena + p->static_bytes - p->workspace_bytes,
                              [REMAT_CUDA_SEED] = 7};
    char line[2048];
    int at = snprintf(line, sizeof line, "launch %u %u %u", launch->blocks, kernel->threads,
                      kernel->shared_bytes);
    for (uint32_t w = 0; w < REMAT_CUDA_WORDS_MAX; w++) {
        bool given = launch->word_begin + w < launch->word_end;
        const struct remat_cuda_word *word = &p->cuda.words[launch->word_begin + (given ? w : 0)];
        at += snprintf(line + at, sizeof line - (size_t)at, " %llx",
                       given ? (unsigned long long)(bases[word->kind] + word->value) : 0);
    }
    strcpy(line + at, "\n");
    check(log, line, what);
}

/* Operands of a matmul: two that are read, then the one that is written. cuBLASLt's matrices are by
 * columns, so the first of ours may be its second. */
static void check_product(FILE *log, const struct remat_program *p, uint64_t arena,
                          const struct remat_command *command)
{
    uint64_t address[3];
    unsigned long long a = 0, b = 0, d = 0, rows = 0, columns = 0, results = 1;
    const struct remat_operand *o = &p->operands[command->operand_begin];
    for (uint32_t i = 0; i < 3; i++)
        address[i] = arena + p->buffers[p->values[o[i].value].buffer].offset_bytes +
                     o[i].offset_elements * remat_dtype_bytes((remat_dtype)o[i].dtype);
    for (uint32_t k = 0; k < o[2].rank; k++)
        results *= (unsigned long long)o[2].shape[k];
    bool read = fscanf(log, "product %llx %llx %llx %llu %llu\n", &a, &b, &d, &rows, &columns) == 5;
    bool same = read && d == address[2] && rows * columns == results &&
                ((a == address[0] && b == address[1]) || (a == address[1] && b == address[0]));
    if (!same && faults++ == 0)
        printf("FAILED %s: a product of %llx and %llx to %llx, %llu x %llu\n", command->name, a, b,
               d, rows, columns);
}

static void check_segment(FILE *log, const struct remat_program *p, uint64_t arena,
                          const struct remat_segment *segment, uint32_t *most_blocks)
{
    for (uint32_t c = segment->command_begin; c < segment->command_end; c++) {
        const struct remat_command *command = &p->commands[c];
        if (p->kernels[command->kernel].kind == REMAT_KERNEL_matmul)
            check_product(log, p, arena, command);
        for (uint32_t l = p->cuda.launch_begin[c]; l < p->cuda.launch_begin[c + 1]; l++) {
            check_launch(log, p, arena, l, command->name);
            if (p->cuda.launches[l].blocks > *most_blocks)
                *most_blocks = p->cuda.launches[l].blocks;
        }
    }
}

static void check_log(FILE *log, const struct remat_program *p, uint32_t *most_blocks)
{
    unsigned long long arena = 0, bytes = 0;
    char fill[128];
    if (fscanf(log, "allocation %llx %llu\n", &arena, &bytes) != 2 || bytes != p->arena_bytes)
        printf("FAILED an arena of %llu bytes\n", bytes), faults++;
    snprintf(fill, sizeof fill, "fill %llx %llu\n", arena, (unsigned long long)p->arena_bytes);
    check(log, fill, "bind");
    for (uint32_t e = 0; e < p->entry_count; e++)
        for (uint32_t k = p->entries[e].call_begin;
             strcmp(p->entries[e].name, "train") == 0 && k < p->entries[e].call_end; k++)
            check_segment(log, p, arena, &p->segments[p->calls[k].segment], most_blocks);
    if (fgetc(log) != EOF)
        printf("FAILED more than the plan has\n"), faults++;
}

int main(int argc, char **argv)
{
    remat_context *ctx = remat_context_create(NULL, NULL);
    remat_plan *plan;
    remat_session *session;
    remat_session_params params;
    uint32_t most_blocks = 0;
    if (argc < 4)
        return 2;
    remove(argv[3]);
    setenv("REMAT_DOUBLE_DRY", argv[3], 1);
    must(ctx, remat_plan_load_file(ctx, argv[1], &plan));
    remat_session_params_init(&params);
    params.device = "cuda";
    params.cuda_libraries = argv[2];
    params.seed = 7;
    params.trace = look; /* each command by itself */
    must(ctx, remat_session_create(ctx, plan, &params, &session));
    remat_session_set_trace_data(session, 0);
    must(ctx, remat_session_run(session, "train"));
    remat_session_destroy(&session);
    FILE *log = fopen(argv[3], "r");
    if (log) {
        check_log(log, plan->program, &most_blocks);
        fclose(log);
    }
    printf("an arena of %llu bytes, launches of up to %u blocks: %d faults\n",
           (unsigned long long)plan->program->arena_bytes, most_blocks, faults);
    faults += most_blocks <= 65535 || plan->program->arena_bytes >> 32 == 0;
    remat_plan_destroy(&plan);
    remat_context_destroy(&ctx);
    return faults != 0 || !log;
}
