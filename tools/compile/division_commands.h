/* SPDX-License-Identifier: Apache-2.0 */
/* A division, and the words of its command, as they are typed. */
#ifndef REMAT_TOOLS_COMPILE_DIVISION_COMMANDS_H
#define REMAT_TOOLS_COMPILE_DIVISION_COMMANDS_H

#include "divisions.h"

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
