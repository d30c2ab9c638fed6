/* SPDX-License-Identifier: Apache-2.0 */
/* The report on a plan that was made. */
#ifndef REMAT_PLAN_REPORT_H
#define REMAT_PLAN_REPORT_H

#include "planned.h"
#include "static_parts.h"

struct remat_report {
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
    const struct remat_sizes *sizes;         /* NULL: none was to be chosen */
    const struct remat_divisions *divisions; /* the same */
};

/* The report on a plan, but for its paths and advice, in `arena`. */
remat_status remat_report_plan(struct remat_arena *arena, const struct remat_planned *planned,
                               struct remat_report *out);

void remat_report_text(const struct remat_report *report, struct remat_text *out);
void remat_report_json(const struct remat_report *report, struct remat_text *out);
/* The member "advice", without what follows it. */
void remat_report_advice_json(const struct remat_advices *advices, struct remat_text *out);

#endif
