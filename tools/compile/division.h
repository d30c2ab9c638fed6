/* SPDX-License-Identifier: Apache-2.0 */
/* How a step is divided, among ranks and into microbatches. */
#ifndef REMAT_TOOLS_COMPILE_DIVISION_H
#define REMAT_TOOLS_COMPILE_DIVISION_H

#include "cli.h"
#include "compile.h"

enum division_outcome {
    DIVISION_UNTRIED,
    DIVISION_PLANNED,
    DIVISION_SLOWER,     /* by its bound, than the DIVISIONS_BEST fastest */
    DIVISION_TOO_LARGE,  /* nothing fits */
    DIVISION_IMPOSSIBLE, /* the graph cannot be divided like this */
    DIVISION_OUTCOMES
};

enum { DIVISIONS_BEST = 10 };

struct division {
    struct remat_mesh mesh;
    bool sequence_parallel;
    uint32_t zero, microbatches;
    uint32_t number; /* in the order of enumeration: of equals, the smaller one is taken */
    enum division_outcome outcome;
    struct remat_bound bound; /* floor_bytes 0: not known */
    bool in_pieces;           /* nothing fits unless gradients are exchanged in smaller pieces */
    remat_status refusal;     /* of one that is impossible, with its message */
    const char *why;
    /* Set where it was planned: */
    const char *policy;
    uint64_t step_ns, peak_bytes;
    struct remat_manual manuals[REMAT_SYSTEM_COUNT];
    uint32_t manual_count;
    /* Set where it is one of the best: */
    const char *command;                   /* that makes exactly this plan */
    const char *flags[REMAT_SYSTEM_COUNT]; /* the whole setting there, with the nearest policy;
                                              NULL: the system cannot say it */
};

/* Whether the options leave a division to be chosen, and whether its microbatches are `auto`. */
bool division_asked(const struct cli_arguments *args);
bool division_is_auto(const struct cli_arguments *args);

struct division_text {
    char text[160];
};
/* "--mesh dp=4,tp=2 --sequence-parallel --zero 1 --microbatches 8" */
struct division_text division_options(const struct division *division);

struct divisions;
/* The arguments with which this division is compiled, in the order of the given ones. */
remat_status division_arguments(struct remat_arena *arena, const struct divisions *divisions,
                                const struct division *division, struct cli_arguments *out);

/* Fills in command and flags. */
remat_status division_describe(struct remat_arena *arena, const struct divisions *divisions,
                               struct division *division);

/* The policy that flags of the system come with; NULL: there is none. */
const struct remat_manual *division_manual(const struct division *division,
                                           enum remat_system system);

/* As one word of a shell. */
void shell_word_append(struct remat_text *out, const char *word);

#endif
