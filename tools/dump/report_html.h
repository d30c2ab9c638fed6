/* SPDX-License-Identifier: Apache-2.0 */
/* --format html: a page that shows all of a plan, in a browser, and needs nothing else. */
#ifndef REMAT_DUMP_REPORT_HTML_H
#define REMAT_DUMP_REPORT_HTML_H

#include "dump.h"

remat_status dump_report_html(remat_context *ctx, struct remat_arena *arena,
                              const struct remat_program *program, const struct dump_asked *asked,
                              struct remat_text *out);

/* --- parts of it: report_step.c, report_curve.c, report_measured.c --- */

/* Positions on the axis of time: the segments of a step, each once, in its order. */
remat_status dump_step_json(remat_context *ctx, struct remat_arena *arena,
                            const struct remat_program *program, const struct dump_asked *asked,
                            struct dump_json *out);

/* "points" of a curve, as remat-compile --curve writes it, .csv or .json. REMAT_ERROR_INVALID,
 * REMAT_ERROR_IO. */
remat_status dump_curve_json(remat_context *ctx, struct remat_arena *arena, const char *path,
                             struct dump_json *out);

/* "events" of a trace, as remat-run --trace writes it: one for each command. The same errors. */
remat_status dump_measured_json(remat_context *ctx, struct remat_arena *arena,
                                const struct remat_program *program, const char *path,
                                struct dump_json *out);

#endif
