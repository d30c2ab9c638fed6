/* SPDX-License-Identifier: Apache-2.0 */
/* The report of remat-compile on the plan it has made, on standard output. */
#ifndef REMAT_TOOLS_COMPILE_REPORT_H
#define REMAT_TOOLS_COMPILE_REPORT_H

#include "advice.h"
#include "compile.h"
#include "curve.h"
#include "divisions.h"
#include "sizes.h"
#include "static_parts.h"

struct report {
    struct remat_program *program;   /* NULL: only a curve was asked for */
    struct remat_static_parts parts; /* of its persistent memory */
    const uint8_t *layer_extents;    /* remat_program_layer_extents */
    const char *path;                /* of the plan */
    /* plan_lines.h; "": nothing */
    const char *manuals, *costs, *certificate;
    const char *profile_beside;        /* not used, costs name it; NULL: none */
    struct remat_advices advices;      /* that make it faster or smaller */
    const struct remat_policy *chosen; /* before pins; NULL: there are none */
    const struct remat_front *front;   /* NULL: no curve */
    const char *curve_path;
    struct curve_picture picture;            /* of a curve that is drawn */
    const struct remat_sizes *sizes;         /* NULL: none was to be chosen */
    const struct remat_divisions *divisions; /* the same */
    struct remat_text explanation;           /* for --explain */
};

/* The member "advice", without what follows it. */
void report_print_json_advice(const struct remat_advices *advices);
void report_print_text(const struct report *report);
void report_print_json(const struct report *report);

#endif
