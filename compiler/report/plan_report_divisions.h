/* SPDX-License-Identifier: Apache-2.0 */
/* The part of a report that is about divisions. */
#ifndef REMAT_PLAN_REPORT_DIVISIONS_H
#define REMAT_PLAN_REPORT_DIVISIONS_H

#include "divisions.h"

void remat_divisions_text(const struct remat_divisions *divisions, struct remat_text *out);
/* A member of an object, with a comma after it. */
void remat_divisions_json(const struct remat_divisions *divisions, struct remat_text *out);

#endif
