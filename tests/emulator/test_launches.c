/* SPDX-License-Identifier: Apache-2.0 */
/* The arithmetic of launches beyond 65,535 and 2^24 blocks and 2^32 elements: commands of such
 * sizes are emitted, the numbers of blocks compared with exact arithmetic, and a few blocks of each
 * launch run in the emulator, in memory that takes only what they touch: the first, the last, those
 * about 65,536 and those where offsets pass 2^31 and 2^32. Each may access exactly the bytes that
 * follow from the shape and from what block 0 has. A block of a sort must also put the tokens of
 * its value in their places. Then faults are planted (launch_mutants.def).
 *
 *     test_launches COMPILER */
#include "check.h"
#include "large.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

/* --- what a block may access --- */

struct rectangle {
    uint64_t row_begin, row_end, column_begin, column_end;
};

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t divide_up(uint64_t a, uint64_t b)
{
    return (a + b - 1) / b;
}

/* Rows and columns of block 0, from what it has of an operand. */
static void measure(const struct large *c, const struct emulator_touch *touched, uint64_t *rows,
                    uint64_t *columns)
{
    uint32_t o = c->counted;
    if (!touched[o].read_end && !touched[o].write_end)
        for (o = 0; !touched[o].write_end;)
            o++;
    const struct emulator_touch *t = &touched[o];
    uint64_t bytes = large_element_bytes(&c->operands[o]);
    uint64_t count = (t->write_end ? t->written_bytes : t->read_bytes) / bytes;
    uint64_t extent =
        (uint64_t)(t->write_end ? t->write_end - t->write_begin : t->read_end - t->read_begin) /
        bytes;
    *rows = c->of_heads           ? 1
            : c->maps[o].row == 0 ? c->rows
            : count <= c->columns ? (extent - 1) / c->maps[o].row + 1
                                  : divide_up(extent, c->maps[o].row);
    *columns = c->of_heads ? 1 : c->maps[o].row == 0 ? count : count / *rows;
}

static struct rectangle rectangle_of(const struct large *c, uint64_t block, uint64_t rows,
                                     uint64_t columns)
{
    uint64_t across = divide_up(c->columns, columns), row = block / across * rows;
    uint64_t column = block % across * columns;
    return (struct rectangle){row, least(row + rows, c->rows), column,
                              least(column + columns, c->columns)};
}

static uint64_t place_of(const struct large *c, uint32_t o, uint64_t row, uint64_t column)
{
    const struct map *map = &c->maps[o];
    if (c->operands[o].rank == 4) /* a head */
        return (row / LARGE_HEADS * LARGE_TIME * LARGE_HEADS + row % LARGE_HEADS) * LARGE_SIZE;
    return map->base + row * map->row + column * map->column;
}

static bool is_exactly(const struct large *c, uint32_t o, const struct rectangle *r,
                       const char *begin, const char *end)
{
    uint64_t bytes = large_element_bytes(&c->operands[o]), first = 0, last = 0;
    for (uint32_t k = 0; k < c->operands[o].rank; k++)
        last += (uint64_t)((c->operands[o].shape[k] - 1) * c->operands[o].strides[k]);
    if (c->reaches[o]) {
        first = place_of(c, o, r->row_begin, r->column_begin);
        last = place_of(c, o, r->row_end - 1, r->column_end - 1) + c->reaches[o] - 1;
    }
    return begin == large_begin(c, o) + first * bytes &&
           end == large_begin(c, o) + (last + 1) * bytes;
}

static char message[256];

static const char *check_block(const struct large *c, uint64_t block,
                               const struct emulator_touch *zero, const struct emulator_touch *own,
                               const struct rectangle *r)
{
    for (uint32_t o = 0; o < c->command.operand_end; o++) {
        bool reads = !zero[o].read_end == !own[o].read_end &&
                     (!own[o].read_end || is_exactly(c, o, r, own[o].read_begin, own[o].read_end));
        bool writes =
            !zero[o].write_end == !own[o].write_end &&
            (!own[o].write_end || is_exactly(c, o, r, own[o].write_begin, own[o].write_end));
        if (reads && writes)
            continue;
        snprintf(message, sizeof message, "block %llu does not %s its part of operand %u",
                 (unsigned long long)block, reads ? "write" : "read", o);
        return message;
    }
    return NULL;
}

/* --- running --- */

struct run {
    const struct large *c;
    struct emulator *emulator;
    emulator_kernel *kernel;
    const struct remat_cuda_launch *launch;
    char *workspace;
};

static const char *run_block(const struct run *run, uint32_t block, uint64_t row,
                             struct emulator_touch *touched)
{
    const struct large *c = run->c;
    const struct remat_cuda_kernel *kernel = &c->code.kernels[run->launch->kernel];
    struct emulator_range ranges[LARGE_OPERANDS_MAX + 1];
    uint32_t count = c->command.operand_end;
    for (uint32_t o = 0; o < count; o++)
        ranges[o] =
            (struct emulator_range){large_begin(c, o), large_begin(c, o) + c->buffers[o].bytes,
                                    c->operands[o].access != REMAT_ACCESS_WRITE,
                                    c->operands[o].access != REMAT_ACCESS_READ};
    ranges[count] = (struct emulator_range){run->workspace,
                                            run->workspace + c->code.workspace_bytes, true, true};
    struct emulator_launch launch = {
        .kernel = run->kernel,
        .arguments = kernels_arguments(&c->code.words[run->launch->word_begin],
                                       run->launch->word_end - run->launch->word_begin, 1,
                                       (uintptr_t)c->memory, (uintptr_t)run->workspace),
        .blocks = run->launch->blocks,
        .threads = kernel->threads,
        .shared_bytes = kernel->shared_bytes,
        .ranges = ranges,
        .range_count = count + 1,
        .touched = touched,
        .only = &block};
    memset(touched, 0, (LARGE_OPERANDS_MAX + 1) * sizeof *touched);
    if (c->prepare)
        c->prepare(c, row, c->value);
    const char *fault = emulator_run(run->emulator, &launch);
    if (c->prepare)
        c->prepare(c, row, 0);
    return fault;
}

/* The deltas of attention's gradient: of so many queries a block, each a float of the workspace. */
static const char *check_deltas(const struct run *run, uint64_t blocks)
{
    struct emulator_touch touched[LARGE_OPERANDS_MAX + 1];
    const uint32_t chosen[] = {0, 65536, 4500001, (uint32_t)blocks - 1};
    uint64_t queries = 0, all = run->c->rows * LARGE_TIME;
    for (uint32_t i = 0; i < sizeof chosen / sizeof *chosen; i++) {
        const char *fault = run_block(run, chosen[i], 0, touched);
        const struct emulator_touch *t = &touched[run->c->command.operand_end];
        queries = i ? queries : t->written_bytes / 4;
        uint64_t query = chosen[i] * queries, head = query / LARGE_TIME;
        uint64_t element =
            place_of(run->c, 0, head, 0) + query % LARGE_TIME * LARGE_HEADS * LARGE_SIZE;
        if (fault)
            return fault;
        if (blocks != divide_up(all, queries) || t->write_begin != run->workspace + query * 4 ||
            touched[0].read_begin != large_begin(run->c, 0) + element * 2)
            return "a block has not its deltas";
    }
    return NULL;
}

static const char *check_launch(const struct run *run, uint64_t blocks)
{
    const struct large *c = run->c;
    struct emulator_touch zero[LARGE_OPERANDS_MAX + 1], own[LARGE_OPERANDS_MAX + 1];
    uint64_t rows, columns;
    const char *fault = run_block(run, 0, 0, zero);
    if (fault)
        return fault;
    measure(c, zero, &rows, &columns);
    if (columns == 0)
        return "block 0 has gaps";
    if (blocks != divide_up(c->rows, rows) * divide_up(c->columns, columns))
        return "not as many blocks as the shape needs";
    uint64_t elements = c->of_heads ? c->rows * LARGE_TIME * LARGE_SIZE : c->rows * c->columns;
    const uint64_t chosen[] = {65536,
                               (uint64_t)((double)blocks * 0x1p32 / (double)elements) + 1,
                               (uint64_t)((double)blocks * 0x1p31 / (double)elements) + 1,
                               65535,
                               1,
                               blocks - 1};
    for (uint32_t i = 0; i < sizeof chosen / sizeof *chosen && !fault; i++) {
        if (chosen[i] >= blocks)
            continue;
        struct rectangle r = rectangle_of(c, chosen[i], rows, columns);
        fault = run_block(run, (uint32_t)chosen[i], r.row_begin, own);
        fault = fault ? fault : check_block(c, chosen[i], zero, own, &r);
    }
    return fault;
}

/* Each block of a sort looks through all tokens. Here most have id 0: of its part a warp looks at
 * the first and the last step, and counts the entries between them, which are lower. */
static char *skip_zeros(char *text)
{
    static const char *const changes[][2] = {
        {"lower = 0,", "lower = ((end - begin + step - 1) / step - 2) * SORT_LOADS,"},
        {"first += step", "first += first == begin ? (end - begin - 1) / step * step : step"}};
    for (uint32_t i = 0; i < 2; i++) {
        char *changed = kernels_replace(text, changes[i][0], changes[i][1]);
        bool same = strcmp(changed, text) == 0;
        free(text);
        text = changed;
        MUST(!same, "nothing to replace: %s", changes[i][0]);
    }
    return text;
}

/* The last value's block: the tokens that have it, which lie at both ends, go after all others. */
static const char *check_sort(const struct run *run)
{
    const struct large *c = run->c;
    const struct remat_cuda_word *words = &c->code.words[run->launch->word_begin];
    struct arguments arguments =
        kernels_arguments(words, 4, 1, (uintptr_t)c->memory, (uintptr_t)run->workspace);
    char *to = (char *)(uintptr_t)arguments.word[2], *from = (char *)(uintptr_t)arguments.word[3];
    struct emulator_touch touched[LARGE_OPERANDS_MAX + 1];
    uint32_t id = (run->launch->blocks - 1) << words[1].value, count = 6, wrong = 0;
    const uint64_t tokens[] = {0, 1, 127, c->rows - 3, c->rows - 2, c->rows - 1};
    uint32_t entry_bytes = words[1].value ? 8 : 4; /* with the token's number, or an id */
    for (uint32_t i = 0; i < count; i++)
        memcpy(from + tokens[i] * entry_bytes, (uint32_t[]){id, (uint32_t)tokens[i]}, entry_bytes);
    const char *fault = run_block(run, run->launch->blocks - 1, c->rows, touched);
    for (uint32_t i = 0; i < count; i++) {
        char *entry = to + (c->rows - count + i) * 8;
        wrong += memcmp(entry, (uint32_t[]){id, (uint32_t)tokens[i]}, 8) != 0;
        memset(entry, 0, 8);
        memset(from + tokens[i] * entry_bytes, 0, entry_bytes);
    }
    return fault ? fault : wrong ? "tokens are not sorted" : NULL;
}

typedef uint64_t blocks_function(uint64_t blocks);

/* NULL or what is wrong, with other numbers of blocks unless `change` is NULL. */
static const char *run_case(const struct large *c, struct emulator *emulator, void *library,
                            blocks_function *change)
{
    const char *fault = NULL;
    for (uint32_t l = 0; l < c->code.launch_count && !fault; l++) {
        const struct remat_cuda_launch *launch = &c->code.launches[l];
        struct run run = {c, emulator,
                          kernels_find(library, c->code.kernels[launch->kernel].symbol), launch,
                          c->memory + c->program.arena_bytes};
        uint64_t blocks = change ? change(launch->blocks) : launch->blocks;
        bool deltas = c->kernel.kind == REMAT_KERNEL_attention_backward && l == 0;
        bool sorts = strstr(c->code.kernels[launch->kernel].key, ".sort.");
        fault = sorts    ? check_sort(&run)
                : deltas ? check_deltas(&run, blocks)
                         : check_launch(&run, blocks);
    }
    return fault;
}

/* --- */

enum mutant_number {
#define MUTANT(name, what, find, replacement) JOIN(M, __LINE__),
#define BLOCKS_MUTANT(name, what, changed)    JOIN(M, __LINE__),
#define JOIN(a, b)                            JOIN_(a, b)
#define JOIN_(a, b)                           a##b
#include "planted_launch_mutants.def"
#undef MUTANT
#undef BLOCKS_MUTANT
    MUTANTS
};

static uint64_t change(enum mutant_number mutant, uint64_t blocks)
{
    switch (mutant) {
#define MUTANT(name, what, find, replacement)
#define BLOCKS_MUTANT(name, what, changed)                                                         \
    case JOIN(M, __LINE__):                                                                        \
        return (changed);
#include "planted_launch_mutants.def"
#undef MUTANT
#undef BLOCKS_MUTANT
    default:
        return blocks;
    }
}

static const struct mutant {
    const char *name, *what, *find, *replacement;
} mutants[] = {
#define MUTANT(name, what, find, replacement) {#name, what, find, replacement},
#define BLOCKS_MUTANT(name, what, changed)    {#name, what, NULL, NULL},
#include "planted_launch_mutants.def"
#undef MUTANT
#undef BLOCKS_MUTANT
};

static enum mutant_number planted;

static uint64_t change_planted(uint64_t blocks)
{
    return change(planted, blocks);
}

struct subject {
    struct large large;
    struct emulator *emulator;
    char *text;
    void *library;
};

static void make_subject(remat_context *ctx, struct remat_arena *arena, const char *compiler,
                         const struct large_maker *maker, struct subject *out)
{
    struct large *c = &out->large;
    large_make(ctx, arena, maker, c);
    uint64_t bytes = c->program.arena_bytes + c->code.workspace_bytes;
    c->memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    out->emulator = c->memory == MAP_FAILED ? NULL : emulator_create(c->memory, bytes);
    MUST(out->emulator, "no address space");
    out->text = kernels_text(&c->code);
    if (c->kernel.kind == REMAT_KERNEL_embedding_backward)
        out->text = skip_zeros(out->text);
    out->library = kernels_compile(compiler, out->text);
}

static const char *run_mutant(const char *compiler, const struct subject *s,
                              const struct mutant *mutant)
{
    if (!mutant->find)
        return run_case(&s->large, s->emulator, s->library, change_planted);
    char *text = kernels_replace(s->text, mutant->find, mutant->replacement);
    const char *fault = NULL;
    if (strcmp(text, s->text) != 0) {
        void *library = kernels_compile(compiler, text);
        fault = run_case(&s->large, s->emulator, library, NULL);
        kernels_close(library);
    }
    free(text);
    return fault;
}

/* Address space and libraries last as long as the process. */
int main(int argc, char **argv)
{
    struct subject *subjects = calloc(large_count, sizeof *subjects);
    const char *compiler = argc > 1 ? argv[1] : "cc";
    remat_context *ctx = remat_context_create(NULL, NULL);
    struct remat_arena arena;
    remat_arena_init(&arena, ctx);
    for (uint32_t i = 0; i < large_count; i++) {
        struct subject *s = &subjects[i];
        make_subject(ctx, &arena, compiler, &large_makers[i], s);
        const char *fault = run_case(&s->large, s->emulator, s->library, NULL);
        printf("%s: %u launches, the first of %u blocks: %s\n", large_makers[i].name,
               s->large.code.launch_count, s->large.code.launches[0].blocks, fault ? fault : "ok");
        CHECK(!fault, "%s: %s", large_makers[i].name, fault);
    }
    for (uint32_t m = 0; m < MUTANTS; m++) {
        uint32_t i = 0;
        planted = m;
        while (strcmp(large_makers[i].name, mutants[m].name) != 0)
            i++;
        const char *fault = run_mutant(compiler, &subjects[i], &mutants[m]);
        printf("%s: %s: %s\n", mutants[m].name, mutants[m].what, fault ? fault : "NOT FOUND");
        CHECK(fault, "%s: %s", mutants[m].name, mutants[m].what);
    }
    remat_arena_release(&arena);
    remat_context_destroy(&ctx);
    printf("%d mutants\n", MUTANTS);
    return check_exit();
}
