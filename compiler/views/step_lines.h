/* SPDX-License-Identifier: Apache-2.0 */
/* The lines of remat-run --log, or of --json: an object for each step. */
#ifndef REMAT_DUMP_STEP_LINES_H
#define REMAT_DUMP_STEP_LINES_H

#include "base.h"

enum step_figure { /* steps are whole numbers, others what docs/cli.md has under these names */
                   FIGURE_STEP,
                   FIGURE_LOSS,
                   FIGURE_EVAL_LOSS,
                   FIGURE_LR,
                   FIGURE_TOKENS,
                   FIGURE_TOKENS_PER_S,
                   FIGURE_STEP_NS,
                   FIGURE_UNIX_S,
                   FIGURES
};
extern const char *const step_figure_names[FIGURES];

struct step_line {
    double of[FIGURES]; /* NAN: the line has none, or null */
    bool resumed;       /* lines before it went beyond this step */
};

struct step_lines {
    struct step_line *items; /* steps ascend */
    size_t count;
    bool cut_off; /* the last line is left out, as it was not written to its end */
};

/* Whether it may be a log, and is no plan and no graph. */
bool step_lines_begin(const char *data, size_t bytes);

/* Where a run was resumed, lines of the same and later steps before that are left out. `name`
 * starts messages. REMAT_ERROR_INVALID: which line is no step's, and why. */
remat_status step_lines_read(remat_context *ctx, struct remat_arena *arena, const char *name,
                             const char *data, size_t bytes, struct step_lines *out);

/* If there are very many lines, leaves the first one, the last and, of each of some thousand
 * intervals, those with the minimum and maximum of each figure that is drawn, the first that is
 * resumed and the first whose loss is not finite. */
remat_status step_lines_thin(struct remat_arena *arena, struct step_lines *lines);

#endif
