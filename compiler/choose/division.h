/* SPDX-License-Identifier: Apache-2.0 */
/* How a step is divided, among ranks and into microbatches. */
#ifndef REMAT_DIVISION_H
#define REMAT_DIVISION_H

#include "request.h"

enum remat_division_outcome {
    REMAT_DIVISION_UNTRIED,
    REMAT_DIVISION_PLANNED,
    REMAT_DIVISION_SLOWER,     /* by its bound, than the REMAT_DIVISIONS_BEST fastest */
    REMAT_DIVISION_TOO_LARGE,  /* nothing fits */
    REMAT_DIVISION_IMPOSSIBLE, /* the graph cannot be divided like this */
    REMAT_DIVISION_OUTCOMES
};

enum { REMAT_DIVISIONS_BEST = 10 };

struct remat_division_trial {
    struct remat_mesh mesh;
    bool sequence_parallel;
    uint32_t zero, microbatches;
    uint32_t number; /* in the order of enumeration: of equals, the smaller one is taken */
    enum remat_division_outcome outcome;
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
bool remat_division_asked(const struct remat_asked *asked);
bool remat_division_is_auto(const struct remat_asked *asked);

struct remat_division_text {
    char text[160];
};
/* "--mesh dp=4,tp=2 --sequence-parallel --zero 1 --microbatches 8" */
struct remat_division_text remat_division_options(const struct remat_division_trial *division);

struct remat_divisions;
/* The request for this division, in the order of the given one; NULL: what is given, with the
 * global batch as a binding. */
remat_status remat_division_arguments(struct remat_arena *arena,
                                      const struct remat_divisions *divisions,
                                      const struct remat_division_trial *division,
                                      struct remat_asked *out);

/* Fills in command and flags. */
remat_status remat_division_describe(struct remat_arena *arena,
                                     const struct remat_divisions *divisions,
                                     struct remat_division_trial *division);

/* The policy that flags of the system come with; NULL: there is none. */
const struct remat_manual *remat_division_manual(const struct remat_division_trial *division,
                                                 enum remat_system system);

/* As one word of a shell. */
void remat_shell_word_append(struct remat_text *out, const char *word);

#endif
