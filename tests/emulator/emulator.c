/* SPDX-License-Identifier: Apache-2.0 */
/* Fibres: each has a stack and a saved stack pointer; the scheduler picks the next ready one. A
 * fault leaves its fibre for good, which is well since kernels own nothing. */
#include "state.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define STACK_BYTES   (96 * 1024)
#define SHARED_FLOATS (64 * 1024)
#define NOBODY        UINT32_MAX
#define SEVERAL       UINT32_MAX        /* blocks */
#define SEVERAL_WARPS (UINT32_MAX >> 1) /* of a block, in place of a thread */

struct emulator *emulator_running;

void emulator_switch(void **save, void *to);
__asm__(".text\n.globl emulator_switch\n.type emulator_switch, @function\nemulator_switch:\n"
        "push %rbp\npush %rbx\npush %r12\npush %r13\npush %r14\npush %r15\n"
        "mov %rsp, (%rdi)\nmov %rsi, %rsp\n"
        "pop %r15\npop %r14\npop %r13\npop %r12\npop %rbx\npop %rbp\nret\n"
        ".size emulator_switch, .-emulator_switch\n");

static void leave(void)
{
    struct emulator *e = emulator_running;
    emulator_switch(&e->fibres[e->thread].stack_pointer, e->scheduler);
}

void emulator_fault(const char *format, ...)
{
    struct emulator *e = emulator_running;
    if (!e->faulty) {
        int length =
            snprintf(e->message, sizeof e->message, "block %u thread %u: ", e->block, e->thread);
        va_list list;
        va_start(list, format);
        vsnprintf(e->message + length, sizeof e->message - (size_t)length, format, list);
        va_end(list);
        e->faulty = true;
    }
    leave();
}

/* --- what kernels call --- */
uint32_t emulator_thread_index(void);
uint32_t emulator_block_index(void);
void emulator_barrier(int line);
void emulator_warp_barrier(int line);
float emulator_shuffle_xor(float x, uint32_t mask, int line);
uint32_t emulator_vote(int x, int line);
float *emulator_shared(uint32_t floats);
void emulator_shared_access(const float *shared, uint32_t i, int writes);
float emulator_shuffle_from(float x, uint32_t lane, int line);

uint32_t emulator_thread_index(void)
{
    return emulator_running->thread;
}

uint32_t emulator_block_index(void)
{
    return emulator_running->block;
}

void emulator_wait(enum state state, int line)
{
    struct fibre *fibre = &emulator_running->fibres[emulator_running->thread];
    fibre->state = state;
    fibre->line = line;
    leave();
}

void emulator_barrier(int line)
{
    emulator_wait(AT_BARRIER, line);
}

void emulator_warp_barrier(int line)
{
    emulator_wait(AT_WARP_BARRIER, line);
}

float emulator_shuffle_xor(float x, uint32_t mask, int line)
{
    struct fibre *fibre = &emulator_running->fibres[emulator_running->thread];
    if (mask >= 32)
        emulator_fault("shuffle by %u", mask);
    fibre->value = x;
    fibre->mask = mask;
    fibre->source = emulator_running->thread % 32 ^ mask;
    emulator_wait(AT_SHUFFLE, line);
    return fibre->value;
}

float emulator_shuffle_from(float x, uint32_t lane, int line)
{
    struct fibre *fibre = &emulator_running->fibres[emulator_running->thread];
    if (lane >= 32)
        emulator_fault("shuffle from lane %u", lane);
    fibre->value = x;
    fibre->mask = 0;
    fibre->source = lane;
    emulator_wait(AT_SHUFFLE, line);
    return fibre->value;
}

uint32_t emulator_vote(int x, int line)
{
    struct fibre *fibre = &emulator_running->fibres[emulator_running->thread];
    fibre->vote = (uint32_t)(x != 0);
    emulator_wait(AT_VOTE, line);
    return fibre->vote;
}

float *emulator_shared(uint32_t floats)
{
    struct emulator *e = emulator_running;
    if (floats > STATIC_BYTES_MAX / 4)
        emulator_fault("%u floats of shared memory, more than the 48 KiB that every GPU gives",
                       floats);
    if (e->shared_count && e->shared_count != floats)
        emulator_fault("shared memory of two sizes");
    e->shared_count = floats;
    return e->shared;
}

static bool is_ordered(const struct visit *then, const struct visit *now)
{
    if (then->block != now->block)
        return false;
    return (then->thread == now->thread && !then->by_several) || then->barriers != now->barriers ||
           (then->thread / 32 == now->thread / 32 && then->warp_barriers != now->warp_barriers);
}

enum access { READ, WRITE, FLAG };

/* Of accesses that need no order among themselves. */
static struct visit add_visit(const struct visit *then, const struct visit *now)
{
    struct visit both = *now;
    if (then->block == now->block && then->barriers != now->barriers)
        return both;
    if (then->block != now->block)
        both.block = SEVERAL;
    if (then->thread / 32 != now->thread / 32)
        both.thread = SEVERAL_WARPS;
    if (then->warp_barriers == now->warp_barriers)
        both.by_several = then->by_several || then->thread != now->thread;
    return both;
}

static struct visit visit_now(const struct emulator *e)
{
    return (struct visit){.block = e->block,
                          .thread = e->thread,
                          .barriers = e->barriers,
                          .warp_barriers = e->warp_barriers[e->thread / 32]};
}

/* False: a race. */
static bool visit_cell(struct cell *cell, uint32_t epoch, enum access access,
                       const struct visit *now)
{
    if (cell->epoch != epoch) {
        cell->epoch = epoch;
        cell->filling = cell->has_writer = cell->has_reader = cell->has_flagger = false;
    }
    if ((cell->has_writer && !is_ordered(&cell->writer, now)) ||
        (access != READ && cell->has_reader && !is_ordered(&cell->reader, now)) ||
        (access != FLAG && cell->has_flagger && !is_ordered(&cell->flagger, now)))
        return false;
    if (access == WRITE) {
        cell->writer = *now;
        cell->has_writer = true;
    } else if (access == READ) {
        cell->reader = cell->has_reader ? add_visit(&cell->reader, now) : *now;
        cell->has_reader = true;
    } else {
        cell->flagger = cell->has_flagger ? add_visit(&cell->flagger, now) : *now;
        cell->has_flagger = true;
    }
    return true;
}

void emulator_visit_shared(uint64_t at, bool writes)
{
    struct emulator *e = emulator_running;
    const char *verb = writes ? "writes" : "reads";
    unsigned long long place = at;
    if (at >= e->shared_count)
        emulator_fault("%s float %llu of %u in shared memory", verb, place, e->shared_count);
    struct cell *cell = &e->shared_cells[at];
    if (!writes && (cell->epoch != e->shared_epoch || !cell->has_writer))
        emulator_fault("reads float %llu of shared memory, which nobody wrote", place);
    const struct visit now = visit_now(e);
    if (!visit_cell(cell, e->shared_epoch, writes ? WRITE : READ, &now))
        emulator_fault("%s float %llu of shared memory without a barrier after another thread did",
                       verb, place);
    if (cell->filling)
        emulator_fault("%s float %llu of shared memory, which a copy has yet to fill", verb, place);
}

void emulator_shared_access(const float *shared, uint32_t i, int writes)
{
    emulator_visit_shared((uint64_t)(shared - emulator_running->shared) + i, writes);
}

static void touch(struct emulator_touch *t, const char *p, uint32_t bytes, bool writes)
{
    const char **begin = writes ? &t->write_begin : &t->read_begin;
    const char **end = writes ? &t->write_end : &t->read_end;
    *begin = !*end || p < *begin ? p : *begin;
    *end = !*end || p + bytes > *end ? p + bytes : *end;
    *(writes ? &t->written_bytes : &t->read_bytes) += bytes;
}

static bool allows(const struct emulator_range *range, const char *p, uint32_t bytes, bool writes)
{
    return p >= range->begin && p + bytes <= range->end && (writes ? range->write : range->read);
}

static bool is_allowed(struct emulator *e, const char *p, uint32_t bytes, bool writes)
{
    const struct emulator_launch *launch = e->launch;
    if (e->last && allows(e->last, p, bytes, writes))
        return true;
    for (uint32_t r = 0; r < launch->range_count; r++)
        if (allows(&launch->ranges[r], p, bytes, writes)) {
            if (launch->touched)
                touch(&launch->touched[r], p, bytes, writes);
            else
                e->last = &launch->ranges[r];
            return true;
        }
    return false;
}

static void visit_memory(const void *p, uint32_t bytes, enum access access)
{
    struct emulator *e = emulator_running;
    bool writes = access != READ;
    const char *verb = writes ? "writes" : "reads";
    uint64_t at = (uint64_t)((const char *)p - e->memory);
    if (at >= e->bytes || !is_allowed(e, p, bytes, writes))
        emulator_fault("%s %u bytes at %lld, which it may not", verb, bytes, (long long)at);
    if (at % bytes != 0)
        emulator_fault("%s %u bytes at %llu, which is not aligned", verb, bytes,
                       (unsigned long long)at);
    const struct visit now = visit_now(e);
    for (uint64_t cell = at / 2; cell < (at + bytes) / 2; cell++)
        if (!visit_cell(&e->cells[cell], e->epoch, access, &now))
            emulator_fault("%s %u bytes at %llu without a barrier after another thread did", verb,
                           bytes, (unsigned long long)at);
}

void emulator_access(const void *p, uint32_t bytes, int writes)
{
    visit_memory(p, bytes, writes ? WRITE : READ);
}

void emulator_flag(const void *p)
{
    visit_memory(p, 4, FLAG);
}

/* --- scheduling --- */

static uint32_t draw(struct emulator *e, uint32_t limit)
{
    e->random = e->random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(e->random >> 33) % limit;
}

static void make_ready(struct emulator *e, uint32_t thread)
{
    e->fibres[thread].state = READY;
    e->ready[e->ready_end++] = (uint16_t)thread;
}

/* Of those that are ready, which are none of them afterwards; NOBODY without any. */
static uint32_t pick(struct emulator *e)
{
    uint32_t count = e->ready_end - e->ready_begin;
    if (!count)
        return NOBODY;
    uint16_t *first = &e->ready[e->ready_begin++];
    uint16_t *picked = e->launch->order ? first + draw(e, count) : first;
    uint32_t thread = *picked;
    *picked = *first;
    return thread;
}

static void start_fibre(void)
{
    struct emulator *e = emulator_running;
    e->launch->kernel(&e->launch->arguments);
    e->fibres[e->thread].state = FINISHED;
    leave();
}

static bool prepare_fibres(struct emulator *e)
{
    e->ready_begin = e->ready_end = 0;
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
        fibre->copy_count = fibre->group = 0;
        make_ready(e, t);
    }
    return true;
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
    struct fibre *warp = &e->fibres[begin];
    float values[32];
    if (warp->state == AT_SHUFFLE) {
        for (uint32_t t = 0; t < 32; t++)
            values[t] = warp[warp[t].source].value;
        for (uint32_t t = 0; t < 32; t++)
            warp[t].value = values[t];
    }
    if (warp->state == AT_VOTE) {
        uint32_t votes = 0;
        for (uint32_t t = 0; t < 32; t++)
            votes |= warp[t].vote << t;
        for (uint32_t t = 0; t < 32; t++)
            warp[t].vote = votes;
    }
    if (warp->state == AT_MATRICES)
        emulator_give_matrices(warp);
    if (warp->state == AT_PRODUCT)
        emulator_give_product(warp);
    for (uint32_t t = begin; t < end; t++)
        make_ready(e, t);
}

/* Lets those go on who have all met. False: nobody can. */
static bool meet(struct emulator *e)
{
    bool any = false;
    e->ready_begin = e->ready_end = 0;
    for (uint32_t begin = 0; begin < e->launch->threads; begin += 32) {
        enum state state = e->fibres[begin].state;
        if (state < AT_WARP_BARRIER || state > AT_PRODUCT || !all_wait(e, begin, begin + 32, state))
            continue;
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
    static const char *const places[] = {"nothing",          "a barrier", "a warp's barrier",
                                         "a shuffle",        "a vote",    "matrices' read",
                                         "matrices' product"};
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
    emulator_running = e;
    e->launch = launch;
    e->last = NULL;
    e->random = launch->order;
    e->faulty = false;
    e->shared_count = launch->shared_bytes / 4;
    e->epoch++;
    if (launch->shared_bytes > TILE_BYTES_MAX)
        return "more shared memory than a block can have";
    if (launch->threads == 0 || launch->threads % 32 || launch->threads > THREADS_MAX)
        return "threads that are not whole warps, at most 1024";
    uint32_t shift = launch->order ? draw(e, launch->blocks) : 0;
    uint32_t begin = launch->only ? *launch->only : 0;
    uint32_t end = launch->only ? begin + 1 : launch->blocks;
    for (uint32_t b = begin; b < end && !e->faulty; b++) {
        e->block = (b + shift) % launch->blocks;
        e->thread = 0;
        if (!prepare_fibres(e))
            return "out of memory";
        run_block(e);
    }
    emulator_running = NULL;
    return e->faulty ? e->message : NULL;
}

struct emulator *emulator_create(const void *memory, uint64_t bytes)
{
    struct emulator *e = calloc(1, sizeof *e);
    if (!e)
        return NULL;
    e->memory = memory;
    e->bytes = bytes;
    e->cells = mmap(NULL, (bytes / 2 + 1) * sizeof *e->cells, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    e->cells = e->cells == MAP_FAILED ? NULL : e->cells;
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
    for (uint32_t t = 0; t < THREADS_MAX; t++) {
        free(e->fibres[t].stack);
        free(e->fibres[t].copies);
    }
    if (e->cells)
        munmap(e->cells, (e->bytes / 2 + 1) * sizeof *e->cells);
    free(e->shared);
    free(e->shared_cells);
    free(e);
    *emulator = NULL;
}
