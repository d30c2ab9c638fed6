/* SPDX-License-Identifier: Apache-2.0 */
/* Out of memory at any point of a compilation is an error with a message, and leaks nothing. */
#include <stdio.h>
#include <stdlib.h>

#include "harness.h"

struct failing { /* fails the allocation number `fail_at`, counted from 1 */
    uint64_t count, fail_at;
    int64_t live;
};

static void *failing_reallocate(void *user, void *pointer, size_t bytes)
{
    struct failing *f = user;
    if (bytes == 0) {
        f->live -= pointer != NULL;
        free(pointer);
        return NULL;
    }
    if (++f->count == f->fail_at)
        return NULL;
    void *result = realloc(pointer, bytes);
    f->live += result && !pointer;
    return result;
}

/* Generates and compiles a small model; everything lies in one arena. */
static remat_status compile(void *user)
{
    remat_context *ctx = user;
    remat_status st = REMAT_OK;
    struct remat_arena *arena = remat_scratch_open(ctx);
    struct remat_model_settings sizes;
    struct remat_graph *graph;
    struct remat_program *program;
    struct remat_compile_settings settings = {.search.has_budget = true,
                                              .search.budget_bytes = 1000000000};
    REMAT_TRY(remat_model_preset(ctx, "gpt2-tiny", &sizes));
    sizes.layers = 2;
    REMAT_TRY(remat_model_generate(ctx, arena, &sizes, &graph));
    REMAT_TRY(remat_device_description_read(ctx, arena, "cpu", 0, &settings.device));
    REMAT_TRY(remat_compile(ctx, arena, graph, &settings, &program));
fail:
    return st; /* the guard closes the arena */
}

enum { SPARED_MAX = 5 };

int main(void)
{
    struct failing f = {0};
    uint64_t total = 0, refused = 0;
    for (f.fail_at = 0; f.fail_at == 0 || f.fail_at <= total; f.fail_at++) {
        f.count = 0;
        remat_context *ctx = remat_context_create(&(remat_allocator){failing_reallocate, &f}, NULL);
        if (ctx) {
            remat_status st = remat_guard(ctx, compile, ctx);
            CHECK(f.fail_at ? st == REMAT_ERROR_MEMORY || st == REMAT_OK : st == REMAT_OK,
                  "allocation %llu fails: status %d, \"%s\"", (unsigned long long)f.fail_at, st,
                  remat_context_message(ctx));
            CHECK(st == REMAT_OK || *remat_context_message(ctx), "no message");
            refused += st == REMAT_ERROR_MEMORY;
        }
        remat_context_destroy(&ctx);
        CHECK(f.live == 0, "allocation %llu fails: %lld blocks leak", (unsigned long long)f.fail_at,
              (long long)f.live);
        total = f.fail_at ? total : f.count;
    }
    /* A scratch arena that cannot get one block for what it held in several goes on with those. */
    CHECK(total > 10 && refused < total && refused + SPARED_MAX >= total,
          "%llu allocations, %llu refused", (unsigned long long)total, (unsigned long long)refused);
    printf("%llu allocations, each failed once\n", (unsigned long long)total);
    return check_exit();
}
