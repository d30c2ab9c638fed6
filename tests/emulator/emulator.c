/* Fibres: each has a stack and a saved stack pointer; the scheduler picks the next ready one. A
 * fault leaves its fibre for good, which is well since kernels own nothing. */
#include "emulator.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STACK_BYTES   (96 * 1024)
#define THREADS_MAX   1024
#define SHARED_FLOATS (64 * 1024)
#define NOBODY        UINT32_MAX
#define SEVERAL       (UINT32_MAX - 1) /* warps of a block, or blocks */

enum state { READY, AT_BARRIER, AT_WARP_BARRIER, AT_SHUFFLE, FINISHED };

struct fibre {
    void *stack_pointer;
    char *stack;
    enum state state;
    int line; /* of what it waits at */
    uint32_t mask;
    float value; /* to and from a shuffle */
};

/* When somebody last was at a place: barriers passed by its block and by its warp. */
struct visit {
    uint32_t block, thread, barriers, warp_barriers;
    bool by_several; /* of that thread's warp */
};
struct cell {
    uint32_t epoch; /* launch (global) or block (shared) that the visits are of */
    struct visit writer, reader;
};

struct emulator {
    const char *memory;
    uint64_t bytes;
    struct cell *cells; /* of 2 bytes of memory */
    struct cell *shared_cells;
    float *shared;
    uint32_t shared_count; /* floats of the block; 0: not asked for yet */
    struct fibre fibres[THREADS_MAX];
    const struct emulator_launch *launch;
    uint32_t epoch, shared_epoch;
    uint32_t block, thread; /* running */
    uint32_t barriers, warp_barriers[THREADS_MAX / 32];
    uint64_t random;
    void *scheduler;
    bool faulty;
    char message[256];
};

static struct emulator *running; /* kernels know nothing of emulators */

void emulator_switch(void **save, void *to);
__asm__(".text\n.globl emulator_switch\n.type emulator_switch, @function\nemulator_switch:\n"
        "push %rbp\npush %rbx\npush %r12\npush %r13\npush %r14\npush %r15\n"
        "mov %rsp, (%rdi)\nmov %rsi, %rsp\n"
        "pop %r15\npop %r14\npop %r13\npop %r12\npop %rbx\npop %rbp\nret\n"
        ".size emulator_switch, .-emulator_switch\n");

static void leave(void)
{
    struct emulator *e = running;
    emulator_switch(&e->fibres[e->thread].stack_pointer, e->scheduler);
}

#define FAULT(...)                                                                                 \
    do {                                                                                           \
        if (!running->faulty) {                                                                    \
            int length_ = snprintf(running->message, sizeof running->message,                      \
                                   "block %u thread %u: ", running->block, running->thread);       \
            snprintf(running->message + length_, sizeof running->message - (size_t)length_,        \
                     __VA_ARGS__);                                                                 \
            running->faulty = true;                                                                \
        }                                                                                          \
        leave();                                                                                   \
    } while (0)

/* --- what kernels call --- */
uint32_t emulator_thread_index(void);
uint32_t emulator_block_index(void);
void emulator_barrier(int line);
void emulator_warp_barrier(int line);
float emulator_shuffle_xor(float x, uint32_t mask, int line);
float *emulator_shared(uint32_t floats);
void emulator_shared_access(const float *shared, uint32_t i, int writes);
void emulator_access(const void *p, uint32_t bytes, int writes);

uint32_t emulator_thread_index(void)
{
    return running->thread;
}

uint32_t emulator_block_index(void)
{
    return running->block;
}

static void wait_at(enum state state, int line)
{
    struct fibre *fibre = &running->fibres[running->thread];
    fibre->state = state;
    fibre->line = line;
    leave();
}

void emulator_barrier(int line)
{
    wait_at(AT_BARRIER, line);
}

void emulator_warp_barrier(int line)
{
    wait_at(AT_WARP_BARRIER, line);
}

float emulator_shuffle_xor(float x, uint32_t mask, int line)
{
    struct fibre *fibre = &running->fibres[running->thread];
    if (mask >= 32)
        FAULT("shuffle by %u", mask);
    fibre->value = x;
    fibre->mask = mask;
    wait_at(AT_SHUFFLE, line);
    return fibre->value;
}

float *emulator_shared(uint32_t floats)
{
    struct emulator *e = running;
    if (floats > 48 * 1024 / 4)
        FAULT("%u floats of shared memory, more than the 48 KiB that every GPU gives", floats);
    if (e->shared_count && e->shared_count != floats)
        FAULT("shared memory of two sizes");
    e->shared_count = floats;
    return e->shared;
}

static bool is_ordered(const struct visit *then, const struct visit *now)
{
    if (then->thread == NOBODY)
        return true;
    if (then->block != now->block)
        return false;
    return (then->thread == now->thread && !then->by_several) || then->barriers != now->barriers ||
           (then->thread / 32 == now->thread / 32 && then->warp_barriers != now->warp_barriers);
}

static struct visit add_reader(const struct visit *then, const struct visit *now)
{
    struct visit both = *now;
    if (then->thread == NOBODY || (then->block == now->block && then->barriers != now->barriers))
        return both;
    if (then->block != now->block)
        both.block = SEVERAL;
    if (then->thread / 32 != now->thread / 32)
        both.thread = SEVERAL;
    if (then->warp_barriers == now->warp_barriers)
        both.by_several = then->by_several || then->thread != now->thread;
    return both;
}

/* False: a race. */
static bool visit_cell(struct emulator *e, struct cell *cell, uint32_t epoch, bool writes)
{
    const struct visit nobody = {NOBODY, NOBODY, 0, 0, false};
    struct visit now = {e->block, e->thread, e->barriers, e->warp_barriers[e->thread / 32], false};
    if (cell->epoch != epoch)
        *cell = (struct cell){epoch, nobody, nobody};
    if (!is_ordered(&cell->writer, &now) || (writes && !is_ordered(&cell->reader, &now)))
        return false;
    if (writes)
        cell->writer = now;
    else
        cell->reader = add_reader(&cell->reader, &now);
    return true;
}

void emulator_shared_access(const float *shared, uint32_t i, int writes)
{
    struct emulator *e = running;
    uint64_t at = (uint64_t)(shared - e->shared) + i;
    if (at >= e->shared_count)
        FAULT("%s float %llu of %u in shared memory", writes ? "writes" : "reads",
              (unsigned long long)at, e->shared_count);
    struct cell *cell = &e->shared_cells[at];
    if (!writes && (cell->epoch != e->shared_epoch || cell->writer.thread == NOBODY))
        FAULT("reads float %llu of shared memory, which nobody wrote", (unsigned long long)at);
    if (!visit_cell(e, cell, e->shared_epoch, writes))
        FAULT("%s float %llu of shared memory without a barrier after another thread did",
              writes ? "writes" : "reads", (unsigned long long)at);
}

static bool is_allowed(const struct emulator_launch *launch, const char *p, uint32_t bytes,
                       bool writes)
{
    for (uint32_t r = 0; r < launch->range_count; r++) {
        const struct emulator_range *range = &launch->ranges[r];
        if (p >= range->begin && p + bytes <= range->end && (writes ? range->write : range->read))
            return true;
    }
    return false;
}

void emulator_access(const void *p, uint32_t bytes, int writes)
{
    struct emulator *e = running;
    const char *verb = writes ? "writes" : "reads";
    uint64_t at = (uint64_t)((const char *)p - e->memory);
    if (at >= e->bytes || !is_allowed(e->launch, p, bytes, writes))
        FAULT("%s %u bytes at %lld, which it may not", verb, bytes, (long long)at);
    if (at % bytes != 0)
        FAULT("%s %u bytes at %llu, which is not aligned", verb, bytes, (unsigned long long)at);
    for (uint64_t cell = at / 2; cell < (at + bytes) / 2; cell++)
        if (!visit_cell(e, &e->cells[cell], e->epoch, writes))
            FAULT("%s %u bytes at %llu without a barrier after another thread did", verb, bytes,
                  (unsigned long long)at);
}

/* --- scheduling --- */

static void start_fibre(void)
{
    struct emulator *e = running;
    e->launch->kernel(e->launch->arguments);
    e->fibres[e->thread].state = FINISHED;
    leave();
}

static bool prepare_fibres(struct emulator *e)
{
    for (uint32_t t = 0; t < e->launch->threads; t++) {
        struct fibre *fibre = &e->fibres[t];
        if (!fibre->stack && !(fibre->stack = aligned_alloc(64, STACK_BYTES)))
            return false;
        /* A return into start_fibre, with the stack as after a call, and six saved registers. */
        void **top = (void **)(void *)(fibre->stack + STACK_BYTES - 64);
        *--top = NULL;
        *--top = (void *)start_fibre;
        top -= 6;
        memset(top, 0, 6 * sizeof *top);
        fibre->stack_pointer = top;
        fibre->state = READY;
    }
    return true;
}

static uint32_t draw(struct emulator *e, uint32_t limit)
{
    e->random = e->random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(e->random >> 33) % limit;
}

/* The next ready thread after the one that ran; NOBODY without any. */
static uint32_t pick(struct emulator *e)
{
    uint32_t count = e->launch->threads;
    uint32_t start = e->launch->order ? draw(e, count) : e->thread;
    uint32_t stride = e->launch->order ? 1 + 2 * draw(e, 16) : 1;
    for (uint32_t k = 0; k < count; k++) {
        uint32_t t = (start + k * stride) % count;
        if (e->fibres[t].state == READY)
            return t;
    }
    for (uint32_t t = 0; t < count; t++)
        if (e->fibres[t].state == READY)
            return t;
    return NOBODY;
}

static bool all_wait(const struct emulator *e, uint32_t begin, uint32_t end, enum state state)
{
    for (uint32_t t = begin; t < end; t++)
        if (e->fibres[t].state != state || e->fibres[t].line != e->fibres[begin].line ||
            (state == AT_SHUFFLE && e->fibres[t].mask != e->fibres[begin].mask))
            return false;
    return true;
}

static void release(struct emulator *e, uint32_t begin, uint32_t end)
{
    float values[32];
    for (uint32_t t = begin; t < end; t++)
        if (e->fibres[t].state == AT_SHUFFLE)
            values[t - begin] = e->fibres[begin + ((t - begin) ^ e->fibres[t].mask)].value;
    for (uint32_t t = begin; t < end; t++) {
        if (e->fibres[t].state == AT_SHUFFLE)
            e->fibres[t].value = values[t - begin];
        e->fibres[t].state = READY;
    }
}

/* Lets those go on who have all met. False: nobody can. */
static bool meet(struct emulator *e)
{
    bool any = false;
    for (uint32_t begin = 0; begin < e->launch->threads; begin += 32)
        for (int state = AT_WARP_BARRIER; state <= AT_SHUFFLE; state++)
            if (all_wait(e, begin, begin + 32, (enum state)state)) {
                e->warp_barriers[begin / 32] += state == AT_WARP_BARRIER;
                release(e, begin, begin + 32);
                any = true;
            }
    if (!any && all_wait(e, 0, e->launch->threads, AT_BARRIER)) {
        e->barriers++;
        release(e, 0, e->launch->threads);
        any = true;
    }
    return any;
}

static void report_stuck(struct emulator *e)
{
    static const char *const places[] = {"ready", "a barrier", "a warp's barrier", "a shuffle"};
    e->faulty = true;
    for (uint32_t t = 0; t < e->launch->threads; t++)
        if (e->fibres[t].state != FINISHED) {
            snprintf(e->message, sizeof e->message,
                     "block %u thread %u: waits at %s, line %d, that others do not reach", e->block,
                     t, places[e->fibres[t].state], e->fibres[t].line);
            return;
        }
}

static void run_block(struct emulator *e)
{
    e->barriers = 0;
    memset(e->warp_barriers, 0, sizeof e->warp_barriers);
    e->shared_epoch++;
    for (;;) {
        uint32_t next = pick(e);
        if (next != NOBODY) {
            e->thread = next;
            emulator_switch(&e->scheduler, e->fibres[next].stack_pointer);
            if (e->faulty)
                return;
        } else if (!meet(e)) {
            break;
        }
    }
    for (uint32_t t = 0; t < e->launch->threads && !e->faulty; t++)
        if (e->fibres[t].state != FINISHED)
            report_stuck(e);
}

const char *emulator_run(struct emulator *e, const struct emulator_launch *launch)
{
    running = e;
    e->launch = launch;
    e->random = launch->order;
    e->faulty = false;
    e->shared_count = 0;
    e->epoch++;
    uint32_t shift = launch->order ? draw(e, launch->blocks) : 0;
    for (uint32_t b = 0; b < launch->blocks && !e->faulty; b++) {
        e->block = (b + shift) % launch->blocks;
        e->thread = 0;
        if (!prepare_fibres(e))
            return "out of memory";
        run_block(e);
    }
    running = NULL;
    return e->faulty ? e->message : NULL;
}

struct emulator *emulator_create(const void *memory, uint64_t bytes)
{
    struct emulator *e = calloc(1, sizeof *e);
    if (!e)
        return NULL;
    e->memory = memory;
    e->bytes = bytes;
    e->cells = calloc(bytes / 2 + 1, sizeof *e->cells);
    e->shared = malloc(SHARED_FLOATS * sizeof *e->shared);
    e->shared_cells = calloc(SHARED_FLOATS, sizeof *e->shared_cells);
    if (!e->cells || !e->shared || !e->shared_cells)
        emulator_destroy(&e);
    return e;
}

void emulator_destroy(struct emulator **emulator)
{
    struct emulator *e = *emulator;
    if (!e)
        return;
    for (uint32_t t = 0; t < THREADS_MAX; t++)
        free(e->fibres[t].stack);
    free(e->cells);
    free(e->shared);
    free(e->shared_cells);
    free(e);
    *emulator = NULL;
}
