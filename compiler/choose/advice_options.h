/* SPDX-License-Identifier: Apache-2.0 */
/* The options that advice tries: a table. */
#ifndef REMAT_ADVICE_OPTIONS_H
#define REMAT_ADVICE_OPTIONS_H

#include "advice_facts.h"
#include "compile.h"

/* Bytes of a rank that options bear on. */
struct advice_demand {
    struct remat_static_parts parts;
    uint64_t logits_bytes; /* at the live peak, as values that are whole */
    uint64_t unused_bytes; /* of the device, beyond a budget that means all of it */
};

struct situation {
    const struct remat_graph *graph, *adapted; /* NULL: the graph cannot be made with adapters */
    const struct remat_compile_settings *settings;
    const struct remat_advice_facts *facts;
    struct remat_policy policy; /* that was given; no layers: none */
    bool refused;
    struct advice_demand demand;
};

enum advice_kind { UNITS, CHUNKS, CAPACITY, ZERO, STATES, ADAPTERS, KIND_COUNT };

#define ADVICE_LORA    "16" /* the rank of adapters */
#define ADVICE_GRAPH   "remat-graph"
#define ADVICE_COMPILE "remat-compile"

/* The first one of a kind that helps is said. */
struct advice_row {
    enum advice_kind kind;
    const char *tool, *options;
    /* Nothing changes where it does not apply; NULL: how much it saves is known when it is planned.
     */
    void (*lower)(const struct situation *s, struct advice_demand *demand);
    uint32_t zero; /* that it sets, as the next two */
    bool bf16_moments, no_master;
};
enum { ADVICE_ROW_COUNT = 9 };
extern const struct advice_row advice_rows[ADVICE_ROW_COUNT];

/* Changes what the option does. */
void advice_use(const struct advice_row *row, struct remat_graph *graph,
                struct remat_compile_settings *settings);

/* A policy that recomputes all its layers together. */
bool advice_is_one_unit(const struct situation *s);

#endif
