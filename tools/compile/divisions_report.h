/* SPDX-License-Identifier: Apache-2.0 */
/* What is said of the divisions of a step that were compared, on standard output. */
#ifndef REMAT_TOOLS_COMPILE_DIVISIONS_REPORT_H
#define REMAT_TOOLS_COMPILE_DIVISIONS_REPORT_H

#include "divisions.h"

void divisions_print_text(const struct divisions *divisions);
void divisions_print_json(const struct divisions *divisions); /* a member, with a comma behind */

#endif
