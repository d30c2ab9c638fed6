/* SPDX-License-Identifier: Apache-2.0 */
/* Among threads rank 0 reads what the others have. Among processes a trace comes in pieces, one
 * rank after the other, and a profile command by command. */
#include "ranks.h"

#include <stdlib.h>

struct record_piece {
    uint64_t bytes; /* 0: there is no more */
    char text[65528];
};

/* --- threads --- */

static remat_status append_part(remat_context *ctx, struct chrome_trace *part,
                                struct chrome_trace *trace)
{
    char text[4096];
    size_t bytes;
    while ((bytes = chrome_trace_read_part(part, text, sizeof text)) > 0)
        chrome_trace_append(trace, text, bytes);
    return chrome_trace_check_part(ctx, part);
}

static remat_status collect_threads(remat_context *ctx, struct ranks *ranks,
                                    struct chrome_trace *trace, struct profiler *profiler)
{
    remat_status st = REMAT_OK;
    for (uint32_t r = 1; r < ranks_here(ranks); r++) {
        struct records *records = ranks_records(ranks, r);
        if (trace)
            RUN_TRY(append_part(ctx, &records->trace, trace));
        for (uint32_t c = 0; profiler && c < profiler->command_count; c++)
            profiler_merge(profiler, c, &records->profiler.commands[c].runs);
    }
fail:
    return st;
}

/* --- processes --- */

static remat_status collect_part(remat_context *ctx, struct ranks *ranks, uint32_t rank,
                                 struct chrome_trace *trace, struct record_piece *mine,
                                 struct record_piece *all)
{
    remat_status st = REMAT_OK;
    uint32_t me = ranks_first(ranks);
    do {
        mine->bytes = rank == me ? chrome_trace_read_part(trace, mine->text, sizeof mine->text) : 0;
        RUN_TRY(ranks_gather(ranks, "trace", mine, sizeof *mine, all));
        if (me == 0)
            chrome_trace_append(trace, all[rank].text, all[rank].bytes);
    } while (all[rank].bytes);
    if (rank == me)
        RUN_TRY(chrome_trace_check_part(ctx, trace));
fail:
    return st;
}

static remat_status collect_trace(remat_context *ctx, struct ranks *ranks,
                                  struct chrome_trace *trace)
{
    remat_status st = REMAT_OK;
    struct record_piece *all = calloc(ranks_count(ranks) + 1, sizeof *all);
    if (!all)
        return cli_error(ctx, REMAT_ERROR_MEMORY, "out of memory");
    for (uint32_t r = 1; r < ranks_count(ranks); r++)
        RUN_TRY(collect_part(ctx, ranks, r, trace, &all[ranks_count(ranks)], all));
fail:
    free(all);
    return st;
}

static remat_status collect_profile(remat_context *ctx, struct ranks *ranks,
                                    struct profiler *profiler)
{
    remat_status st = REMAT_OK;
    struct profiler_runs *all = calloc(ranks_count(ranks), sizeof *all);
    if (!all)
        return cli_error(ctx, REMAT_ERROR_MEMORY, "out of memory");
    for (uint32_t c = 0; c < profiler->command_count; c++) {
        RUN_TRY(ranks_gather(ranks, "profile", &profiler->commands[c].runs, sizeof *all, all));
        for (uint32_t r = 1; r < ranks_count(ranks) && ranks_first(ranks) == 0; r++)
            profiler_merge(profiler, c, &all[r]);
    }
fail:
    free(all);
    return st;
}

remat_status records_collect(remat_context *ctx, struct ranks *ranks, struct chrome_trace *trace,
                             struct profiler *profiler)
{
    remat_status st = REMAT_OK;
    if (ranks_here(ranks) == ranks_count(ranks))
        return collect_threads(ctx, ranks, trace, profiler);
    if (trace)
        RUN_TRY(collect_trace(ctx, ranks, trace));
    if (profiler)
        RUN_TRY(collect_profile(ctx, ranks, profiler));
fail:
    return st;
}
