/* SPDX-License-Identifier: Apache-2.0 */
/* Commands are visited in order. Some groups are open: their commands wait. A command closes the
 * groups that it must not overtake, then joins one or opens its own; a closed group's place is that
 * of its last command, which is before the one that closed it. */
#include "cuda_groups.h"

#include <assert.h>

#define OPEN_MAX 16 /* groups at once; bounds the time that hostile plans take */

struct open_group {
    uint32_t head; /* launch of the first command; REMAT_NONE: free */
    uint32_t count, words;
    uint64_t blocks;
    uint32_t commands[REMAT_CUDA_TENSORS_MAX];
};

struct group_finder {
    const struct remat_program *program;
    struct remat_cuda_groups *out;
    struct open_group *open; /* [OPEN_MAX] */
    uint32_t command_count;  /* in groups */
};

static bool overlap(const struct remat_buffer *x, const struct remat_buffer *y)
{
    return x->offset_bytes < y->offset_bytes + y->bytes &&
           y->offset_bytes < x->offset_bytes + x->bytes;
}

/* The order of the two changes what one of them reads or what they leave. */
static bool ordered(const struct remat_program *p, uint32_t earlier, uint32_t later)
{
    const struct remat_command *x = &p->commands[earlier], *y = &p->commands[later];
    for (uint32_t a = x->operand_begin; a < x->operand_end; a++)
        for (uint32_t b = y->operand_begin; b < y->operand_end; b++) {
            const struct remat_operand *m = &p->operands[a], *n = &p->operands[b];
            bool both_read = m->access == REMAT_ACCESS_READ && n->access == REMAT_ACCESS_READ;
            bool both_flag = m->access == REMAT_ACCESS_FLAG && n->access == REMAT_ACCESS_FLAG;
            if (!both_read && !both_flag &&
                overlap(&p->buffers[p->values[m->value].buffer],
                        &p->buffers[p->values[n->value].buffer]))
                return true;
        }
    return false;
}

/* The command's only launch where it may be part of a group, else REMAT_NONE. */
static uint32_t launch_of(const struct remat_cuda_code *code, uint32_t command)
{
    uint32_t l = code->launch_begin[command];
    if (code->launch_begin[command + 1] != l + 1)
        return REMAT_NONE;
    return code->kernels[code->launches[l].kernel].tensor_words ? l : REMAT_NONE;
}

static uint32_t head_words(const struct remat_cuda_code *code, const struct remat_cuda_launch *l)
{
    return l->word_end - l->word_begin - code->kernels[l->kernel].tensor_words;
}

static bool same_head(const struct remat_cuda_code *code, const struct remat_cuda_launch *x,
                      const struct remat_cuda_launch *y)
{
    if (x->kernel != y->kernel || x->word_end - x->word_begin != y->word_end - y->word_begin)
        return false;
    for (uint32_t w = 0; w < head_words(code, x); w++) {
        const struct remat_cuda_word *a = &code->words[x->word_begin + w];
        const struct remat_cuda_word *b = &code->words[y->word_begin + w];
        if (a->kind != b->kind || a->value != b->value)
            return false;
    }
    return true;
}

/* Its commands become a group, where they are several. */
static void close_group(struct group_finder *f, struct open_group *g)
{
    struct remat_cuda_groups *out = f->out;
    g->head = REMAT_NONE;
    if (g->count < 2)
        return;
    for (uint32_t i = 0; i < g->count; i++) {
        out->commands[f->command_count++] = g->commands[i];
        out->group[g->commands[i]] = out->count;
    }
    out->begin[++out->count] = f->command_count;
}

static bool must_close(const struct group_finder *f, const struct open_group *g, uint32_t command)
{
    for (uint32_t i = 0; i < g->count; i++)
        if (ordered(f->program, g->commands[i], command))
            return true;
    return false;
}

static bool has_room(const struct remat_cuda_code *code, const struct open_group *g,
                     const struct remat_cuda_launch *l)
{
    return g->words + code->kernels[l->kernel].tensor_words <= REMAT_CUDA_TENSORS_MAX &&
           g->blocks + l->blocks <= INT32_MAX;
}

/* Joins the open group of such launches, or opens one: in the place of one that is full, or free,
 * or else of the first. */
static void add_command(struct group_finder *f, uint32_t command, uint32_t launch)
{
    const struct remat_cuda_code *code = &f->program->cuda;
    const struct remat_cuda_launch *l = &code->launches[launch];
    struct open_group *chosen = NULL;
    for (uint32_t i = 0; i < OPEN_MAX; i++) {
        struct open_group *g = &f->open[i];
        if (g->head != REMAT_NONE && same_head(code, &code->launches[g->head], l)) {
            if (!has_room(code, g, l))
                close_group(f, g);
            chosen = g;
            break;
        }
        if (g->head == REMAT_NONE && !chosen)
            chosen = g;
    }
    if (!chosen) {
        chosen = &f->open[0];
        close_group(f, chosen);
    }
    if (chosen->head == REMAT_NONE)
        *chosen = (struct open_group){.head = launch, .words = head_words(code, l)};
    chosen->commands[chosen->count++] = command;
    chosen->words += code->kernels[l->kernel].tensor_words;
    chosen->blocks += l->blocks;
}

static void close_all(struct group_finder *f)
{
    for (uint32_t i = 0; i < OPEN_MAX; i++)
        if (f->open[i].head != REMAT_NONE)
            close_group(f, &f->open[i]);
}

/* Segments may share commands, and a device runs them as the entry point calls them. */
static bool at_edge(const struct remat_program *p, uint32_t command)
{
    for (uint32_t s = 0; s < p->segment_count; s++)
        if (p->segments[s].command_begin == command || p->segments[s].command_end == command)
            return true;
    return false;
}

remat_status remat_cuda_groups_find(struct remat_arena *arena, const struct remat_program *program,
                                    struct remat_cuda_groups *out)
{
    remat_status st = REMAT_OK;
    struct group_finder f = {.program = program, .out = out};
    uint32_t count = program->command_count;
    *out = (struct remat_cuda_groups){0};
    REMAT_TRY_NEW(arena, out->begin, count + 1);
    REMAT_TRY_NEW(arena, out->commands, count);
    REMAT_TRY_NEW(arena, out->group, count);
    REMAT_TRY_NEW(arena, f.open, OPEN_MAX);
    for (uint32_t i = 0; i < OPEN_MAX; i++)
        f.open[i].head = REMAT_NONE;
    memset(out->group, 0xff, count * sizeof *out->group); /* REMAT_NONE */
    for (uint32_t c = 0; c < count && program->cuda.launch_begin; c++) {
        if (at_edge(program, c))
            close_all(&f);
        for (uint32_t i = 0; i < OPEN_MAX; i++)
            if (f.open[i].head != REMAT_NONE && must_close(&f, &f.open[i], c))
                close_group(&f, &f.open[i]);
        uint32_t launch = launch_of(&program->cuda, c);
        if (launch != REMAT_NONE)
            add_command(&f, c, launch);
    }
    close_all(&f);
fail:
    return st;
}

void remat_cuda_groups_join(const struct remat_cuda_code *code,
                            const struct remat_cuda_groups *groups, uint32_t group,
                            struct remat_cuda_joint *out)
{
    assert(group < groups->count);
    uint32_t begin = groups->begin[group], end = groups->begin[group + 1];
    const struct remat_cuda_launch *first =
        &code->launches[code->launch_begin[groups->commands[begin]]];
    uint32_t head = head_words(code, first);
    out->kernel = first->kernel;
    out->blocks = 0;
    out->word_count = head;
    memcpy(out->words, &code->words[first->word_begin], head * sizeof *out->words);
    out->words[0].value = end - begin;
    for (uint32_t i = begin; i < end; i++) {
        const struct remat_cuda_launch *l =
            &code->launches[code->launch_begin[groups->commands[i]]];
        uint32_t words = code->kernels[l->kernel].tensor_words;
        struct remat_cuda_word *own = &out->words[out->word_count];
        memcpy(own, &code->words[l->word_begin + head], words * sizeof *own);
        own->value = out->blocks;
        out->word_count += words;
        out->blocks += l->blocks;
    }
}
