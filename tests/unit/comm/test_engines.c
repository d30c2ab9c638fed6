/* SPDX-License-Identifier: Apache-2.0 */
/* Engines by their names. */
#include "check.h"

#include <remat/engine.h>
#include <remat/remat.h>

int main(void)
{
    remat_context *ctx = remat_context_create(NULL, NULL);
    static const char *const names[] = {"local", "mpi", "nccl"};
    remat_engine_kind kind = {.struct_size = sizeof kind};
    remat_engines *engines;
    remat_engine engine;
    uint32_t count = 0;
    while (remat_engine_kind_at(count, &kind)) {
        CHECK(count < 3 && strcmp(kind.name, names[count]) == 0, "kind %u: %s", count, kind.name);
        CHECK(!kind.on_device == (count < 2) && !kind.between_threads == (count == 1) &&
                  !kind.between_processes == (count == 0),
              "%s: what it connects", kind.name);
        count++;
    }
    CHECK(count == 3 && kind.struct_size == sizeof kind, "%u kinds", count);
    remat_engines_params params = {
        .struct_size = sizeof params, .kind = "local", .ranks = 2, .here = 2};
    MUST_OK(ctx, remat_engines_open(ctx, &params, &engines));
    remat_engines_get(engines, 1, &engine);
    CHECK(strcmp(engine.name, "local") == 0 && engine.rank == 1 && engine.ranks == 2,
          "%s, rank %u of %u", engine.name, engine.rank, engine.ranks);
    CHECK(remat_engines_device_bytes(engines, 1) == 0, "memory of a GPU");
    CHECK_OK(ctx, remat_engines_finish(engines), "finish");
    remat_engines_close(&engines);
    remat_engines_close(&engines);
    params.here = 1;
    CHECK_STATUS(ctx, remat_engines_open(ctx, &params, &engines), REMAT_ERROR_USAGE,
                 "1 of 2 ranks are threads");
    params.kind = "none";
    CHECK_STATUS(ctx, remat_engines_open(ctx, &params, &engines), REMAT_ERROR_USAGE,
                 "there is no engine \"none\"");
    params.struct_size = 8;
    CHECK_STATUS(ctx, remat_engines_open(ctx, &params, &engines), REMAT_ERROR_USAGE,
                 "parameters of 8 bytes");
    remat_context_destroy(&ctx);
    return check_exit();
}
