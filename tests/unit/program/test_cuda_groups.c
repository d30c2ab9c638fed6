/* SPDX-License-Identifier: Apache-2.0 */
/* Which commands share a launch: small programs, each command a letter, and what has to come of
 * them. */
#include "check.h"
#include "cuda_groups.h"

#include <stdio.h>

#define COMMANDS_MAX 400
#define SIZE         256
#define TENSOR_WORDS 4 /* first block, count, gradient, parameter */

struct subject {
    struct remat_program program;
    struct remat_buffer buffers[4 * COMMANDS_MAX];
    struct remat_program_value values[4 * COMMANDS_MAX];
    struct remat_operand operands[2 * COMMANDS_MAX];
    struct remat_command commands[COMMANDS_MAX];
    struct remat_segment segments[4];
    struct remat_cuda_kernel kernels[3];
    struct remat_cuda_launch launches[2 * COMMANDS_MAX];
    struct remat_cuda_word words[8 * COMMANDS_MAX];
    uint32_t launch_begin[COMMANDS_MAX + 1];
};
static struct subject subject;

static void add_word(struct subject *s, uint8_t kind, uint64_t value)
{
    s->words[s->program.cuda.word_count++] = (struct remat_cuda_word){kind, value};
}

static void add_launch(struct subject *s, uint32_t kernel, uint64_t head)
{
    struct remat_cuda_code *code = &s->program.cuda;
    uint32_t begin = code->word_count;
    add_word(s, REMAT_CUDA_VALUE, 1);
    add_word(s, REMAT_CUDA_ARENA, head);
    add_word(s, REMAT_CUDA_VALUE, 0);
    add_word(s, REMAT_CUDA_VALUE, 1000 + (kernel < 2 ? s->program.command_count : 0));
    add_word(s, REMAT_CUDA_ARENA, 0);
    add_word(s, REMAT_CUDA_ARENA, 0);
    s->launches[code->launch_count++] = (struct remat_cuda_launch){
        kernel, 1 + s->program.command_count % 3, begin, code->word_count};
}

static void add_operand(struct subject *s, uint32_t buffer, uint8_t access)
{
    struct remat_program *p = &s->program;
    p->operands[p->operand_count++] = (struct remat_operand){.value = buffer, .access = access};
}

/* Buffers: 0 to COMMANDS_MAX - 1 gradients, then as many parameters. Command number c:
 * a, b: kernel 0, with another shared word; c: kernel 1; each reads gradient c and updates
 *       parameter c
 * A-Z:  as a, each letter with another shared word
 * d:    kernel 0 in two launches; e: kernel 2, which is of no tensors; m: none
 * w:    none, writes gradient 0; r: none, reads parameter 0; g: none, reads gradient 0
 * s, u: as a, but reads parameter 0, or updates it; h: none, writes what half covers gradient 0
 * f:    as a, and sets a flag; o, q: none, writes or reads it */
static void add_command(struct subject *s, char letter)
{
    struct remat_program *p = &s->program;
    uint32_t c = p->command_count, parameter = COMMANDS_MAX;
    s->commands[c] = (struct remat_command){.operand_begin = p->operand_count, .name = "c"};
    bool of_own_head = letter >= 'A' && letter <= 'Z';
    if (strchr("abcdesuf", letter) || of_own_head) {
        add_operand(s, letter == 's' ? parameter : c, REMAT_ACCESS_READ);
        add_operand(s, letter == 'u' ? parameter : parameter + c, REMAT_ACCESS_UPDATE);
        uint64_t head = of_own_head ? 64 * (uint64_t)letter : letter == 'b' ? 64 : 0;
        add_launch(s, letter == 'c' ? 1 : letter == 'e' ? 2 : 0, head);
    }
    if (strchr("foq", letter))
        add_operand(s, 2 * COMMANDS_MAX + 1,
                    letter == 'f'   ? REMAT_ACCESS_FLAG
                    : letter == 'o' ? REMAT_ACCESS_WRITE
                                    : REMAT_ACCESS_READ);
    if (letter == 'd')
        add_launch(s, 0, 0);
    if (strchr("wrgh", letter))
        add_operand(s,
                    letter == 'r'   ? parameter
                    : letter == 'h' ? 2 * COMMANDS_MAX
                                    : 0,
                    letter == 'w' || letter == 'h' ? REMAT_ACCESS_WRITE : REMAT_ACCESS_READ);
    s->commands[c].operand_end = p->operand_count;
    s->launch_begin[++p->command_count] = p->cuda.launch_count;
}

static struct subject *make(const char *letters)
{
    struct subject *s = &subject;
    memset(s, 0, sizeof *s);
    s->program = (struct remat_program){.buffers = s->buffers,
                                        .buffer_count = 2 * COMMANDS_MAX + 2,
                                        .values = s->values,
                                        .operands = s->operands,
                                        .commands = s->commands,
                                        .segments = s->segments,
                                        .cuda = {.kernels = s->kernels,
                                                 .kernel_count = 3,
                                                 .launches = s->launches,
                                                 .words = s->words,
                                                 .launch_begin = s->launch_begin}};
    for (uint32_t b = 0; b < s->program.buffer_count; b++) {
        s->buffers[b] = (struct remat_buffer){.offset_bytes = (b + 1) * SIZE, .bytes = SIZE};
        s->values[b].buffer = b;
    }
    s->buffers[2 * COMMANDS_MAX] =
        (struct remat_buffer){.offset_bytes = SIZE / 2, .bytes = SIZE}; /* of the first gradient */
    s->kernels[0].tensor_words = s->kernels[1].tensor_words = TENSOR_WORDS;
    for (const char *c = letters; *c; c++)
        add_command(s, *c);
    return s;
}

/* "12-1": the group of each command, counted from 1; "-" without. */
static void check_groups(const struct subject *s, const char *letters, const char *expected)
{
    remat_context *ctx = remat_context_create(NULL, NULL);
    struct remat_arena arena;
    struct remat_cuda_groups groups;
    char found[COMMANDS_MAX + 1] = "";
    remat_arena_init(&arena, ctx);
    remat_status st = remat_cuda_groups_find(&arena, &s->program, &groups);
    for (uint32_t c = 0; !st && c < s->program.command_count; c++)
        found[c] = groups.group[c] == REMAT_NONE ? '-' : (char)('1' + groups.group[c]);
    bool listed = !st;
    for (uint32_t g = 0; listed && g < groups.count; g++)
        for (uint32_t i = groups.begin[g]; i < groups.begin[g + 1]; i++)
            listed &= groups.group[groups.commands[i]] == g &&
                      (i == groups.begin[g] || groups.commands[i - 1] < groups.commands[i]);
    CHECK(listed && strcmp(found, expected) == 0, "%s: groups %s, expected %s", letters, found,
          expected);
    remat_arena_release(&arena);
    remat_context_destroy(&ctx);
}

static void check(const char *letters, const char *expected)
{
    check_groups(make(letters), letters, expected);
}

/* Edges of segments, which may overlap, at commands 2 and 4. */
static void check_segments(void)
{
    struct subject *s = make("aaaaaa");
    s->segments[0] = (struct remat_segment){"one", 0, 4};
    s->segments[1] = (struct remat_segment){"two", 2, 6};
    s->program.segment_count = 2;
    check_groups(s, "segments", "112233");
}

/* (512 - 2) / 4 tensors fit, and their blocks 31 bits. */
static void check_full(void)
{
    char letters[131] = "", expected[131] = "";
    memset(letters, 'a', 130);
    memset(expected, '1', 127);
    memset(expected + 127, '2', 3);
    check(letters, expected);
    struct subject *s = make("aaa");
    s->launches[1].blocks = INT32_MAX - 1;
    s->launches[2].blocks = 1;
    check_groups(s, "blocks", "11-");
    s->launches[1].blocks = INT32_MAX;
    check_groups(s, "too many blocks", "---");
}

/* Words of a launch whose tensors have `tensor_words` of the six: `fit` tensors fill it. */
static void check_words(uint32_t tensor_words, uint32_t fit)
{
    char letters[COMMANDS_MAX + 1] = "", expected[COMMANDS_MAX + 1] = "";
    memset(letters, 'a', fit + 2);
    memset(expected, '1', fit);
    memset(expected + fit, '2', 2);
    struct subject *s = make(letters);
    s->kernels[0].tensor_words = tensor_words;
    for (uint32_t l = 0; l < s->program.cuda.launch_count; l++)
        s->words[s->launches[l].word_begin + 3].value = 1000;
    check_groups(s, letters, expected);
}

static void check_joint(void)
{
    remat_context *ctx = remat_context_create(NULL, NULL);
    struct remat_arena arena;
    struct remat_cuda_groups groups;
    struct remat_cuda_joint joint;
    const struct subject *s = make("acag");
    const uint64_t expected[10] = {2, 0, 0, 1000, 0, 0, 1, 1002, 0, 0};
    remat_arena_init(&arena, ctx);
    if (CHECK_OK(ctx, remat_cuda_groups_find(&arena, &s->program, &groups)) &&
        CHECK(groups.count == 1, "%u groups", groups.count)) {
        remat_cuda_groups_join(&s->program.cuda, &groups, 0, &joint);
        CHECK(joint.kernel == 0 && joint.blocks == 4 && joint.word_count == 10,
              "%u, %u blocks, %u words", joint.kernel, joint.blocks, joint.word_count);
        for (uint32_t w = 0; w < 10; w++)
            CHECK(joint.words[w].value == expected[w] &&
                      joint.words[w].kind ==
                          (w == 1 || (w > 3 && w % 4 < 2) ? REMAT_CUDA_ARENA : REMAT_CUDA_VALUE),
                  "word %u is %llu", w, (unsigned long long)joint.words[w].value);
    }
    remat_arena_release(&arena);
    remat_context_destroy(&ctx);
}

/* Beyond the 65,535 blocks of a grid's second axis. */
static void check_many_blocks(void)
{
    remat_context *ctx = remat_context_create(NULL, NULL);
    struct remat_arena arena;
    struct remat_cuda_groups groups;
    struct remat_cuda_joint joint;
    struct subject *s = make("aaa");
    for (uint32_t l = 0; l < 3; l++)
        s->launches[l].blocks = 70000;
    remat_arena_init(&arena, ctx);
    if (CHECK_OK(ctx, remat_cuda_groups_find(&arena, &s->program, &groups)) &&
        CHECK(groups.count == 1, "%u groups", groups.count)) {
        remat_cuda_groups_join(&s->program.cuda, &groups, 0, &joint);
        CHECK(joint.blocks == 210000, "%u blocks", joint.blocks);
        for (uint32_t t = 0; t < 3; t++) { /* the first word of a tensor is its first block */
            uint64_t first = joint.words[2 + TENSOR_WORDS * t].value;
            CHECK(first == 70000 * (uint64_t)t, "tensor %u: %llu", t, (unsigned long long)first);
        }
    }
    remat_arena_release(&arena);
    remat_context_destroy(&ctx);
}

int main(void)
{
    check("", "");
    check("a", "-");
    check("aaa", "111");
    check("mamam", "-1-1-");
    check("abab", "1212"); /* what they share differs */
    check("acca", "1221"); /* programs differ */
    check("adea", "1--1"); /* two launches, and a kernel of no tensors, overtake nothing */
    check("aeae", "1-1-");
    check("aawaa", "11-22"); /* a gradient that a waiting command reads is written */
    check("aahaa", "11-22"); /* in part */
    check("aagaa", "11-11"); /* only read */
    check("aaraa", "11-22"); /* an updated parameter is read */
    check("aasaa", "11222"); /* by a command of the same kernel */
    check("auaa", "-111");   /* updated twice */
    check("acwac", "-1--1");
    check("fffaf", "11111"); /* flags have no order */
    check("ffoff", "11-22"); /* but with what clears them */
    check("ffqff", "11-22"); /* or reads them */
    /* 16 groups are open when Q's begins: the first, A's, closes; then Q's, in its place. */
    check("AABBCCDDEEFFGGHHIIJJKKLLMMNNOOPPQQA", "1133445566778899::;;<<==>>??@@AA22-");
    check_segments();
    check_full();
    check_words(2, 254); /* 4 + 254 * 2 = 512 */
    check_words(3, 169); /* 3 + 170 * 3 = 513 is one too many */
    check_joint();
    check_many_blocks();
    return check_exit();
}
