/* SPDX-License-Identifier: Apache-2.0 */
/* What the CUDA device asks of the driver for plans too large to run here: every launch, product,
 * fill and copy as the double writes it down (REMAT_DOUBLE_DRY), against the plan's own numbers:
 * blocks, threads, shared memory, words, addresses, bytes. A step runs with its updates in groups,
 * then command by command. Together the plans must pass 16 and 32 bits where these could be cut.
 *
 *     dry PLAN LIBRARIES LOG [PLAN] */
#include "check.h"
#include "cuda_api.h"
#include "cuda_groups.h"
#include "plan.h"

#include <remat/remat.h>

#include <stdio.h>
#include <stdlib.h>

#define LINE_MAX (32 + 17 * REMAT_CUDA_TENSORS_MAX)

#define SEED (7 + (3ull << 32))

static struct {                    /* of all plans */
    uint32_t blocks, shared_bytes; /* of a launch */
    uint64_t offset_bytes;         /* in the arena, of a copy */
    long long stride;              /* of a batch */
    bool repeated;                 /* a product took several calls */
} most;

static int look(void *user, const remat_trace_event *event)
{
    (void)user, (void)event;
    return 0;
}

/* The next line must be `expected`. The first that is not is shown. */
static void check(FILE *log, const char *expected, const char *what)
{
    char line[LINE_MAX] = "nothing\n";
    bool same = fgets(line, sizeof line, log) && strcmp(line, expected) == 0;
    CHECK(checks_failed() || same, "%s: %sand should be %s", what, line, expected);
}

static uint64_t offset_of(const struct remat_program *p, const struct remat_tensor *tensor)
{
    return p->buffers[p->values[tensor->value].buffer].offset_bytes;
}

struct expected {
    const struct remat_program *program;
    uint64_t arena;                         /* its address */
    const struct remat_cuda_groups *groups; /* NULL: each command by itself */
    uint64_t blocks;                        /* of all launches */
};

static void check_launch(FILE *log, struct expected *e, uint32_t kernel, uint64_t blocks,
                         const struct remat_cuda_word *words, uint32_t count, const char *what)
{
    const struct remat_program *p = e->program;
    const uint64_t bases[] = {[REMAT_CUDA_VALUE] = 0,
                              [REMAT_CUDA_ARENA] = e->arena,
                              [REMAT_CUDA_WORKSPACE] =
                                  e->arena + p->static_bytes - p->workspace_bytes,
                              [REMAT_CUDA_SEED] = SEED};
    uint32_t words_max =
        p->cuda.kernels[kernel].tensor_words ? REMAT_CUDA_TENSORS_MAX : REMAT_CUDA_WORDS_MAX;
    char line[LINE_MAX];
    int at = snprintf(line, sizeof line, "launch %llu %u %u", (unsigned long long)blocks,
                      p->cuda.kernels[kernel].threads, p->cuda.kernels[kernel].shared_bytes);
    for (uint32_t w = 0; w < words_max; w++)
        at += snprintf(line + at, sizeof line - (size_t)at, " %llx",
                       w < count ? (unsigned long long)(bases[words[w].kind] + words[w].value) : 0);
    strcpy(line + at, "\n");
    check(log, line, what);
    e->blocks += blocks;
    if (blocks > most.blocks)
        most.blocks = (uint32_t)blocks;
    if (p->cuda.kernels[kernel].shared_bytes > most.shared_bytes)
        most.shared_bytes = p->cuda.kernels[kernel].shared_bytes;
}

struct matrices { /* what cuBLASLt is told of an operand */
    unsigned long long address;
    long long leading, stride; /* elements from row to row, and from matrix to matrix of a batch */
};
struct product {
    long long columns, rows, batch;
    struct matrices sides[3];
};

static uint64_t address_of(const struct expected *e, const struct remat_operand *o, long long index)
{
    const struct remat_program *p = e->program;
    uint64_t elements = o->offset_elements;
    for (uint32_t k = o->rank - 2u; k-- > 0; index /= o->shape[k])
        elements += (uint64_t)(index % o->shape[k] * o->strides[k]);
    return e->arena + p->buffers[p->values[o->value].buffer].offset_bytes +
           elements * remat_dtype_bytes((remat_dtype)o->dtype);
}

static bool read_product(FILE *log, struct product *p)
{
    struct matrices *m = p->sides;
    int count = fscanf(log, "product %lld %lld %lld", &p->columns, &p->rows, &p->batch);
    for (int side = 0; side < 3; side++)
        count +=
            fscanf(log, " %llx %lld %lld", &m[side].address, &m[side].leading, &m[side].stride);
    return count == 12 && fgetc(log) == '\n';
}

/* Operands of a matmul: two that are read, then the one that is written. cuBLASLt's matrices are by
 * columns, so the first of ours is its second. However many calls there are: one matrix after the
 * other, in order. */
static bool are_products(FILE *log, const struct expected *e, const struct remat_operand *o)
{
    const uint32_t sides[] = {1, 0, 2}, row = o[2].rank - 2u;
    struct product p = {0};
    long long total = 1;
    bool same = true;
    for (uint32_t k = 0; k < row; k++)
        total *= o[2].shape[k];
    for (long long done = 0; same && done < total; done += p.batch) {
        same = read_product(log, &p) && p.rows == o[2].shape[row] &&
               p.columns == o[2].shape[row + 1] && p.batch > 0 && p.batch <= total - done;
        for (uint32_t i = 0; same && i < 3; i++) {
            const struct remat_operand *operand = &o[sides[i]];
            const struct matrices *m = &p.sides[i];
            const int64_t *strides = &operand->strides[row];
            same = m->leading == strides[strides[1] == 1 ? 0 : 1];
            for (long long z = 0; z < p.batch; z++)
                same &= address_of(e, operand, done + z) ==
                        m->address + (uint64_t)(z * m->stride) *
                                         remat_dtype_bytes((remat_dtype)operand->dtype);
            most.stride = m->stride > most.stride ? m->stride : most.stride;
        }
        most.repeated |= done > 0;
    }
    return same;
}

static void check_command(FILE *log, struct expected *e, uint32_t c)
{
    const struct remat_program *p = e->program;
    const struct remat_command *command = &p->commands[c];
    const struct remat_cuda_groups *groups = e->groups;
    uint32_t group = groups ? groups->group[c] : REMAT_NONE;
    struct remat_cuda_joint joint;
    bool same = p->kernels[command->kernel].kind != REMAT_KERNEL_matmul ||
                are_products(log, e, &p->operands[command->operand_begin]);
    CHECK(checks_failed() || same, "%s: another product", command->name);
    if (group == REMAT_NONE) {
        for (uint32_t i = p->cuda.launch_begin[c]; i < p->cuda.launch_begin[c + 1]; i++) {
            const struct remat_cuda_launch *l = &p->cuda.launches[i];
            check_launch(log, e, l->kernel, l->blocks, &p->cuda.words[l->word_begin],
                         l->word_end - l->word_begin, command->name);
        }
    } else if (groups->commands[groups->begin[group + 1] - 1] == c) { /* the last of the group */
        remat_cuda_groups_join(&p->cuda, groups, group, &joint);
        check_launch(log, e, joint.kernel, joint.blocks, joint.words, joint.word_count,
                     command->name);
    }
}

static bool has_number(const struct remat_program *p, const struct remat_command *command)
{
    bool has = false;
    for (uint32_t o = command->operand_begin; o < command->operand_end; o++)
        has |= p->operands[o].value == p->tensors[p->number_tensor].value;
    return has;
}

/* Only before commands that read it. */
static void check_number(FILE *log, const struct expected *e, const struct remat_segment *segment,
                         uint32_t number)
{
    const struct remat_program *p = e->program;
    char line[LINE_MAX];
    uint32_t c = p->number_tensor == REMAT_NONE ? segment->command_end : segment->command_begin;
    while (c < segment->command_end && !has_number(p, &p->commands[c]))
        c++;
    if (c == segment->command_end)
        return;
    snprintf(line, sizeof line, "set %llx %u\n",
             (unsigned long long)(e->arena + offset_of(p, &p->tensors[p->number_tensor])), number);
    check(log, line, "number");
}

static void check_run(FILE *log, struct expected *e, const char *name)
{
    const struct remat_program *p = e->program;
    const struct remat_entry *entry = &p->entries[0];
    while (strcmp(entry->name, name) != 0)
        entry++;
    for (uint32_t k = entry->call_begin; k < entry->call_end; k++) {
        const struct remat_segment *segment = &p->segments[p->calls[k].segment];
        for (uint32_t t = 0; t < p->calls[k].times; t++) {
            check_number(log, e, segment, p->calls[k].first + t);
            for (uint32_t c = segment->command_begin; c < segment->command_end; c++)
                check_command(log, e, c);
        }
    }
}

static const struct remat_tensor *last_tensor(const struct remat_program *p)
{
    const struct remat_tensor *last = &p->tensors[0];
    for (uint32_t t = 0; t < p->tensor_count; t++)
        if (offset_of(p, &p->tensors[t]) > offset_of(p, last))
            last = &p->tensors[t];
    return last;
}

static void check_log(FILE *log, const struct remat_program *p, struct remat_arena *scratch)
{
    unsigned long long arena = 0, bytes = 0, offset = offset_of(p, last_tensor(p));
    char line[128];
    struct remat_cuda_groups groups;
    CHECK(fscanf(log, "allocation %llx %llu\n", &arena, &bytes) == 2 && bytes == p->arena_bytes,
          "an arena of %llu bytes", bytes);
    snprintf(line, sizeof line, "fill %llx %llu\n", arena, (unsigned long long)p->arena_bytes);
    check(log, line, "bind");
    snprintf(line, sizeof line, "write %llx 4\n", arena + offset);
    check(log, line, "write");
    snprintf(line, sizeof line, "read %llx 4\n", arena + offset);
    check(log, line, "read");
    most.offset_bytes = offset > most.offset_bytes ? offset : most.offset_bytes;
    struct expected single = {.program = p, .arena = arena}, grouped = single;
    grouped.groups = remat_cuda_groups_find(scratch, p, &groups) ? NULL : &groups;
    check_run(log, &grouped, "train");
    check_run(log, &single, "train");
    CHECK(grouped.blocks == single.blocks && grouped.groups && groups.count > 0,
          "%llu blocks in groups, %llu by themselves", (unsigned long long)grouped.blocks,
          (unsigned long long)single.blocks);
    check_run(log, &single, "init");
    CHECK(fgetc(log) == EOF, "more than the plan has");
}

static void run(remat_context *ctx, const remat_plan *plan, const char *libraries)
{
    const char *last = last_tensor(plan->program)->name;
    int32_t word = 0;
    remat_session *session;
    remat_session_params params;
    remat_session_params_init(&params);
    params.device = "cuda";
    params.cuda_libraries = libraries;
    params.seed = SEED;
    MUST_OK(ctx, remat_session_create(ctx, plan, &params, &session));
    MUST_OK(ctx, remat_session_write_part(session, last, 0, &word, sizeof word));
    MUST_OK(ctx, remat_session_read_part(session, last, 0, &word, sizeof word));
    MUST_OK(ctx, remat_session_run(session, "train"));
    remat_session_set_trace(session, look, NULL);
    remat_session_set_trace_data(session, 0);
    MUST_OK(ctx, remat_session_run(session, "train"));
    MUST_OK(ctx, remat_session_run(session, "init"));
    remat_session_destroy(&session);
}

static void check_plan(remat_context *ctx, const char *name, const char *libraries,
                       const char *path)
{
    remat_plan *plan;
    struct remat_arena scratch;
    remat_arena_init(&scratch, ctx);
    remove(path);
    MUST_OK(ctx, remat_plan_load_file(ctx, name, &plan));
    run(ctx, plan, libraries);
    FILE *log = fopen(path, "r");
    if (CHECK(log, "%s", path)) {
        check_log(log, plan->program, &scratch);
        fclose(log);
    }
    remat_arena_release(&scratch);
    remat_plan_destroy(&plan);
}

int main(int argc, char **argv)
{
    remat_context *ctx = remat_context_create(NULL, NULL);
    if (argc < 4)
        return 2;
    setenv("REMAT_DOUBLE_DRY", argv[3], 1);
    check_plan(ctx, argv[1], argv[2], argv[3]);
    if (argc > 4)
        check_plan(ctx, argv[4], argv[2], argv[3]);
    remat_context_destroy(&ctx);
    CHECK(most.blocks > 65535 && most.shared_bytes > 65535 && most.offset_bytes >> 32 &&
              most.stride >> 32 && most.repeated,
          "at most %u blocks, %u bytes of shared memory, a copy at %llu bytes, a stride of %lld%s",
          most.blocks, most.shared_bytes, (unsigned long long)most.offset_bytes, most.stride,
          most.repeated ? ", products of several calls" : "");
    return check_exit();
}
