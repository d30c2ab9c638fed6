/* SPDX-License-Identifier: Apache-2.0 */
/* Settings of remat_compile. */
#ifndef REMAT_COMPILE_SETTINGS_H
#define REMAT_COMPILE_SETTINGS_H

#include "device_description.h"
#include "graph.h"
#include "passes.h"
#include "program.h"
#include "search_settings.h"

struct remat_compile_settings {
    struct remat_search_settings search;
    bool has_reserve;
    uint64_t reserve_bytes; /* replaces the device description's */
    struct remat_device_description device;
    uint32_t setting_count; /* recorded in the plan as given */
    const struct remat_setting *settings;
    const char *chosen_by; /* recorded in the plan; NULL: none */
    /* Called with the graph after each pass, for --print-after; NULL: not called. */
    void (*after_pass)(void *user, const char *pass, const struct remat_graph *graph);
    void *after_pass_user;
    /* Called with the CPU time of each pass and each stage (stopwatch.h), for -v, and how often it
     * ran. NULL: no clock is read. */
    void (*pass_time)(void *user, const char *pass, uint64_t ns, uint32_t runs);
    void *pass_time_user;
    /* Called again and again until there is a plan, or a point of the curve. True: the time limit
     * has passed, which ends compilation with REMAT_ERROR_CUT_SHORT. NULL: there is none. */
    bool (*is_late)(void *user); /* the user of search.is_over */
    bool needs_cuda;             /* a command without CUDA text is an error, not a note */
    bool without_cuda;           /* no CUDA text: the plan is looked at, not kept */
    bool explains;               /* an order has decisions */
    struct remat_mesh mesh;      /* of the ranks that run the plan */
    struct remat_pass_settings passes;
};

#endif
