/* SPDX-License-Identifier: Apache-2.0 */
/* The values that persistent buffers hold are not followed: they go from step to step. */
#include "accesses.h"

#include "check.h"

#include <pthread.h>
#include <stdlib.h>

struct use { /* of a buffer */
    uint32_t held;
    uint32_t readers, writers; /* that are at it now */
    uint32_t user;             /* the last command that came */
};

struct accesses {
    const struct remat_program *p;
    bool borrows;             /* the next two */
    uint32_t *begin, *others; /* those that share bytes with b: others[begin[b]] ... */
    pthread_mutex_t mutex;    /* of all that follows */
    struct use *uses;         /* [buffer] */
    char message[512];
};

static bool share_bytes(const struct remat_buffer *a, const struct remat_buffer *b)
{
    return a->offset_bytes < b->offset_bytes + b->bytes &&
           b->offset_bytes < a->offset_bytes + a->bytes;
}

/* Only counts where there is no list yet. */
static uint32_t list_others(struct accesses *a)
{
    uint32_t count = 0, buffers = a->p->buffer_count;
    for (uint32_t b = 0; b < buffers; b++) {
        a->begin[b] = count;
        for (uint32_t o = 0; o < buffers; o++) {
            if (o == b || !share_bytes(&a->p->buffers[b], &a->p->buffers[o]))
                continue;
            if (a->others)
                a->others[count] = o;
            count++;
        }
    }
    a->begin[buffers] = count;
    return count;
}

struct accesses *accesses_create(const struct remat_program *program, const struct accesses *other)
{
    struct accesses *a = calloc(1, sizeof *a);
    MUST(a);
    *a = (struct accesses){.p = program, .borrows = other != NULL};
    a->begin = other ? other->begin : calloc(program->buffer_count + (size_t)1, sizeof *a->begin);
    a->uses = calloc(program->buffer_count + (size_t)1, sizeof *a->uses);
    MUST(a->begin && a->uses);
    a->others = other ? other->others : calloc(list_others(a) + (size_t)1, sizeof *a->others);
    MUST(a->others);
    if (!other)
        list_others(a);
    for (uint32_t b = 0; b < program->buffer_count; b++)
        a->uses[b].held = REMAT_NONE;
    pthread_mutex_init(&a->mutex, NULL);
    return a;
}

void accesses_destroy(struct accesses **accesses)
{
    struct accesses *a = *accesses;
    *accesses = NULL;
    if (!a)
        return;
    pthread_mutex_destroy(&a->mutex);
    if (!a->borrows) {
        free(a->begin);
        free(a->others);
    }
    free(a->uses);
    free(a);
}

const char *accesses_message(const struct accesses *accesses)
{
    return accesses->message;
}

static void complain(struct accesses *a, uint32_t command, uint32_t buffer, const char *what,
                     const char *whose)
{
    if (!*a->message)
        snprintf(a->message, sizeof a->message, "commands[%u] \"%.100s\": buffer %u %s \"%.100s\"",
                 command, a->p->commands[command].name, buffer, what, whose);
}

/* Of bytes that the command uses, and of which `buffer` has some too. */
static void check_use(struct accesses *a, uint32_t command, uint32_t buffer, bool writes)
{
    const struct use *use = &a->uses[buffer];
    if (use->writers || (writes && use->readers))
        complain(a, command, buffer,
                 use->writers ? "is being written by" : "is still being read by",
                 a->p->commands[use->user].name);
}

static void enter(struct accesses *a, uint32_t command, const struct remat_operand *o)
{
    const struct remat_program *p = a->p;
    uint32_t buffer = p->values[o->value].buffer;
    uint32_t read = o->access == REMAT_ACCESS_UPDATE ? o->previous : o->value;
    bool writes = (o->access & REMAT_ACCESS_WRITE) != 0;
    struct use *use = &a->uses[buffer];
    check_use(a, command, buffer, writes);
    for (uint32_t k = a->begin[buffer]; k < a->begin[buffer + 1]; k++) {
        check_use(a, command, a->others[k], writes);
        if (writes)
            a->uses[a->others[k]].held = REMAT_NONE;
    }
    if (!p->buffers[buffer].persistent && o->access != REMAT_ACCESS_WRITE && use->held != read)
        complain(a, command, buffer, "holds no more, or not yet,", p->values[read].name);
}

static void mark_use(struct accesses *a, uint32_t command, const struct remat_operand *o, int by)
{
    struct use *use = &a->uses[a->p->values[o->value].buffer];
    uint32_t *users = o->access & REMAT_ACCESS_WRITE ? &use->writers : &use->readers;
    *users += (uint32_t)by;
    if (by > 0)
        use->user = command;
    else if (o->access & REMAT_ACCESS_WRITE)
        use->held = o->value;
}

void accesses_begin(struct accesses *accesses, uint32_t command)
{
    const struct remat_command *c = &accesses->p->commands[command];
    pthread_mutex_lock(&accesses->mutex);
    for (uint32_t k = c->operand_begin; k < c->operand_end; k++)
        enter(accesses, command, &accesses->p->operands[k]);
    for (uint32_t k = c->operand_begin; k < c->operand_end; k++)
        mark_use(accesses, command, &accesses->p->operands[k], 1);
    pthread_mutex_unlock(&accesses->mutex);
}

void accesses_end(struct accesses *accesses, uint32_t command)
{
    const struct remat_command *c = &accesses->p->commands[command];
    pthread_mutex_lock(&accesses->mutex);
    for (uint32_t k = c->operand_begin; k < c->operand_end; k++)
        mark_use(accesses, command, &accesses->p->operands[k], -1);
    pthread_mutex_unlock(&accesses->mutex);
}
